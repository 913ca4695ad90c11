// writeback/dirty_object.h: a thing that can be dirty: an inode, an upload chunk, a database page.
// Owns:      nothing. Embed or derive; no virtual functions: the WritebackTarget knows what it is.
// Threads:   mark_dirty and the state readers from any thread. The state word is the only arbiter: every
//            transition is one compare-and-exchange of it, checked against the table below.
// Locks:     node belongs to the lock of the shard that the state names (DirtyList): an object is linked
//            or unlinked only under it. Two transitions need no lock: writing -> clean when nothing was
//            dirtied meanwhile, and claimed -> clean, by the flusher that finds it cancelled.
// Units:     stamp (dirtied_when) in nanoseconds of the engine's clock.
// Invariant: (1) phase kClean <=> on no list, in no batch; its word then holds its context and nothing else;
//            (2) the stamp is written only when the object goes from having no dirty class to having one
//            (designs that clobber it say so); (3) memory may go once cancel() has returned kClean or kTaken;
//            the destructor asserts kClean; (4) the context is part of the word, so that an object cannot be
//            listed in, taken from, or waited for in a context that it has left (writeback/owner.h).
//
//   clean --mark_dirty--> listed(shard) --claim--> claimed(batch) --begin_write--> writing
//     ^                    |  ^  ^                   |   |                           | | |
//     |                    |  |  +-----unclaim-------+   |                           | | |
//     |                    |  +----- redirtied, partial, skipped --------------------+ | |
//     |<-cancel, listed----+     retry(ladder) <------ failed -------------------------+ |
//     |<-cancel, retry------------+  +--claim, claim_one--> claimed                      |
//     |<-begin_write of what cancel() asked for----------+                               |
//     +<-------------------------------------------------------------- written ----------+
//
// Timestamps alone (lazytime), where the list keeps a ring for them (writeback/lazy_ring.h):
//
//   clean --mark_dirty--> lazy(shard) --mark_dirty, another class--> listed, in the same hold of the lock
//     ^                    | |   ^
//     |<-cancel------------+ |   +-- written, redirtied in its timestamps alone; filed by another context
//                            +--claim, claim_one--> claimed
//
// Re-dirty without a lock. Writer: publish the data's tag with a seq_cst RMW, then load the state
// (seq_cst, a plain move on x86) and return if the class bit is there. Flusher: clear the class bits with
// a seq_cst RMW (begin_write), then read the tags. One of the two sees the other: dirt is never lost. A
// relaxed load here loses it (tests/writeback shows so, with store buffers).
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/assert.h"
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
  kClaimed,  // a flusher has it; cancel() asks for it, and begin_write() lets it go
  kWriting,  // handed to the target; class bits set now mean dirtied again
  kLazy,     // on its shard's ring of what is dirty in its timestamps alone: nothing else is marked
};
inline constexpr std::uint32_t kDirtyPhases = 6;

// The transition table. Rows: from; columns: clean, listed, retry, claimed, writing, lazy.
inline constexpr bool kDirtyTransitions[kDirtyPhases][kDirtyPhases] = {
    // clean  listed retry  claimed writing lazy
    {false, true, false, false, false, true},  // clean: mark_dirty
    {true, false, false, true, false, false},  // listed: cancel; claim, claim_one
    {true, false, false, true, false, false},  // retry: cancel; claim, claim_one
    {true, true, false, false, true, true},    // claimed: begin_write (clean if cancelled); unclaim; adopt
    {true, true, true, false, false, true},    // writing: end_write
    {true, true, false, true, false, false},   // lazy: cancel; mark_dirty, a sync's end; claim, claim_one
};
constexpr bool dirty_transition_allowed(DirtyPhase from, DirtyPhase to) {
  return kDirtyTransitions[static_cast<std::uint32_t>(from)][static_cast<std::uint32_t>(to)];
}
const char* name_of(DirtyPhase phase);

inline constexpr std::uint32_t kMaxListShards = 128;
inline constexpr std::uint32_t kRetryShard = 255;  // the state's shard while on the retry ladder
inline constexpr std::uint16_t kNoContext = 0xFFFF;

// The state word, decoded: classes:3 | phase:3 | waiters:1 | by phase:1 | shard:8 | context:16, the last
// inverted, so that a word of 0 is clean and of no context.
class DirtyState {
 public:
  constexpr DirtyState() = default;
  constexpr explicit DirtyState(std::uint32_t word) : word_(word) {}
  constexpr DirtyState(DirtyPhase phase, std::uint32_t classes, std::uint32_t shard,
                       std::uint16_t context = kNoContext)
      : word_(classes | (static_cast<std::uint32_t>(phase) << kPhaseShift) | (shard << kShardShift) |
              ((std::uint32_t{context} ^ kNoContext) << kContextShift)) {}

