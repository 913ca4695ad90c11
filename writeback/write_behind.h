// writeback/write_behind.h: values by key that are acknowledged from memory and written to a store later: an
// object-store client, a page of a database, anything with a name. Which, when and how many at once is the
// engine's business; this is a target that has everything, and an example of one (docs/embedding.md).
// Owns:      its engine, and the values that the store does not have yet; never the store, which outlives it.
// Threads:   every method from any thread; a Handle is one thread's. Puts and removes of one key at the same
//            time are the caller's to order. The store is called by several threads at once, for different
//            keys, on the engine's threads and on those of sync(), drain() and remove().
// Locks:     names_ (kInodeHash), then a value's (kMapping). None is held while the store is called, or while
//            a call waits.
// Units:     bytes of values; each that is not written counts object_overhead_bytes (1 KiB) besides.
// Errors:    the store's as they came, each told once to each handle, by sync(). put(): kFileTooLarge (a
//            value of more than half of the limit), and what balance_dirty_pages() says: where a store fails
//            for good, its error, for who would have to wait.
// Invariant: what put() has acknowledged is in the store, or here and listed by dirty(), until it is written,
//            replaced by a later put, or removed. Nothing survives the process but what the store has.
//
//   put --grant, mark_dirty--> dirty --idle, or max_age, or over half of the limit--> written --> clean
//                                ^---------- failed: retried, told once to each handle ---+
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/sync.h"
#include "base/time.h"
#include "writeback/engine_options.h"
#include "writeback/error_sequence.h"
#include "writeback/target.h"

namespace tidewheel {

class WritebackEngine;
class WritebackContext;

// What the program brings.
class ValueStore {
 public:
  virtual ~ValueStore() = default;
  virtual Result<void> put(const std::string& key, const std::string& value) = 0;  // durable when it returns
  virtual Result<void> remove(const std::string& key) = 0;
};

struct WriteBehindOptions {
  Duration idle = seconds(2);       // written when nobody has put it for so long ...
  Duration max_age = seconds(30);   // ... or when it has been waiting for so long, put again or not
  Duration interval = seconds(1);   // how often it is looked
  std::uint64_t limit_bytes = 64ULL << 20;  // of what is not written yet; a put beyond it waits
  std::uint32_t writers = 4;                // at once
  Duration retry_first = seconds(1), retry_longest = seconds(60);
  std::string design = "timer-wheel";       // of the dirty list: a registered name
};

class WriteBehind final : private WritebackTarget {
 public:
  // Reasons: kInvalidArgument (a limit of nothing, no writer, an interval that is no time, a design that is
  // not registered).
  static Result<std::unique_ptr<WriteBehind>> make(ValueStore& store, const WriteBehindOptions& options = {});
  // What drain() has left is dropped: its caller has been told. Handles are closed first.
  ~WriteBehind() override;

  struct Value;
  // One key, open. Moves; closed when it is destroyed. A closed one, or one that was moved from, takes
  // nothing but close() and assignment (asserted).
  class Handle {
   public:
    Handle() = default;
    Handle(Handle&& other) noexcept { *this = std::move(other); }
    Handle& operator=(Handle&& other) noexcept;
    ~Handle() { close(); }
    // Acknowledged from memory. Answers how long the limit held the caller back: its back-pressure.
    Result<Duration> put(std::string value);
    // Writes this one now; also tells what the handle has not been told of earlier writes of it.
    Result<void> sync();
    // The key goes, and with it what was not written. Waits for a write of it that is under way.
    Result<void> remove();
    void close();

   private:
    friend class WriteBehind;
    WriteBehind* owner_ = nullptr;
    Value* value_ = nullptr;
    ErrorCursor errors_;
  };
  Handle open(const std::string& key);
  // Writes everything. kTimedOut: the rest stays, goes on being written, and is listed by dirty().
  // The deadline is SteadyClock's.
  Result<void> drain(Instant deadline = Instant::max());
  // Puts that wait for room, and all that would have to, fail with kInterrupted until the end: for a store
  // that has stalled for good.
  void interrupt_waiters();
  struct Dirty {
    std::string key;
    std::uint64_t bytes = 0;
    Duration age;  // since its first put that is not written
  };
  std::vector<Dirty> dirty();  // by key
  std::size_t known_keys_for_test();
  const WritebackEngine& engine() const { return *engine_; }

 private:
  WriteBehind(ValueStore& store, const WriteBehindOptions& options);
  WriteEstimate estimate(const DirtyObject& object) const override;
  void write_batch(Batch& batch) override;
  void end_batch(Batch& batch) override;
  Result<void> flush() override { return {}; }  // ValueStore::put is durable
  Result<Duration> put(Value& value, std::string bytes);
  void discard(Value& value);
  // Forgets the keys that nobody has open and that are written.
  void sweep_locked() TW_REQUIRES(names_);

  ValueStore& store_;
  const WriteBehindOptions options_;
  std::unique_ptr<WritebackEngine> engine_;
  WritebackContext* context_ = nullptr;
  Mutex names_ TW_ACQUIRED_AFTER(kRankInodeHash) TW_ACQUIRED_BEFORE(kRankMapping);
  std::map<std::string, std::unique_ptr<Value>> values_ TW_GUARDED_BY(names_);
  std::size_t sweep_at_ TW_GUARDED_BY(names_) = 64;  // so many names: twice those that the last sweep left
};

}  // namespace tidewheel
