#include "writeback/engine.h"