  constexpr std::uint32_t word() const { return word_; }
  constexpr std::uint32_t classes() const { return word_ & kDirtyAll; }
  constexpr DirtyPhase phase() const { return static_cast<DirtyPhase>((word_ >> kPhaseShift) & 7U); }
  constexpr std::uint32_t shard() const { return (word_ >> kShardShift) & 0xFFU; }
  constexpr std::uint16_t context() const {
    return static_cast<std::uint16_t>((word_ >> kContextShift) ^ kNoContext);
  }
  // Phase, shard and context: where it is, whatever is dirty of it.
  constexpr bool same_place(DirtyState other) const { return ((word_ ^ other.word_) & kPlaceMask) == 0; }
  constexpr bool has_waiters() const { return (word_ & kWaiters) != 0; }
  constexpr bool has_mark() const { return (word_ & kDesignMark) != 0; }
  constexpr bool cancelled() const { return phase() == DirtyPhase::kClaimed && (word_ & kCancelled) != 0; }
  constexpr bool clean() const { return phase() == DirtyPhase::kClean; }
  // In a batch: a flusher has it and whoever wants it waits.
  constexpr bool in_batch() const {
    return phase() == DirtyPhase::kClaimed || phase() == DirtyPhase::kWriting;
  }

  static constexpr std::uint32_t kPhaseShift = 3;
  static constexpr std::uint32_t kWaiters = 1U << 6;     // somebody sleeps until it leaves its batch
  // One bit by phase; no transition carries it on.
  static constexpr std::uint32_t kDesignMark = 1U << 7;  // listed: tagged-list's tag
  static constexpr std::uint32_t kCancelled = 1U << 7;   // claimed: cancel() waits for it; goes with kWaiters
  static constexpr std::uint32_t kShardShift = 8;
  static constexpr std::uint32_t kContextShift = 16;
  static constexpr std::uint32_t kContextMask = 0xFFFF0000U;
  static constexpr std::uint32_t kPlaceMask = kContextMask | 0xFF00U | (7U << kPhaseShift);

 private:
  std::uint32_t word_ = 0;
};

class DirtyObject {
 public:
  DirtyObject() = default;
  DirtyObject(const DirtyObject&) = delete;
  DirtyObject& operator=(const DirtyObject&) = delete;
  ~DirtyObject() { TW_ASSERT(state().clean(), "a dirty object is destroyed: cancel() or write it first"); }

  DirtyState state() const { return DirtyState{state_.load(std::memory_order_seq_cst)}; }
  // The lock-free half of mark_dirty: true when every class asked for is already marked.
  bool covers(std::uint32_t classes) const { return (state().classes() & classes) == classes; }
  // Which WritebackContext it belongs to. set_context: by who has the object, clean, for himself (before it
  // is shared, or after); beside others WritebackEngine::switch_owner() changes it.
  std::uint16_t context() const { return state().context(); }
  void set_context(std::uint16_t context) {
    if (context == this->context()) return;
    TW_ASSERT(state().clean(), "a dirty object's context is set: switch_owner() does that");
    state_.store(DirtyState(DirtyPhase::kClean, 0, 0, context).word(), std::memory_order_release);
  }
  // Which of several lists it belongs to, where a design spreads objects by hash (an inode sets its
  // number's). Who sets none shares the first list with all who don't. Only while clean.
  void set_hash(std::uint8_t hash) { hash_ = hash; }
  std::uint8_t hash() const { return hash_; }
  // When it was first dirtied since it was clean; meaningful to the holder of the shard lock and to the
  // flusher that has it claimed. Once it is being written, WriteSlot::stamp says it instead.
  Instant dirtied_when() const { return node.stamp; }

  // For DirtyList and the engine alone.
  WheelNode node;
  // seq_cst throughout: pairs with the data's tags (re-dirty, above).
  Atomic<std::uint32_t> state_{0};
  std::uint8_t retry_step = 0;  // failures since the last success, capped; the retry ladder's lock
  std::uint8_t hash_ = 0;
  Atomic<std::uint32_t> write_errors{0};  // error sequence (writeback/error_sequence.h)
};
static_assert(sizeof(DirtyObject) == 40);
static_assert(std::is_standard_layout_v<DirtyObject> && offsetof(DirtyObject, node) == 0,
              "the lists hold WheelNodes and come back to the object by its address");

inline DirtyObject& object_of(WheelNode& node) { return reinterpret_cast<DirtyObject&>(node); }
inline const DirtyObject& object_of(const WheelNode& node) {
  return reinterpret_cast<const DirtyObject&>(node);
}

}  // namespace tidewheel
