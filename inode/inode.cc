#include "writeback/dirty_object.h"
