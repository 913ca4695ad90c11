#include "writeback/dirty_object.h"
#include "writeback/dirty_list.h"
#include "writeback/target.h"
