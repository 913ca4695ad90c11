// writeback/batch.h: the unit of writing: some claimed objects, sorted by the target's key.
// Owns:      its slots. A batch belongs to its context and is used again (pooled).
// Threads:   one flusher fills, sorts and submits it; complete() may come from any thread, once.
// Locks:     slot[i].object may be taken out by cancel() under the object's shard lock until
//            begin_write; from then on only the flusher and the target touch the slot.
// Units:     bytes. At most max_objects and max_bytes (default 1,024 and 4 MiB; one larger object alone
//            may exceed max_bytes).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "writeback/dirty_object.h"

namespace tidewheel {

enum class WorkKind : std::uint8_t { kPeriodic, kBackground, kSync, kFsync, kReclaim };

// What became of one object's write.
enum class WriteOutcome : std::uint8_t {
  kPending,  // not decided yet
  kWritten,  // everything that was dirty when its write began is on the device
  kPartial,  // a part was written; the rest is still dirty and comes again, with the stamp kept
  kSkipped,  // nothing was written (busy); comes again
  kFailed,   // error says why; the object stays dirty and goes to the retry ladder
};

struct WriteSlot {
  DirtyObject* object = nullptr;  // null: cancelled
  std::uint64_t sort_key = 0;
  std::uint64_t bytes = 0;        // estimate when claimed
  std::uint32_t classes = 0;      // what begin_write cleared: what is to be written
  WriteOutcome outcome = WriteOutcome::kPending;
  Error error;
  void* target_data = nullptr;    // the target's own, between write_batch and end_batch
};

class WritebackContext;

class Batch {
 public:
  std::span<WriteSlot> slots() { return slots_; }
  WorkKind kind() const { return kind_; }
  WritebackContext& context() { return *context_; }
  // The target calls this once, from any thread, after setting every slot's outcome. Only queues the
  // batch for its flusher: safe on a completion thread. The batch must not be touched afterwards.
  void complete() { on_complete_(*this); }

  // For the engine alone.
  std::vector<WriteSlot> slots_;
  WorkKind kind_ = WorkKind::kBackground;
  WritebackContext* context_ = nullptr;
  void (*on_complete_)(Batch&) = nullptr;
  std::uint64_t sequence_ = 0;
  std::uint64_t bytes_ = 0;
  void* target_data = nullptr;  // the target's own
  Batch* next_ = nullptr;
};

}  // namespace tidewheel
