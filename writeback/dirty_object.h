// writeback/dirty_object.h: a thing that can be dirty: an inode, an upload chunk, a database page.
// Owns:      nothing. Embed or derive; no virtual functions: the WritebackTarget knows what it is.
// Threads:   mark_dirty and the state readers from any thread. All transitions under the shard lock named
//            by the state word; the first test of mark_dirty is lock-free (see below).
// Locks:     node, batch and slot belong to the lock of the shard that the state names (DirtyList).
// Units:     stamp (dirtied_when) in nanoseconds of the engine's clock.
// Invariant: (1) phase kClean <=> on no list, in no batch; (2) the stamp is written only when the object
//            goes from having no dirty class to having one; (3) memory may go once cancel() has returned;
//            the destructor asserts kClean.
//
//   clean --mark_dirty--> listed(shard) --claim--> claimed(batch, slot) --begin_write--> writing
//     ^                      ^   |  ^                                                      | | |
//     |                      |   |  +------------------- redirtied, partial ---------------+ | |
//     |                      |   +--cancel--> clean         retry(step) <------ failed -------+ |
//     +----------------------|------------------------------------------------- written --------+
//
// Re-dirty without a lock. Writer: publish the data's tag with a seq_cst RMW, then load the state
// (seq_cst, a plain move on x86) and return if the class bit is there. Flusher: clear the class bits with
// a seq_cst RMW (begin_write), then read the tags. One of the two sees the other: dirt is never lost. A
// relaxed load here loses it (tests/writeback shows so, with store buffers).
#pragma once
#include <cstdint>

#include "base/atomic.h"
#include "base/result.h"
#include "timerwheel/node.h"

namespace tidewheel {

// What of an object is dirty. A set of bits.
enum DirtyClass : std::uint32_t {
  kDirtyTimestamps = 1U << 0,
  kDirtyMetadata = 1U << 1,
  kDirtyData = 1U << 2,
  kDirtyAll = kDirtyTimestamps | kDirtyMetadata | kDirtyData,
};

enum class DirtyPhase : std::uint32_t {
  kClean = 0,
  kListed,   // on a list of its shard (bucket, ring, ready queue, dirty/io/more-io)
  kRetry,    // on the retry ladder; shard = kRetryShard
  kClaimed,  // in a batch slot, not yet being written
  kWriting,  // handed to the target; class bits set now mean dirtied again
};

// The state word, decoded: classes:3 | phase:3 | waiters:1 | (spare) | shard:8 (bits 16..23)
class DirtyState {
 public:
  constexpr DirtyState() = default;
  constexpr explicit DirtyState(std::uint32_t word) : word_(word) {}
  constexpr DirtyState(DirtyPhase phase, std::uint32_t classes, std::uint32_t shard)
      : word_(classes | (static_cast<std::uint32_t>(phase) << kPhaseShift) | (shard << kShardShift)) {}

  constexpr std::uint32_t word() const { return word_; }
  constexpr std::uint32_t classes() const { return word_ & kDirtyAll; }
  constexpr DirtyPhase phase() const { return static_cast<DirtyPhase>((word_ >> kPhaseShift) & 7U); }
  constexpr std::uint32_t shard() const { return (word_ >> kShardShift) & 0xFFU; }
  constexpr bool has_waiters() const { return (word_ & kWaiters) != 0; }
  constexpr bool clean() const { return phase() == DirtyPhase::kClean; }

  static constexpr std::uint32_t kPhaseShift = 3;
  static constexpr std::uint32_t kWaiters = 1U << 6;  // somebody sleeps until this object leaves kWriting
  static constexpr std::uint32_t kShardShift = 16;

 private:
  std::uint32_t word_ = 0;
};

inline constexpr std::uint32_t kMaxListShards = 128;
inline constexpr std::uint32_t kRetryShard = 255;  // the state's shard while on the retry ladder
inline constexpr std::uint16_t kNoContext = 0xFFFF;

class DirtyObject {
 public:
  DirtyObject() = default;
  DirtyObject(const DirtyObject&) = delete;
  DirtyObject& operator=(const DirtyObject&) = delete;
  ~DirtyObject() { TW_ASSERT(state().clean(), "a dirty object is destroyed: cancel() or write it first"); }

  DirtyState state() const { return DirtyState{state_.load(std::memory_order_seq_cst)}; }
  // The lock-free half of mark_dirty: true when every class asked for is already marked.
  bool covers(std::uint32_t classes) const { return (state().classes() & classes) == classes; }
  // Which WritebackContext it belongs to; set before it is first dirtied, changed only while clean (or by
  // an owner switch, under both contexts' locks).
  std::uint16_t context() const { return context_; }
  void set_context(std::uint16_t context) { context_ = context; }
  // When it was first dirtied since it was clean; meaningful to the holder of the shard lock and to the
  // flusher that has it claimed.
  Instant dirtied_when() const { return node.stamp; }

  // For DirtyList and the engine alone.
  WheelNode node;
  Atomic<std::uint32_t> state_{0};
  std::uint16_t context_ = kNoContext;
  std::uint16_t batch = 0;       // while claimed or writing: the batch ...
  std::uint16_t slot = 0;        // ... and its slot, so that cancel() leaves it in O(1)
  std::uint16_t retry_step = 0;  // failures since the last success, capped
  Atomic<std::uint32_t> write_errors{0};  // error sequence (writeback/error_sequence.h)
};
static_assert(sizeof(DirtyObject) <= 48);

}  // namespace tidewheel
