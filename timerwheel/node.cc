#include "timerwheel/node.h"
