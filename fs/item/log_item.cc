#include "fs/item/log_item.h"

#include "base/assert.h"
#include "fs/item/cil_entry.h"

namespace tidewheel {

LogItem::LogItem() = default;

LogItem::~LogItem() { TW_ASSERT(!in_ail, "a log item ends while it is in the AIL"); }

}  // namespace tidewheel
