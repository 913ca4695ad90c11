#include "base/trace.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string_view>
#include <tuple>

#include "base/assert.h"
#include "base/clock.h"
#include "base/thread.h"

namespace tidewheel {

namespace {


// Words are relaxed atomics: a reader may meet a slot that is being written, and then leaves it out, which
// the sequence tells: 0 while written, else 1 + the event's number.
struct Slot {
  std::atomic<std::uint64_t> sequence{0};
  std::atomic<std::int64_t> at_ns{0};
  std::atomic<std::uint64_t> who_and_what{0};  // cpu:16 | point:16 | thread:32
  std::array<std::atomic<std::uint64_t>, kTraceArguments> arguments{};
};
static_assert(sizeof(Slot) == 56);

struct Ring {
  explicit Ring(std::size_t events) : slots(events), mask(events - 1) {}
  std::vector<Slot> slots;
  const std::uint64_t mask;
  std::atomic<std::uint64_t> next{0};  // stored by the owning thread alone; relaxed: readers only count
  std::uint64_t cleared_at = 0;        // next at the last clear_trace(); Rings::mutex
};

struct Rings {
  std::mutex mutex;
  std::vector<std::unique_ptr<Ring>> all;
  std::vector<Ring*> free;  // their threads have ended; what they recorded can still be read
  std::vector<TraceThread> threads;
  std::size_t ring_events = kTraceRingEvents;
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

void name_thread(Rings& table) {
  char name[16] = {};
  ::prctl(PR_GET_NAME, name);
  TraceThread self{.thread = thread_number(), .name = name,
                   .system_id = static_cast<std::uint32_t>(::syscall(SYS_gettid))};
  for (TraceThread& one : table.threads) {
    if (one.thread != self.thread) continue;
    one = self;
    return;
  }
  table.threads.push_back(self);
}

Ring* take_ring() {
  {
    Rings& table = rings();
    const std::lock_guard guard(table.mutex);
    // One of the size that is wanted now; smaller ones stay for when it is wanted again.
    const auto fitting = std::find_if(table.free.begin(), table.free.end(), [&](const Ring* ring) {
      return ring->slots.size() == table.ring_events;
    });
    if (fitting == table.free.end()) {
      table.all.push_back(std::make_unique<Ring>(table.ring_events));
      own_ring = table.all.back().get();
    } else {
      own_ring = *fitting;
      table.free.erase(fitting);
    }
    name_thread(table);
  }
  thread_local ReturnRing at_end;
  static_cast<void>(at_end);
  return own_ring;
}

constexpr TracePointNames kPoints[] = {
#define TW_TRACE_NAMES(name, a, b, c, d) {#name, {#a, #b, #c, #d}},
    TW_TRACE_POINTS(TW_TRACE_NAMES)
#undef TW_TRACE_NAMES
};

}  // namespace

namespace trace_detail {

constinit std::atomic<bool> on{false};

void record(TracePoint point, std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d) {
  Ring* const ring = own_ring != nullptr ? own_ring : take_ring();
  const std::uint64_t number = ring->next.load(std::memory_order_relaxed);
  ring->next.store(number + 1, std::memory_order_relaxed);
  Slot& slot = ring->slots[number & ring->mask];
  // The reader checks the sequence before and after; release and acquire order the words between.
  slot.sequence.store(0, std::memory_order_relaxed);
  slot.at_ns.store(SteadyClock::instance().now().ns, std::memory_order_release);
  slot.who_and_what.store(static_cast<std::uint64_t>(current_cpu() & 0xFFFFU) << 48 |
                              static_cast<std::uint64_t>(point) << 32 | thread_number(),
                          std::memory_order_release);
  slot.arguments[0].store(a, std::memory_order_release);
  slot.arguments[1].store(b, std::memory_order_release);
  slot.arguments[2].store(c, std::memory_order_release);
  slot.arguments[3].store(d, std::memory_order_release);
  slot.sequence.store(number + 1, std::memory_order_release);
}

}  // namespace trace_detail

void set_tracing(bool on) { trace_detail::on.store(on, std::memory_order_relaxed); }

const TracePointNames& names_of(TracePoint point) { return kPoints[static_cast<std::size_t>(point)]; }

void set_trace_ring_events(std::size_t events) {
  TW_ASSERT(std::has_single_bit(events), "a ring has a power of two of events");
  Rings& table = rings();
  const std::lock_guard guard(table.mutex);
  table.ring_events = events;
}

TraceSnapshot snapshot_trace() {
  TraceSnapshot snapshot{.events = read_trace(), .threads = {}, .dropped = 0};
  Rings& table = rings();
  const std::lock_guard guard(table.mutex);
  snapshot.threads = table.threads;
  std::sort(snapshot.threads.begin(), snapshot.threads.end(),
            [](const TraceThread& a, const TraceThread& b) { return a.thread < b.thread; });
  for (const std::unique_ptr<Ring>& ring : table.all) {
    const std::uint64_t recorded = ring->next.load(std::memory_order_relaxed) - ring->cleared_at;
    snapshot.dropped += recorded - std::min<std::uint64_t>(recorded, ring->slots.size());
  }
  return snapshot;
}

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
      const std::uint64_t word = slot.who_and_what.load(std::memory_order_acquire);
      event.cpu = static_cast<std::uint16_t>(word >> 48);
      event.point = static_cast<TracePoint>(word >> 32 & 0xFFU);
      event.thread = static_cast<std::uint32_t>(word);
      for (std::size_t i = 0; i < kTraceArguments; ++i) {
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
    ring->cleared_at = ring->next.load(std::memory_order_relaxed);
  }
}

std::string to_string(const TraceEvent& event) {
  const TracePointNames& names = names_of(event.point);
  char line[320];
  int length = std::snprintf(line, sizeof line, "%14.6f s  t%-3u %-28s",
                             static_cast<double>(event.at_ns) * 1e-9, event.thread, names.name);
  for (std::size_t i = 0; i < kTraceArguments; ++i) {
    if (std::string_view(names.arguments[i]) == "unused") continue;
    length += std::snprintf(line + length, sizeof line - static_cast<std::size_t>(length), " %s=%llu",
                            names.arguments[i], static_cast<unsigned long long>(event.arguments[i]));
  }
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
