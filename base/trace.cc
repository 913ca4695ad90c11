#include "base/trace.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <mutex>
#include <tuple>

#include "base/clock.h"
#include "base/thread.h"

namespace tidewheel {

namespace {

constexpr std::uint64_t kRingMask = kTraceRingEvents - 1;
static_assert((kTraceRingEvents & kRingMask) == 0, "a power of two");

// Words are relaxed atomics: a reader may meet a slot that is being written, and then leaves it out, which
// the sequence tells: 0 while written, else 1 + the event's number.
struct Slot {
  std::atomic<std::uint64_t> sequence{0};
  std::atomic<std::int64_t> at_ns{0};
  std::atomic<std::uint64_t> point_and_thread{0};
  std::array<std::atomic<std::uint64_t>, 3> arguments{};
};
static_assert(sizeof(Slot) == 48);

struct Ring {
  std::array<Slot, kTraceRingEvents> slots;
  std::uint64_t next = 0;  // the owning thread's own
};

struct Rings {
  std::mutex mutex;
  std::vector<std::unique_ptr<Ring>> all;
  std::vector<Ring*> free;  // their threads have ended; what they recorded can still be read
};
Rings& rings() {
  static Rings* const table = new Rings;  // threads may end after static objects are gone
  return *table;
}

constinit thread_local Ring* own_ring = nullptr;

struct ReturnRing {
  ~ReturnRing() {
    Rings& table = rings();
    const std::lock_guard guard(table.mutex);
    table.free.push_back(own_ring);
    own_ring = nullptr;
  }
};

Ring* take_ring() {
  {
    Rings& table = rings();
    const std::lock_guard guard(table.mutex);
    if (table.free.empty()) {
      table.all.push_back(std::make_unique<Ring>());
      own_ring = table.all.back().get();
    } else {
      own_ring = table.free.back();
      table.free.pop_back();
    }
  }
  thread_local ReturnRing at_end;
  static_cast<void>(at_end);
  return own_ring;
}

struct PointNames {
  const char* name;
  const char* arguments[3];
};
constexpr PointNames kPoints[] = {
#define TW_TRACE_NAMES(name, a, b, c) {#name, {#a, #b, #c}},
    TW_TRACE_POINTS(TW_TRACE_NAMES)
#undef TW_TRACE_NAMES
};

}  // namespace

namespace trace_detail {

constinit std::atomic<bool> on{false};

void record(TracePoint point, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  Ring* const ring = own_ring != nullptr ? own_ring : take_ring();
  const std::uint64_t number = ring->next++;
  Slot& slot = ring->slots[number & kRingMask];
  // The reader checks the sequence before and after; release and acquire order the words between.
  slot.sequence.store(0, std::memory_order_relaxed);
  slot.at_ns.store(SteadyClock::instance().now().ns, std::memory_order_release);
  slot.point_and_thread.store(static_cast<std::uint64_t>(point) << 32 | thread_number(),
                              std::memory_order_release);
  slot.arguments[0].store(a, std::memory_order_release);
  slot.arguments[1].store(b, std::memory_order_release);
  slot.arguments[2].store(c, std::memory_order_release);
  slot.sequence.store(number + 1, std::memory_order_release);
}

}  // namespace trace_detail

void set_tracing(bool on) { trace_detail::on.store(on, std::memory_order_relaxed); }

std::vector<TraceEvent> read_trace(std::size_t most) {
  std::vector<TraceEvent> events;
  Rings& table = rings();
  const std::lock_guard guard(table.mutex);
  for (const std::unique_ptr<Ring>& ring : table.all) {
    for (const Slot& slot : ring->slots) {
      const std::uint64_t before = slot.sequence.load(std::memory_order_acquire);
      if (before == 0) continue;
      TraceEvent event;
      event.number = before - 1;
      event.at_ns = slot.at_ns.load(std::memory_order_acquire);
      const std::uint64_t word = slot.point_and_thread.load(std::memory_order_acquire);
      event.point = static_cast<TracePoint>(word >> 32);
      event.thread = static_cast<std::uint32_t>(word);
      for (std::size_t i = 0; i < 3; ++i) {
        event.arguments[i] = slot.arguments[i].load(std::memory_order_acquire);
      }
      if (slot.sequence.load(std::memory_order_relaxed) == before) events.push_back(event);
    }
  }
  std::sort(events.begin(), events.end(), [](const TraceEvent& a, const TraceEvent& b) {
    return std::tie(a.at_ns, a.thread, a.number) < std::tie(b.at_ns, b.thread, b.number);
  });
  if (events.size() > most) events.erase(events.begin(), events.end() - static_cast<std::ptrdiff_t>(most));
  return events;
}

void clear_trace() {
  Rings& table = rings();
  const std::lock_guard guard(table.mutex);
  for (const std::unique_ptr<Ring>& ring : table.all) {
    for (Slot& slot : ring->slots) slot.sequence.store(0, std::memory_order_relaxed);
  }
}

std::string to_string(const TraceEvent& event) {
  const PointNames& names = kPoints[static_cast<std::size_t>(event.point)];
  char line[256];
  std::snprintf(line, sizeof line, "%14.6f s  t%-3u %-28s %s=%llu %s=%llu %s=%llu",
                static_cast<double>(event.at_ns) * 1e-9, event.thread, names.name, names.arguments[0],
                static_cast<unsigned long long>(event.arguments[0]), names.arguments[1],
                static_cast<unsigned long long>(event.arguments[1]), names.arguments[2],
                static_cast<unsigned long long>(event.arguments[2]));
  return line;
}

void print_trace(int file_descriptor, std::size_t most) {
  for (const TraceEvent& event : read_trace(most)) {
    const std::string line = to_string(event) + "\n";
    const ssize_t written = ::write(file_descriptor, line.data(), line.size());
    static_cast<void>(written);
  }
}

}  // namespace tidewheel
