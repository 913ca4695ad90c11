// writeback/stats.h: what an engine, or one of its contexts, has done and holds now.
// Threads:   a copy. Counters are exact when nothing moves; while something does, each is right by itself.
// Units:     bytes, nanoseconds, counts.
#pragma once
#include <cstdint>

#include "base/time.h"
#include "writeback/dirty_list.h"

namespace tidewheel {

struct WritebackStats {
  // writeback
  std::uint64_t works = 0, objects = 0, pages = 0, io_bytes = 0, ios = 0, batches = 0;
  Duration oldest_age_max;              // age of an object when its write began
  std::uint64_t failed_writes = 0;      // object writes that failed
  std::uint64_t given_up = 0;           // objects whose dirt was dropped by the target's give_up()
  std::uint64_t flusher_wakeups = 0;    // times a flusher looked for work
  // throttle
  std::uint64_t throttle_pauses = 0, throttle_ns = 0;
  DirtyListStats dirty_list;
  // now
  std::uint64_t dirty_bytes = 0;        // writeback not counted
  std::uint64_t writeback_bytes = 0;
  std::uint64_t dirty_objects = 0;      // listed, on the ladder, in batches
  std::uint32_t throttled_threads = 0;
  // Exact (WritebackContext::oldest_dirty); the engine's: the greatest of its contexts', read one by one.
  // 0: nothing is dirty, or its stamps lie in the future (the clock was set back).
  Duration oldest_dirty_age;
};

}  // namespace tidewheel
