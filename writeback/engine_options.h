// writeback/engine_options.h: how an engine and its contexts are set up.
// Units:     bytes; Durations of EngineOptions::clock.
// Errors:    WritebackEngine::make() says which value it does not accept.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "writeback/backing_device.h"
#include "writeback/throttle.h"

namespace tidewheel {

struct EngineOptions {
  std::string design = "timer-wheel";
  std::uint32_t shards = 0;    // of each context's list; 0: the design's own choice
  std::uint32_t flushers = 1;  // per context
  Duration expire = seconds(30);
  Duration interval = seconds(5);  // 0: nothing is written for its age
  // What is dirty in its timestamps alone (kDirtyTimestamps) is not written for that until it is this old,
  // whatever `interval` says; 0: never. A sync, an fsync, and what is dirtied otherwise write it sooner. Off:
  // it is as all other dirt. A file system that is mounted without lazytime marks kDirtyMetadata as well.
  bool lazytime = true;
  Duration lazytime_expire = seconds(12LL * 3600);
  // Background writing starts above background_bytes of dirty data and stops exactly at it. Not below
  // dirty_bytes / 2: it is cut to that. 0 for dirty_bytes is not accepted.
  std::uint64_t background_bytes = 100ULL << 20;
  std::uint64_t dirty_bytes = 200ULL << 20;
  std::uint64_t object_overhead_bytes = 1024;  // each dirty object counts this besides its data
  std::uint32_t batch_objects = 1024;
  // Data of one batch. Default: a 64th of dirty_bytes, between 64 KiB and 4 MiB: what a batch gives back at
  // once must be small beside the stretch in which a throttle controls, or whoever runs then takes it all.
  std::uint64_t batch_bytes = UINT64_MAX;
  std::uint32_t batches_in_flight = 4;  // per flusher
  // How much a counter's shard keeps to itself; default: 1/2048 of dirty_bytes, at most 256 KiB.
  // 0: none, so that thresholds are noticed to the byte (tests).
  std::uint64_t counter_chunk_bytes = UINT64_MAX;
  std::string throttle = "hard-limit";  // at first: set_throttle() changes it
  std::string work_policy = "steady";   // at first: set_work_policy() changes it
  // A waiting writer tells the flushers again after this, should a policy or a target have gone astray.
  // Nothing depends on it: Duration::max() = never.
  Duration writer_recheck = Throttle::kLongestPause;
  Duration retry_first = seconds(1);     // back-off after an object's first failure; doubles ...
  Duration retry_longest = seconds(64);  // ... up to this
  // add_context() refuses beyond it: concurrency comes from the target's geometry, not from the number of
  // owners. At most WritebackEngine::kMaxContexts.
  std::uint32_t max_contexts = 1024;
  const Clock* clock = nullptr;          // null: the steady clock
};

// The default of batch_bytes under a limit.
constexpr std::uint64_t default_batch_bytes(std::uint64_t dirty_bytes) {
  constexpr std::uint64_t kLeast = 64ULL << 10;
  constexpr std::uint64_t kMost = 4ULL << 20;
  const std::uint64_t part = dirty_bytes / 64;
  return part < kLeast ? kLeast : part > kMost ? kMost : part;
}

// A context's own thresholds stand beside the engine's: whichever is passed first decides. 0 where another
// value of the engine's holds for it too.
struct ContextOptions {
  std::string name = "context";
  // Shared by the contexts of one device; null: the context has one of its own. It belongs to one engine.
  std::shared_ptr<BackingDevice> device = nullptr;
  static constexpr std::uint64_t kNone = UINT64_MAX;
  // As the engine's: exact, background cut to half of the limit; the limit must hold two pages of an object.
  std::uint64_t background_bytes = kNone;
  std::uint64_t dirty_bytes = kNone;
  // What it takes when it is made; for many owners on one target, small ones.
  std::uint32_t flushers = 0;
  std::uint32_t batches_in_flight = 0;
  std::uint32_t batch_objects = 0;
  std::uint64_t batch_bytes = 0;  // 0: the engine's, at most a 64th of its own limit (64 KiB at least)
  std::uint32_t shards = 0;
};

}  // namespace tidewheel
