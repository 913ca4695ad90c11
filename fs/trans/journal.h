// fs/trans/journal.h: the transaction machine of one mount: log, AIL, pusher, and the buffers they work on.
// Owns:      log, AIL, pusher and the pusher's queue; not the device, the cache's target or the listener.
// Threads:   constructor, unmount(), close() by the mount; the rest from any thread.
// Locks:     lock_ (kCompletion): items that a shutdown has aborted.
// Errors:    kShutDown after the first failed write of log or metadata.
// Invariant: after close() no item is left anywhere, and no buffer is pinned or held by one.
// Shutdown:  the log's first, then the target's: whoever finds the target shut down finds the log dead. The
//            two are states of their own: what may be written is decided by the log's.
#pragma once
#include <memory>
#include <vector>

#include "fs/ail/pusher.h"
#include "fs/buf/buffer_cache.h"
#include "fs/buf/delwri_queue.h"
#include "fs/log/log.h"

namespace tidewheel {

class BufferItem;

struct JournalOptions {
  LogOptions log;
  AilForce ail_force = AilForce::kEachWalk;
  // False: who calls Ail::walk() is the pusher, one thread at a time; quiesce() then needs an empty AIL. For
  // runs whose requests must come in one order.
  bool pusher = true;
};

class Journal final : private AilWriter, private LogShutdownListener {
 public:
  // Called once, when nothing more will be written; must not block.
  class Listener {
   public:
    virtual void journal_shut_down(Error error) = 0;

   protected:
    ~Listener() = default;
  };

  // `listener` may be null.
  Journal(BufferTarget& target, const LogPlace& place, const LogPosition& position,
          const JournalOptions& options, Listener* listener = nullptr);
  ~Journal();

  Log& log() { return log_; }
  Ail& ail() { return ail_; }
  BufferTarget& target() { return target_; }
  BufferCache& cache() { return target_.cache(); }
  bool is_shut_down() const { return log_.is_shut_down(); }

  // Everything committed is on stable storage, and at home.
  Result<void> quiesce();
  // quiesce(), and the record that says so. No transaction is open or comes.
  Result<void> unmount();
  // When it returns nothing of metadata reaches the device any more, also where another has found the log's
  // end and is still telling.
  void shut_down(Error error) {
    log_.shut_down(error);
    target_.shut_down();
  }
  // Ends all threads. Without unmount() before it this is as a crash, but that nothing leaks. Harmless twice.
  void close() TW_EXCLUDES(lock_);

 private:
  friend class BufferItem;
  std::uint32_t submit_pushed() override { return pushed_.submit().pinned; }
  void log_shut_down(Error error) override;
  // An item whose checkpoint was never written: close() lets go of it, for only then nobody else can.
  void note_aborted(BufferItem& item) TW_EXCLUDES(lock_);

  BufferTarget& target_;
  Listener* const listener_;
  DelwriQueue pushed_;  // the pusher's
  Log log_;
  Ail ail_;
  std::unique_ptr<AilPusher> pusher_;
  bool unmounted_ = false;  // the mount's, as the next
  bool closed_ = false;

  Mutex lock_ TW_ACQUIRED_AFTER(kRankCompletion) TW_ACQUIRED_BEFORE(kRankStatistics);
  std::vector<BufferItem*> aborted_ TW_GUARDED_BY(lock_);
};

}  // namespace tidewheel
