#include "fs/block/block_device.h"
