// writeback/owner_vote.h: whose writers dirty an object, and when it should go to their context.
// Owns:      nothing; 8 bytes, for a target to keep beside an object that several owners' tasks write to.
// Threads:   dirtied_by() from any thread; round_ended() by who ends the object's write (one at a time).
// Units:     votes (one per call: a page, or what else is dirtied at a time); rounds: writes that had a vote.
// Invariant: an object moves when more than kForeignRounds of its last 16 rounds were won by one and the
//            same other owner: who writes to it now and then does not carry it off, nor do two together.
// Source:    the field's majority vote (Boyer and Moore) over recent writeback. Simpler: its 16 slots are
//            shares of two seconds of writing; here they are rounds, and every round counts the same.
#pragma once
#include <bit>
#include <cstdint>

#include "base/atomic.h"
#include "writeback/dirty_object.h"

namespace tidewheel {

class OwnerVote {
 public:
  static constexpr int kForeignRounds = 8;

  // A task of this owner (its context's id) has dirtied the object.
  void dirtied_by(std::uint16_t owner) {
    // Relaxed: a vote that a round misses is the next one's.
    std::uint32_t was = ballot_.load(std::memory_order_relaxed);
    for (;;) {
      const std::uint32_t votes = was & kVotes;
      std::uint32_t is = was;
      if (votes == 0) {
        is = (std::uint32_t{owner} << kCandidateShift) | 1;
      } else if (was >> kCandidateShift == owner) {
        if (votes == kVotes) return;
        is = was + 1;
      } else {
        is = was - 1;
      }
      if (ballot_.compare_exchange(was, is, std::memory_order_relaxed)) return;
    }
  }

  // What was dirtied since the last round has been written. Answers the owner to move to
  // (WriteSlot::move_to), kNoContext for none.
  std::uint16_t round_ended(std::uint16_t home) {
    const std::uint32_t ballot = ballot_.exchange(0, std::memory_order_relaxed);
    if ((ballot & kVotes) == 0) return kNoContext;
    const auto winner = static_cast<std::uint16_t>(ballot >> kCandidateShift);
    const bool foreign = winner != home;
    if (foreign && winner != foreigner_) {
      foreigner_ = winner;
      history_ = 0;
    }
    history_ = static_cast<std::uint16_t>((history_ << 1) | (foreign ? 1 : 0));
    if (std::popcount(history_) <= kForeignRounds) return kNoContext;
    history_ = 0;
    return foreigner_;
  }

  // The object has come back to memory, without the votes of before: it is nobody's until a task has dirtied
  // it, or a round has ended.
  void came_to_memory() { ballot_.store(kNobodys, std::memory_order_relaxed); }
  // May be stale at once: two tasks that dirty it at the same time are both told.
  bool nobodys() const { return ballot_.load(std::memory_order_relaxed) == kNobodys; }

  // For another object in the same memory.
  void reset() {
    ballot_.store(0, std::memory_order_relaxed);
    history_ = 0;
    foreigner_ = kNoContext;
  }

 private:
  static constexpr std::uint32_t kCandidateShift = 16;
  static constexpr std::uint32_t kVotes = 0xFFFF;
  static constexpr std::uint32_t kNobodys = std::uint32_t{kNoContext} << kCandidateShift;
  Atomic<std::uint32_t> ballot_{0};          // candidate:16 | votes that it is ahead by:16
  std::uint16_t history_ = 0;                // the last 16 rounds, youngest lowest: 1 = won by foreigner_
  std::uint16_t foreigner_ = kNoContext;
};
static_assert(sizeof(OwnerVote) == 8);

}  // namespace tidewheel
