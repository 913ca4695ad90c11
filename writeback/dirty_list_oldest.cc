// The oldest stamp, read beside everything else.
//
// The reader looks at the shards' lists, at the ladder, and last at the batches; each object that is dirty
// all the while he meets in one of them, or it was filed again behind his back. Claims go from where he looks
// first to where he looks last, and need no word. What goes the other way, from a batch to a list or to the
// ladder, is told to him (note_came_back), in the hold that files it: if he has been at that lock before,
// reading_ is seen there; if not, he finds the object there.
// Rejected: a snapshot under all locks (a hold as long as the list), and counting moves to begin anew when
// something has moved (beside a flusher that has no end).
#include "writeback/dirty_list_base.h"

namespace tidewheel {

Instant DirtyListBase::oldest_stamp(const std::function<Instant()>& in_batches) const {
  MutexLock alone(reading_lock_);
  StampReading reading{.id = ++readings_};
  came_back_ns_.store(INT64_MAX, std::memory_order_relaxed);
  reading_.store(true, std::memory_order_relaxed);
  for (const auto& each : shards_) {
    // Every lock, whatever the hint says: a claim that made it say "empty" is known to have begun by that.
    for (bool done = false; !done;) {
      ShardHold hold(*each);
      reading.left = kMaxClaim;
      done = look_for_oldest_locked(*each, reading);
    }
  }
  ladder_.look_for_oldest(reading);
  const Instant oldest = std::min(reading.least, in_batches());
  const Instant came_back{came_back_ns_.load(std::memory_order_relaxed)};
  reading_.store(false, std::memory_order_relaxed);
  return std::min(oldest, came_back);
}

bool DirtyListBase::look_for_oldest_locked(ListShard& home, StampReading& reading) const {
  reading.least = std::min(reading.least, oldest_of(home));
  return true;
}

void DirtyListBase::lower_came_back(Instant stamp) {
  std::int64_t now = came_back_ns_.load(std::memory_order_relaxed);
  while (stamp.ns < now && !came_back_ns_.compare_exchange(now, stamp.ns, std::memory_order_relaxed)) {
  }
}

}  // namespace tidewheel
