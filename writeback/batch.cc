#include "writeback/batch.h"

namespace tidewheel {

namespace {

LockClass batch_lock_class{"batch", LockRank::kRetry};

}  // namespace

Batch::Batch() : lock_(batch_lock_class) {}

bool Batch::take(std::size_t slot, DirtyObject* object) {
  MutexLock hold(lock_);
  if (!published_ || slot >= slots_.size() || slots_[slot].object != object) return false;
  slots_[slot].object = nullptr;
  return true;
}

}  // namespace tidewheel
