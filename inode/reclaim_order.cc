#include "inode/reclaim_order.h"

#include "base/assert.h"

namespace tidewheel {

void ReclaimOrder::make_newest(LruItem& item, LruPlace queue) {
  TW_DASSERT(queue == LruPlace::kInactive || queue == LruPlace::kActive, "not a queue");
  if (item.hook.is_linked()) unlink(item);
  const bool active = queue == LruPlace::kActive;
  (active ? active_ : inactive_).push_front(item);
  ++(active ? active_length_ : inactive_length_);
  item.place_.store(static_cast<std::uint8_t>(queue), std::memory_order_relaxed);
}

void ReclaimOrder::unlink(LruItem& item) {
  const bool active = item.place() == LruPlace::kActive;
  Queue& queue = active ? active_ : inactive_;
  queue.erase(queue.iterator_to(item));
  --(active ? active_length_ : inactive_length_);
}

}  // namespace tidewheel
