#include "fs/ail/ail.h"

#include <algorithm>

#include "base/assert.h"

namespace tidewheel {
namespace {

LockClass ail_class{"ail", LockRank::kAil};

}  // namespace

bool parse_ail_force(std::string_view text, AilForce& force) {
  if (text == "walk-async") {
    force = AilForce::kEachWalk;
  } else if (text == "walk-sync") {
    force = AilForce::kEachWalkWait;
  } else if (text == "pass") {
    force = AilForce::kEachPass;
  } else {
    return false;
  }
  return true;
}

Ail::Ail(const AilOptions& options, LogForcer& forcer, AilWriter& writer, TailListener& listener)
    : log_sectors_(options.log_sectors),
      force_(options.force),
      forcer_(forcer),
      writer_(writer),
      listener_(listener),
      lock_(ail_class) {
  TW_ASSERT(log_sectors_ > 0, "a log of nothing");
}

Ail::~Ail() {
  MutexLock hold(lock_);
  TW_ASSERT(items_.empty(), "the AIL ends with items in it");
  TW_ASSERT(cursors_.empty(), "the AIL ends before its cursors");
  TW_ASSERT(empty_waiters_ == 0, "the AIL ends while somebody waits for it");
}

// ---- the list ----

LogItem* Ail::after_locked(LogItem& item) {
  auto next = std::next(items_.iterator_to(item));
  return next == items_.end() ? nullptr : &*next;
}

void Ail::unlink_locked(LogItem& item) {
  LogItem* const next = after_locked(item);
  if (resume_ == &item) resume_ = next;
  for (Cursor& cursor : cursors_) {
    if (cursor.at_ == &item) cursor.at_ = next;
  }
  items_.erase(items_.iterator_to(item));
  item.in_ail = false;
}

// From the young end, where checkpoints that complete in order find their place at once.
void Ail::place_locked(LogItem& item, Lsn lsn) {
  auto at = items_.end();
  while (at != items_.begin() && std::prev(at)->lsn > lsn) {
    --at;
    ++stats_.insert_steps;
  }
  item.lsn = lsn;
  item.in_ail = true;
  items_.insert(at, item);
}

void Ail::note_hold_locked(std::uint64_t items) {
  stats_.max_per_hold = std::max(stats_.max_per_hold, items);
}

bool Ail::publish_tail_locked() {
  const Lsn tail = items_.empty() ? newest_checkpoint_ : items_.front().lsn;
  const Lsn before = Lsn{tail_word_.load(std::memory_order_relaxed)};
  // An item whose committed() kept an older place must still be in, or that place is free already.
  TW_ASSERT(tail >= before, "the log's tail moves back: something entered the AIL before it");
  // Emptied: the log can free the newest checkpoint now, although the tail is its start as before.
  if (tail == before) return items_.empty();
  tail_word_.store(tail.value, std::memory_order_release);
  return true;
}

void Ail::emptied_locked() {
  if (!items_.empty()) return;
  // What was met pinned has left: the next walk must not force the log for it.
  met_pinned_ = false;
  resume_ = nullptr;
  if (empty_waiters_ != 0) emptied_.notify_all();
}

void Ail::insert(std::span<LogItem* const> items, Lsn lsn) {
  TW_ASSERT(!lsn.none(), "an item enters the AIL without an LSN");
  while (!items.empty()) {
    const auto some = items.first(std::min(items.size(), kItemsPerHold));
    items = items.subspan(some.size());
    bool moved = false;
    {
      MutexLock hold(lock_);
      TW_ASSERT(lsn <= newest_checkpoint_, "items enter the AIL before their checkpoint is stable");
      note_hold_locked(some.size());
      for (LogItem* const item : some) {
        if (item->in_ail) {
          if (item->lsn >= lsn) continue;
          unlink_locked(*item);
          ++stats_.moves;
        } else {
          ++stats_.inserts;
          ++stats_.items;
        }
        place_locked(*item, lsn);
      }
      moved = publish_tail_locked();
      wake_if_work_locked();
    }
    if (moved) listener_.tail_moved();
  }
}

void Ail::remove(std::span<LogItem* const> items) {
  while (!items.empty()) {
    const auto some = items.first(std::min(items.size(), kItemsPerHold));
    items = items.subspan(some.size());
    bool moved = false;
    {
      MutexLock hold(lock_);
      note_hold_locked(some.size());
      for (LogItem* const item : some) {
        if (!item->in_ail) continue;
        unlink_locked(*item);
        ++stats_.removals;
        --stats_.items;
      }
      moved = publish_tail_locked();
      emptied_locked();
    }
    if (moved) listener_.tail_moved();
  }
}

bool Ail::remove_if_unchanged(LogItem& item, Lsn written) {
  bool moved = false;
  {
    MutexLock hold(lock_);
    if (!item.in_ail || item.lsn != written) return false;
    note_hold_locked(1);
    unlink_locked(item);
    ++stats_.removals;
    --stats_.items;
    moved = publish_tail_locked();
    emptied_locked();
  }
  if (moved) listener_.tail_moved();
  return true;
}

void Ail::checkpoint_stable(Lsn start) {
  bool moved = false;
  {
    MutexLock hold(lock_);
    TW_ASSERT(newest_checkpoint_ <= start, "checkpoints become stable out of order");
    newest_checkpoint_ = start;
    moved = publish_tail_locked();
  }
  if (moved) listener_.tail_moved();
}

// ---- where it stands ----

Lsn Ail::min_lsn() const {
  MutexLock hold(lock_);
  return items_.empty() ? kNoLsn : items_.front().lsn;
}

Lsn Ail::max_lsn() const {
  MutexLock hold(lock_);
  return items_.empty() ? kNoLsn : items_.back().lsn;
}

Lsn Ail::lsn_of(const LogItem& item) const {
  MutexLock hold(lock_);
  return item.in_ail ? item.lsn : kNoLsn;
}

AilStats Ail::stats() const {
  MutexLock hold(lock_);
  return stats_;
}

// ---- cursors ----

Ail::Cursor::Cursor(Ail& ail) : ail_(ail) {
  MutexLock hold(ail.lock_);
  ail.cursors_.push_back(*this);
}

Ail::Cursor::~Cursor() {
  MutexLock hold(ail_.lock_);
  ail_.cursors_.erase(ail_.cursors_.iterator_to(*this));
}

bool Ail::visit_next(Cursor& cursor, const std::function<void(LogItem&)>& visit) {
  MutexLock hold(lock_);
  if (!cursor.begun_) {
    cursor.begun_ = true;
    cursor.at_ = items_.empty() ? nullptr : &items_.front();
  }
  if (cursor.at_ == nullptr) return false;
  LogItem& item = *cursor.at_;
  cursor.at_ = after_locked(item);
  visit(item);
  return true;
}

void Ail::check_invariants() const {
  MutexLock hold(lock_);
  std::uint64_t count = 0;
  Lsn before;
  bool resume_found = resume_ == nullptr;
  for (const LogItem& item : items_) {
    TW_ASSERT(item.in_ail, "an item in the list says that it is not");
    TW_ASSERT(!item.lsn.none(), "an item in the list has no LSN");
    TW_ASSERT(before <= item.lsn, "the AIL is out of order");
    before = item.lsn;
    resume_found = resume_found || resume_ == &item;
    ++count;
  }
  TW_ASSERT(count == stats_.items, "the AIL's count is not its size");
  TW_ASSERT(resume_found, "the pusher's place is no item of the list");
  TW_ASSERT(tail_lsn() == (items_.empty() ? newest_checkpoint_ : items_.front().lsn),
            "the published tail is not the list's");
}

}  // namespace tidewheel
