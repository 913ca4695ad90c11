// fs/mock/mock_machine.h: a file system of nothing but objects with a home block each: log, AIL, buffers and
// recovery with the least on top of them that can go wrong.
//
//   block 0        nothing
//   1 … objects    homes (disk::MockBlock)
//   then           the log
//
// Owns:      its objects, intents, buffers, log, AIL and, if it has one, pusher.
// Threads:   change(), begin_intent(), finish_intent(), force() from any thread; mount, unmount and crash by
//            one. Without a pusher, who calls push_home() is the pusher.
// Locks:     objects are locked in ascending order; none is held while log space is waited for.
// Errors:    kReadOnly: mounted with norecovery, or idle; kShutDown: the log has died; what recovery says.
// Invariant: (1) a transaction's objects change together, across any crash; (2) an intent is finished exactly
//            once; (3) after a clean unmount nothing is replayed, and a mount and unmount without a change
//            write nothing.
#pragma once
#include <memory>
#include <vector>

#include "fs/ail/pusher.h"
#include "fs/mock/mock_object.h"
#include "fs/mock/mock_replay.h"
#include "fs/recovery/recovery.h"

namespace tidewheel {

struct MockLayout {
  std::uint32_t objects = 12;
  std::uint32_t log_blocks = 64;
  Uuid uuid = Uuid::from_random(0x6D6F636B, 1);

  std::uint64_t blocks() const { return 1 + objects + std::uint64_t{log_blocks}; }
  std::uint64_t bytes() const { return blocks() * kFsBlockBytes; }
  DeviceAddress home(std::uint64_t object) const { return {1 + object}; }
  LogPlace log() const;
  disk::Geometry geometry() const;
};

// Whether the log says that nothing is to be replayed.
bool is_log_clean(BlockDevice& device, const LogPlace& log);
// The check of a crash state asks that of one state in four, by its content: it reads all of a small log. (A
// second recovery of one in eight would write what the first has left to be said.)
inline bool asks_whether_clean(std::uint64_t content) { return content % 4 == 0; }

// A log that was left cleanly, and a flush of it and of what was written before. What else the log's blocks
// hold may be anything.
Result<void> format_clean_log(BlockDevice& device, const MockLayout& layout);
// Homes in their first state, and such a log.
Result<void> format_mock(BlockDevice& device, const MockLayout& layout);

struct MockMount {
  MockLayout layout = {};
  LogOptions log = {.buffers = 4,
                    .buffer_bytes = disk::kMinLogBufferBytes,
                    .soft_bytes = 0,
                    .worker_interval = Duration::max()};
  bool pusher = true;
  bool no_recovery = false;  // read-only, whatever state the log is in
  // For who only wants to recover: no log, and so no thread, unless intents are to be finished.
  bool idle = false;
};

class MockMachine final : private AilWriter, private LogShutdownListener, private BufferPolicy {
 public:
  // Recovers, and finishes intents that were open.
  static Result<std::unique_ptr<MockMachine>> mount(BlockDevice& device, const MockMount& options);
  // As after a crash, unless unmount() came first: what is in memory is gone, nothing more is written.
  ~MockMachine();

  // ---- transactions: answer the sequence for force() ----
  // These objects, rising, take this version, all of them or none.
  Result<std::uint64_t> change(std::span<const std::uint64_t> objects, std::uint64_t version);
  // One transaction: `object` takes `version`, and an intent is logged that another is to follow.
  struct Chain {
    MockIntent* intent = nullptr;
    LogTicket ticket;
    std::uint64_t sequence = 0;
  };
  Result<Chain> begin_intent(std::uint64_t object, std::uint64_t version, std::uint64_t target,
                             std::uint64_t target_version);
  // The next one: the target has been changed, the intent is done.
  Result<std::uint64_t> finish_intent(Chain& chain);
  // The machine is to end with the intent open: its log space is given back.
  void abandon(Chain& chain) { log_->end(chain.ticket); }

  Result<void> force(std::uint64_t sequence);
  // Without a pusher: everything that is stable goes home now.
  Result<void> push_home();
  // Everything home, the log left cleanly.
  Result<void> unmount();
  void shut_down();

  const Recovery& recovery() const { return recovery_; }
  MockState state(std::uint64_t object);
  bool is_shut_down() const { return log_ != nullptr && log_->is_shut_down(); }
  Log& log() { return *log_; }
  Ail& ail() { return *ail_; }
  BufferStats buffers() const { return cache_.stats(); }
  // Bytes of the log between what the disk calls its tail and the head.
  std::uint64_t log_used_bytes() const;
  // At rest: pins of all objects.
  std::int64_t pins() const;

 private:
  MockMachine(BlockDevice& device, const MockMount& options);
  Result<void> recover_and_load();
  Result<void> load();
  void start_log();
  Result<void> finish_recovered();
  Result<void> usable() const;
  void end_threads();

  // AilWriter, LogShutdownListener, BufferPolicy
  std::uint32_t submit_pushed() override { return queue_.submit().pinned; }
  void log_shut_down(Error error) override;
  WriteErrorAction on_write_error(const Buffer& buffer, Error error, std::uint32_t failures) override;
  void on_lost_write(const Buffer& buffer, Error error) override;

  BlockDevice& device_;
  const MockMount options_;
  MemoryBudget budget_;
  BufferCache cache_;
  BufferTarget target_;
  DelwriQueue queue_;  // the pusher's
  Recovery recovery_;
  std::vector<std::unique_ptr<MockObject>> objects_;
  std::unique_ptr<Log> log_;
  std::unique_ptr<Ail> ail_;
  std::unique_ptr<AilPusher> pusher_;

  Mutex intents_lock_;  // a leaf
  std::vector<std::unique_ptr<MockIntent>> intents_ TW_GUARDED_BY(intents_lock_);
};

}  // namespace tidewheel
