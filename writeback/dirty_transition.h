// writeback/dirty_transition.h: the one place where a dirty object's phase changes.
// Threads:   every change is one compare-and-exchange of the state word, so markers that add class bits
//            without a lock lose nothing.
// Locks:     the caller holds what the phase asks for (dirty_object.h).
#pragma once
#include "base/assert.h"
#include "writeback/dirty_object.h"

namespace tidewheel {

// from -> to in `shard` of `context`; class bits set meanwhile stay, `add` joins them; the waiters bit stays
// only while the object stays in a batch. Answers the state before.
inline DirtyState change_place(DirtyObject& object, DirtyPhase from, DirtyPhase to, std::uint32_t shard,
                               std::uint16_t context, std::uint32_t add = 0) {
  TW_DASSERT(dirty_transition_allowed(from, to), "a transition that the table doesn't have");
  std::uint32_t word = object.state_.load(std::memory_order_seq_cst);
  for (;;) {
    const DirtyState now{word};
    TW_ASSERT(now.phase() == from, "a dirty object is not in the phase that its holder left it in");
    std::uint32_t next = DirtyState(to, now.classes() | add, shard, context).word();
    if (DirtyState(next).in_batch()) next |= word & DirtyState::kWaiters;
    if (object.state_.compare_exchange(word, next, std::memory_order_seq_cst)) return now;
  }
}

// The same, in the context that it is in: who holds it where it is knows that nobody changes that.
inline DirtyState change_phase(DirtyObject& object, DirtyPhase from, DirtyPhase to, std::uint32_t shard,
                               std::uint32_t add = 0) {
  return change_place(object, from, to, shard, object.context(), add);
}

// listed, retry or claimed -> clean, dropping whatever classes are marked. Answers the state before.
inline DirtyState change_to_clean(DirtyObject& object) {
  object.retry_step = 0;  // before the exchange: afterwards the object may be anybody's
  const DirtyState before{object.state_.fetch_and(DirtyState::kContextMask, std::memory_order_seq_cst)};
  TW_ASSERT(!before.clean(), "a clean object is made clean");
  TW_ASSERT(before.phase() != DirtyPhase::kWriting, "an object is made clean while it is being written");
  return before;
}

}  // namespace tidewheel
