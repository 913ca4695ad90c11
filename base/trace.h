// base/trace.h: what happened last, kept in memory per thread, to be read after a failure or on demand.
//
//   TW_TRACE(writeback_queue_io, context_id, dirtied_before.ns, moved);
//
// Owns:      a ring per thread that has traced, of kTraceRingEvents or what set_trace_ring_events() asked;
//            rings of ended threads are used again.
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
#define TW_USDT(name, a, b, c, d) DTRACE_PROBE4(tidewheel, name, a, b, c, d)
#endif
#endif
#if !defined(TW_USDT)
#define TW_USDT(name, a, b, c, d) \
  do {                            \
  } while (0)
#endif

namespace tidewheel {

inline constexpr std::size_t kTraceRingEvents = 2'048;  // 112 KiB a thread
inline constexpr std::size_t kTraceArguments = 4;

struct TraceEvent {
  std::int64_t at_ns = 0;
  TracePoint point = TracePoint::test_event;
  std::uint32_t thread = 0;  // thread_number()
  std::uint16_t cpu = 0;
  std::uint64_t number = 0;  // counts the events of one ring
  std::uint64_t arguments[kTraceArguments] = {};
};

struct TracePointNames {
  const char* name;
  const char* arguments[kTraceArguments];  // "unused" where the point has fewer
};
const TracePointNames& names_of(TracePoint point);

// Who recorded: the last thread that had this number.
struct TraceThread {
  std::uint32_t thread = 0;
  std::string name;             // as the system shows it
  std::uint32_t system_id = 0;  // its id there
};
struct TraceSnapshot {
  std::vector<TraceEvent> events;    // oldest first
  std::vector<TraceThread> threads;  // by number
  std::uint64_t dropped = 0;         // recorded since clear_trace() and overwritten since
};

// Off at the start. Turning it on or off keeps what was recorded.
void set_tracing(bool on);
namespace trace_detail {
extern constinit std::atomic<bool> on;  // relaxed: a switch, it publishes nothing
void record(TracePoint point, std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d);
}  // namespace trace_detail
inline bool tracing() { return trace_detail::on.load(std::memory_order_relaxed); }

// The last events of all threads, oldest first, at most `most`.
std::vector<TraceEvent> read_trace(std::size_t most = SIZE_MAX);
TraceSnapshot snapshot_trace();
void clear_trace();
// Of rings made from now on; a power of two. For who wants a whole run and not its end.
void set_trace_ring_events(std::size_t events);
// "   12.345678 s  t3  writeback_queue_io  context=1 dirtied_before_ns=5 objects=7"
std::string to_string(const TraceEvent& event);
// The last events to a file descriptor, for assert_failed; allocates.
void print_trace(int file_descriptor, std::size_t most);

}  // namespace tidewheel

// TW_TRACE(name, a, b, c) or TW_TRACE(name, a, b, c, d).
#define TW_TRACE(name, ...) TW_TRACE_FOUR(name, __VA_ARGS__, 0, 0)
#define TW_TRACE_FOUR(name, a, b, c, d, ...)                                                              \
  do {                                                                                                    \
    TW_USDT(name, a, b, c, d);                                                                            \
    if (__builtin_expect(::tidewheel::tracing(), 0)) {                                                    \
      ::tidewheel::trace_detail::record(::tidewheel::TracePoint::name, static_cast<std::uint64_t>(a),     \
                                        static_cast<std::uint64_t>(b), static_cast<std::uint64_t>(c),     \
                                        static_cast<std::uint64_t>(d));                                   \
    }                                                                                                     \
  } while (0)
