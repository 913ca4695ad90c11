#include "fs/trans/journal.h"

#include "fs/trans/buffer_item.h"

namespace tidewheel {
namespace {

LockClass journal_class{"journal", LockRank::kCompletion};

LogOptions charged(LogOptions options, BufferTarget& target) {
  if (options.budget == nullptr) options.budget = &target.cache().budget();
  return options;
}

}  // namespace

Journal::Journal(BufferTarget& target, const LogPlace& place, const LogPosition& position,
                 const JournalOptions& options, Listener* listener)
    : target_(target),
      listener_(listener),
      log_(target.device(), place, position, charged(options.log, target), *this),
      ail_({.log_sectors = place.sectors, .force = options.ail_force}, log_, *this, log_),
      lock_(journal_class) {
  log_.start(ail_);
  if (options.pusher) pusher_ = std::make_unique<AilPusher>(ail_);
}

Journal::~Journal() { close(); }

Result<void> Journal::quiesce() {
  TW_TRY(log_.force_all());
  TW_TRY(ail_.wait_empty());
  target_.drain_io();  // the last write's completion may still be unlocking its buffer
  return {};
}

Result<void> Journal::unmount() {
  TW_TRY(quiesce());
  TW_TRY(log_.unmount());
  unmounted_ = true;
  return {};
}

void Journal::log_shut_down(Error error) {
  target_.shut_down();
  ail_.shut_down();
  if (listener_ != nullptr) listener_->journal_shut_down(error);
}

void Journal::note_aborted(BufferItem& item) {
  MutexLock hold(lock_);
  aborted_.push_back(&item);
}

// In this order: nobody pushes, no checkpoint is being ended, no write is in flight; then what is left is let
// go of.
void Journal::close() {
  if (closed_) return;
  closed_ = true;
  if (!unmounted_) log_.shut_down(Error{Reason::kShutDown, 0, 0});
  log_.stop();
  if (pusher_ != nullptr) pusher_->stop();
  pushed_.cancel();
  target_.drain_io();
  std::vector<BufferItem*> aborted;
  {
    MutexLock hold(lock_);
    aborted.swap(aborted_);
  }
  if (log_.is_shut_down()) ail_.abandon_all();
  for (BufferItem* const item : aborted) item->let_go_of_aborted();
}

}  // namespace tidewheel
