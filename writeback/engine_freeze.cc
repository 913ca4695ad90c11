// Freezing: nothing is dirty, nothing is being written, and nothing new is admitted until thaw().
#include <algorithm>
#include <vector>

#include "writeback/context.h"
#include "writeback/driver.h"
#include "writeback/engine.h"

namespace tidewheel {
namespace {

// How often freeze() looks again while a writer still holds a grant.
constexpr Duration kFreezePause = milliseconds(1);

}  // namespace

// Whoever has all of the limit knows that nobody has any of it: no byte is dirty, under writeback or granted.
// The flag only keeps writers from taking it piece by piece meanwhile; it decides nothing.
Result<void> WritebackEngine::freeze() {
  if (freezing_.exchange(true, std::memory_order_seq_cst)) return TW_FAIL(kBusy);
  const auto give_up = [&](Error why) -> Result<void> {
    freezing_.store(false, std::memory_order_seq_cst);
    serve_waiters();
    return Unexpected(why);
  };
  for (;;) {
    if (stopping()) return give_up(TW_FAIL(kShutDown).error());
    if (allowance_.take_thoroughly(limits_.dirty_limit_bytes)) {
      frozen_.store(true, std::memory_order_seq_cst);
      return {};
    }
    std::vector<WritebackContext*> contexts;
    {
      ReaderLock guard(contexts_lock_);
      for (std::uint32_t i = 0; i < contexts_added_; ++i) {
        WritebackContext* context = raw_context(static_cast<std::uint16_t>(i));
        if (context == nullptr || context->counts().total() == 0) continue;
        context->pins_.fetch_add(1, std::memory_order_relaxed);
        contexts.push_back(context);
      }
    }
    Error first;
    for (WritebackContext* context : contexts) {
      const Result<void> written = first.code == Reason::kOk ? sync(*context) : Result<void>{};
      context->pins_.fetch_sub(1, std::memory_order_release);
      if (!written) first = written.error();
    }
    if (first.code != Reason::kOk) return give_up(first);
    MutexLock guard(throttle_lock_);
    driver_->wait(throttle_lock_, pauses_end_, kFreezePause);
  }
}

void WritebackEngine::thaw() {
  // Only what freeze() has taken may be given back, and once: beside a freeze() that is still at it, or a
  // second thaw(), the limit would grow.
  if (!frozen_.exchange(false, std::memory_order_seq_cst)) return;
  freezing_.store(false, std::memory_order_seq_cst);
  allowance_.give_back(limits_.dirty_limit_bytes);
  serve_waiters();
}

}  // namespace tidewheel
