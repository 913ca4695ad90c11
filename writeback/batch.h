// writeback/batch.h: the unit of writing: some claimed objects, sorted by the target's key.
// Owns:      its slots. A batch belongs to its context and is used again (pooled).
// Threads:   one flusher fills, sorts and submits it; complete() may come from any thread, once.
// Locks:     none: the slots are the flusher's, then the target's, then the flusher's again.
// Units:     bytes. At most max_objects and max_bytes (default 1,024 and 4 MiB; one larger object alone
//            may exceed max_bytes).
//
//   fill: claim, estimate, sort ----> begin_write each ----> target
//         objects can't be freed      who was cancelled meanwhile leaves here, before any I/O
// A batch is filled only when it can be submitted at once (docs/decisions/cancel-of-claimed.md).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/result.h"
#include "base/thread.h"
#include "writeback/dirty_object.h"

namespace tidewheel {

class DirtyList;

enum class WorkKind : std::uint8_t { kPeriodic, kBackground, kSync, kFsync, kReclaim };

// What became of one object's write.
enum class WriteOutcome : std::uint8_t {
  kPending,  // not decided yet
  kWritten,  // everything that was dirty when its write began is on the device
  kPartial,  // written_bytes were written; the rest is still dirty and comes again, with the stamp kept
  kSkipped,  // nothing was written (busy); comes again, after a pause if the batch had nothing else
  kFailed,   // error says why; the object stays dirty and goes to the retry ladder
  kGivenUp,  // set by the engine when the target's give_up() says so: its dirt is dropped, knowingly
};

struct WriteSlot {
  DirtyObject* object = nullptr;
  std::uint64_t sort_key = 0;
  std::uint64_t bytes = 0;        // estimate when claimed
  // How much of it to write in this turn (the rest makes it kPartial); sync and fsync: everything.
  std::uint64_t limit_bytes = UINT64_MAX;
  Instant stamp;                  // dirtied_when of what is written, taken by begin_write
  std::uint32_t classes = 0;      // what begin_write cleared: what is to be written
  WriteOutcome outcome = WriteOutcome::kPending;
  std::uint16_t set_backs = 0;  // the list's: how often the clock had been set back when the write began
  // With kPartial: how much, set by the target before complete(). A part of 0 bytes is no progress: the
  // object comes again as if it had been kSkipped, so that no answer of a target makes the engine spin.
  std::uint64_t written_bytes = 0;
  Error error;
  void* target_data = nullptr;    // the target's own, between write_batch and end_batch
  // Set by the target in end_batch(): the context that the object goes to when what was written is kWritten.
  // Then it is in nobody's list, so that it costs one step more at most (writeback/owner.h).
  std::uint16_t move_to = kNoContext;
  DirtyList* heir = nullptr;      // the engine's: that context's list
};

class WritebackContext;

// The least stamp of what a batch holds, told to who reads it beside the batch's thread.
//   changing() ... holds(least): objects come to the batch or leave it (out of lists, back to them, clean).
// What the batch holds at any moment is what the last holds() before it was told, or is told by the next.
// Nothing of the target's runs in between (but begin_switch and end_switch), so that a reader may wait.
class HeldStamp {
 public:
  // ---- the batch's thread ----
  void changing() {
    const std::uint64_t changes = changes_.load(std::memory_order_relaxed);
    TW_DASSERT(changes % 2 == 0, "a batch changes while it changes");
    // Relaxed: who comes to a list after the claim, or the lock, that is in between sees it by that.
    changes_.store(changes + 1, std::memory_order_relaxed);
  }
  void holds(Instant least) {
    const std::uint64_t changes = changes_.load(std::memory_order_relaxed);
    TW_DASSERT(changes % 2 == 1, "a batch has not said that it changes");
    least_ns_.store(least.ns, std::memory_order_relaxed);
    changes_.store(changes + 1, std::memory_order_release);  // pairs with acquire in read()
  }
  // ---- anybody ----
  // What it holds at a moment of the call. Waits for the end of one change at most; what comes to it in the
  // next came out of a list that the caller has read by then.
  Instant read() const {
    const std::uint64_t seen = changes_.load(std::memory_order_acquire);
    while (seen % 2 != 0 && changes_.load(std::memory_order_acquire) == seen) yield_thread();
    return Instant{least_ns_.load(std::memory_order_relaxed)};
  }

 private:
  Atomic<std::uint64_t> changes_{0};  // odd: one is under way
  Atomic<std::int64_t> least_ns_{INT64_MAX};
};

class Batch {
 public:
  // In write_batch() and end_batch(): sorted by sort_key, no object null, at least one.
  std::span<WriteSlot> slots() { return slots_; }
  WorkKind kind() const { return kind_; }
  WritebackContext& context() { return *context_; }
  // The target calls this once, from any thread, after setting every slot's outcome. Only queues the
  // batch for its flusher: safe on a completion thread. The batch must not be touched afterwards.
  void complete() { on_complete_(*this); }

  // What the target did; set before complete(), added to the statistics.
  struct Io {
    std::uint64_t pages = 0;
    std::uint64_t bytes = 0;
    std::uint64_t ios = 0;
  };
  Io io;
  void* target_data = nullptr;  // the target's own

  void reserve(std::size_t max_objects) { slots_.reserve(max_objects); }

  // For the engine and DirtyList alone.
  std::vector<WriteSlot> slots_;
  WorkKind kind_ = WorkKind::kBackground;
  std::uint16_t id_ = 0;    // its index in its context's table
  WritebackContext* context_ = nullptr;
  void (*on_complete_)(Batch&) = nullptr;
  std::uint64_t sequence_ = 0;
  std::uint64_t bytes_ = 0;
  HeldStamp held_;
  Instant oldest_;         // for syncs: least stamp of its objects; Instant::min() while they are gathered
  // Least stamp of what was claimed for it and put back on the list while it was gathered.
  Instant put_back_ = Instant::max();
  void* owner_ = nullptr;  // whose completion queue it goes to
  Batch* next_ = nullptr;
};

}  // namespace tidewheel
