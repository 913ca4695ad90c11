// base/trace.h: what happened last, kept in memory per thread, to be read after a failure or on demand.
//
//   TW_TRACE(writeback_queue_io, context_id, dirtied_before.ns, moved);
//
// Owns:      a ring of kTraceRingEvents per thread that has traced; rings of ended threads are used again.
// Threads:   recording is wait-free on the caller's own ring; read_trace() may run beside it and leaves
//            out what is being overwritten at that moment.
// Units:     nanoseconds of SteadyClock (virtual inside a simulation).
// Note:      off: one load and a branch. On: about 30 ns, most of it the clock. Where <sys/sdt.h> exists
//            every point is a USDT probe as well (a nop until somebody attaches).
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/trace_points.h"

#if defined(__has_include)
#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#define TW_USDT(name, a, b, c) DTRACE_PROBE3(tidewheel, name, a, b, c)
#endif
#endif
#if !defined(TW_USDT)
#define TW_USDT(name, a, b, c) \
  do {                         \
  } while (0)
#endif

namespace tidewheel {

inline constexpr std::size_t kTraceRingEvents = 2'048;  // 96 KiB a thread

struct TraceEvent {
  std::int64_t at_ns = 0;
  TracePoint point = TracePoint::test_event;
  std::uint32_t thread = 0;  // thread_number()
  std::uint64_t number = 0;  // counts the events of one ring
  std::uint64_t arguments[3] = {};
};

// Off at the start. Turning it on or off keeps what was recorded.
void set_tracing(bool on);
namespace trace_detail {
extern constinit std::atomic<bool> on;  // relaxed: a switch, it publishes nothing
void record(TracePoint point, std::uint64_t a, std::uint64_t b, std::uint64_t c);
}  // namespace trace_detail
inline bool tracing() { return trace_detail::on.load(std::memory_order_relaxed); }

// The last events of all threads, oldest first, at most `most`.
std::vector<TraceEvent> read_trace(std::size_t most = SIZE_MAX);
void clear_trace();
// "   12.345678 s  t3  writeback_queue_io  context=1 dirtied_before_ns=5 objects=7"
std::string to_string(const TraceEvent& event);
// The last events to a file descriptor, for assert_failed; allocates.
void print_trace(int file_descriptor, std::size_t most);

}  // namespace tidewheel

#define TW_TRACE(name, a, b, c)                                                                           \
  do {                                                                                                    \
    TW_USDT(name, a, b, c);                                                                               \
    if (__builtin_expect(::tidewheel::tracing(), 0)) {                                                    \
      ::tidewheel::trace_detail::record(::tidewheel::TracePoint::name, static_cast<std::uint64_t>(a),     \
                                        static_cast<std::uint64_t>(b), static_cast<std::uint64_t>(c));    \
    }                                                                                                     \
  } while (0)
