// Pushing: what is to be pushed, one pass over it, and how long to pause.
#include <algorithm>

#include "base/assert.h"
#include "fs/ail/ail.h"

namespace tidewheel {

// Gives the lock up once, when the item asks; push_one_locked() takes it again.
class Ail::WalkScope final : public PushScope {
 public:
  explicit WalkScope(Ail& ail) : ail_(ail) {}
  // Not analysed: the item knows nothing of the lock it gives up.
  void drop_list_lock() override TW_NO_THREAD_SAFETY_ANALYSIS {
    if (dropped_) return;
    dropped_ = true;
    ail_.lock_.unlock();
  }
  bool dropped() const { return dropped_; }

 private:
  Ail& ail_;
  bool dropped_ = false;
};

// A quarter of the log is kept physically free, and as much as those who wait for space need. What counts for
// the quarter is the distance between the oldest and the newest item, not reservations: those come back by
// themselves.
void Ail::raise_target_locked() {
  if (items_.empty()) return;
  const Lsn newest = items_.back().lsn;
  if (push_all_ || empty_waiters_ != 0) {
    target_ = std::max(target_, newest);
    return;
  }
  target_ = std::max(target_, std::min(needed_tail_, newest));
  const Lsn oldest = items_.front().lsn;
  const std::uint64_t log_bytes = std::uint64_t{log_sectors_} * kLogSectorBytes;
  const std::uint64_t used = log_distance_bytes(oldest, newest, log_sectors_);
  const std::uint64_t keep = log_bytes / 4;
  const std::uint64_t free = log_bytes - std::min(used, log_bytes);
  if (free >= keep) return;
  const std::uint64_t sectors = (keep - free + kLogSectorBytes - 1) / kLogSectorBytes;
  target_ = std::max(target_, std::min(log_advance(oldest, sectors, log_sectors_), newest));
}

bool Ail::work_locked() const { return !shut_down_ && !items_.empty() && items_.front().lsn <= target_; }

void Ail::wake_if_work_locked() {
  raise_target_locked();
  if (work_locked()) wake_.notify_one();
}

void Ail::hurry_locked() {
  raise_target_locked();
  hurry_ = true;
  wake_.notify_one();
}

void Ail::push_all() {
  MutexLock hold(lock_);
  push_all_ = true;  // once: what is in now
  hurry_locked();
  push_all_ = false;
}

void Ail::set_needed_tail(Lsn tail) {
  MutexLock hold(lock_);
  const bool more = tail > needed_tail_;
  needed_tail_ = tail;
  if (more) hurry_locked();
}

Result<void> Ail::wait_empty() {
  MutexLock hold(lock_);
  ++empty_waiters_;
  hurry_locked();
  while (!items_.empty() && !shut_down_) emptied_.wait(lock_);
  --empty_waiters_;
  if (shut_down_) return TW_FAIL(kShutDown);
  return {};
}

void Ail::shut_down() {
  MutexLock hold(lock_);
  shut_down_ = true;
  hurry_ = true;
  wake_.notify_one();
  emptied_.notify_all();
}

void Ail::abandon_all() {
  for (;;) {
    LogItem* item = nullptr;
    {
      MutexLock hold(lock_);
      TW_ASSERT(shut_down_, "items are abandoned that could still be written");
      if (items_.empty()) return;
      item = &items_.front();
      unlink_locked(*item);
      ++stats_.removals;
      --stats_.items;
      publish_tail_locked();
      emptied_locked();
    }
    item->abandon();
  }
}

void Ail::end_idle() {
  MutexLock hold(lock_);
  idle_ended_ = true;
  wake_.notify_one();
}

void Ail::pause(Duration longest) {
  MutexLock hold(lock_);
  if (longest == Duration::max()) {
    while (!idle_ended_ && !hurry_ && !work_locked()) wake_.wait(lock_, CondVar::For::kWork);
  } else {
    wake_.wait_for(lock_, longest, [&] {
      lock_.assert_held();
      return idle_ended_ || hurry_;
    });
  }
  hurry_ = false;
  idle_ended_ = false;
}

// Before the walk, with no lock held: a force needs locks that stand above the AIL's, and one that waits
// would keep the log's completions, which insert here, from ever coming.
bool Ail::begin_walk() {
  bool force = false;
  {
    MutexLock hold(lock_);
    raise_target_locked();
    if (!work_locked()) {
      met_pinned_ = false;
      resume_ = nullptr;
      return false;
    }
    if (resume_ == nullptr) {
      ++stats_.walks;
      force = met_pinned_ && force_ != AilForce::kEachPass;
    }
    if (force) {
      met_pinned_ = false;
      ++stats_.forces;
    }
    ++stats_.passes;
  }
  if (force) forcer_.force(force_ == AilForce::kEachWalkWait ? ForceMode::kWait : ForceMode::kStart);
  return true;
}

// Not analysed: the item may give the lock up through the scope, and it is taken again here.
void Ail::push_one_locked(LogItem& item, Pass& pass) TW_NO_THREAD_SAFETY_ANALYSIS {
  ++pass.count;
  if (item.has(LogItem::kFlushing)) {
    ++pass.flushing;
    ++stats_.flushing;
    return;
  }
  WalkScope scope(*this);
  const PushResult result = item.push(scope);
  // The item may be gone from here on.
  if (scope.dropped()) lock_.lock();
  switch (result) {
    case PushResult::kPushed:
      ++stats_.pushed;
      break;
    case PushResult::kFlushing:
      ++pass.flushing;
      ++stats_.flushing;
      break;
    case PushResult::kPinned:
      ++pass.stuck;
      ++stats_.pinned;
      met_pinned_ = true;
      break;
    case PushResult::kLocked:
      ++pass.stuck;
      ++stats_.locked;
      break;
  }
}

Ail::Pass Ail::push_some() {
  Pass pass;
  MutexLock hold(lock_);
  LogItem* item = resume_ != nullptr ? resume_ : (items_.empty() ? nullptr : &items_.front());
  Lsn lsn = item != nullptr ? item->lsn : kNoLsn;
  while (!shut_down_ && pass.stuck <= kStuckLimit) {
    if (item == nullptr || item->lsn > target_) {
      pass.reached_target = true;
      break;
    }
    if (item->lsn != lsn && pass.count >= kItemsPerPass) break;
    lsn = item->lsn;
    resume_ = after_locked(*item);  // survives what push() lets happen
    push_one_locked(*item, pass);
    item = resume_;
  }
  resume_ = item;
  return pass;
}

Duration Ail::end_pass(const Pass& pass, std::uint32_t pinned_buffers) {
  bool force = false;
  Duration pause{0};
  {
    MutexLock hold(lock_);
    if (pinned_buffers != 0 && !items_.empty()) {
      met_pinned_ = true;
      stats_.pinned += pinned_buffers;
    }
    if (force_ == AilForce::kEachPass && met_pinned_) {
      met_pinned_ = false;
      ++stats_.forces;
      force = true;
    }
    if (shut_down_ || pass.count == 0) {
      resume_ = nullptr;
      pause = shut_down_ ? Duration::max() : kTargetReachedPause;
    } else if (pass.reached_target) {
      resume_ = nullptr;
      pause = kTargetReachedPause;
    } else if ((pass.stuck + pass.flushing) * 100 > pass.count * kStuckPercent) {
      // From the head, so that the walk begins with the force that its pinned items need.
      resume_ = nullptr;
      pause = kStuckPause;
    }
  }
  if (force) forcer_.force(ForceMode::kStart);
  return pause;
}

Duration Ail::walk() {
  if (!begin_walk()) return Duration::max();
  const Pass pass = push_some();
  return end_pass(pass, writer_.submit_pushed());
}

}  // namespace tidewheel
