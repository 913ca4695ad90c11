// writeback/error_sequence.h: write errors, each told once to every handle.
// Owns:      a 32-bit word per object (DirtyObject::write_errors) and one per context.
// Threads:   all functions from any thread, without a lock. An ErrorCursor belongs to one handle and is
//            protected by whatever protects the handle.
// Units:     word = reason:8 | seen:1 | count:23. The count moves on only when the last error has been
//            seen, so errors nobody has looked at are one; it wraps after 8 million seen errors.
// Errors:    the reason survives, Error::detail and line don't.
// Source:    the idea is that of the kernel's errseq_t (public documentation).
// Invariant: a handle that opens after an error nobody has seen is told it; one that opens after an error
//            somebody has seen is not; a handle is told each later error exactly once.
#pragma once
#include <cstdint>

#include "base/atomic.h"
#include "base/result.h"

namespace tidewheel {

using ErrorWord = Atomic<std::uint32_t>;

// Where a handle stands in an object's error sequence. Sampled at open.
struct ErrorCursor {
  std::uint32_t seen = 0;
};

class ErrorSequence {
 public:
  // The object's write failed. A release: pairs with the acquire in check_and_advance, so that who learns
  // of the error also sees what was done before it was recorded.
  static void record(ErrorWord& word, Reason reason) {
    std::uint32_t old = word.load(std::memory_order_acquire);
    for (;;) {
      std::uint32_t next = (old & kCountMask) | (static_cast<std::uint32_t>(reason) & kReasonMask);
      if ((old & kSeen) != 0) next += kCountOne;
      if (next == old) return;  // the same error again, and nobody has looked yet
      if (word.compare_exchange(old, next, std::memory_order_acq_rel)) return;
    }
  }
  // For a handle that is being opened.
  static ErrorCursor sample(const ErrorWord& word) {
    const std::uint32_t now = word.load(std::memory_order_acquire);
    return {(now & kSeen) != 0 ? now : 0};
  }
  // The error that nobody has been told, or kOk: what has to be kept when the object leaves memory.
  static Reason untold(const ErrorWord& word) {
    const std::uint32_t now = word.load(std::memory_order_acquire);
    return (now & kSeen) != 0 ? Reason::kOk : static_cast<Reason>(now & kReasonMask);
  }
  // Whether check_and_advance would report something.
  static bool pending(const ErrorWord& word, const ErrorCursor& cursor) {
    const std::uint32_t now = word.load(std::memory_order_acquire);
    return now != cursor.seen && (now & kReasonMask) != 0;
  }
  // The error this handle has not been told yet, if any; marks it as seen.
  static Result<void> check_and_advance(ErrorWord& word, ErrorCursor& cursor) {
    std::uint32_t now = word.load(std::memory_order_acquire);
    if (now == cursor.seen || (now & kReasonMask) == 0) return {};
    // Compare-and-exchange: an error recorded meanwhile must not be marked as seen unread.
    while ((now & kSeen) == 0 && !word.compare_exchange(now, now | kSeen, std::memory_order_acq_rel)) {
    }
    now |= kSeen;
    if (now == cursor.seen) return {};
    cursor.seen = now;
    return Unexpected(Error{static_cast<Reason>(now & kReasonMask), __LINE__, 0});
  }

 private:
  static constexpr std::uint32_t kReasonMask = 0xFFU;
  static constexpr std::uint32_t kSeen = 1U << 8;
  static constexpr std::uint32_t kCountOne = 1U << 9;
  static constexpr std::uint32_t kCountMask = ~(kCountOne - 1U);
};

}  // namespace tidewheel
