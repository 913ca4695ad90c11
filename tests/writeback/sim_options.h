// Options of an engine in which nothing is periodic: what is not woken sleeps for ever.
#pragma once
#include "writeback/engine_options.h"

namespace tidewheel {

inline EngineOptions unperiodic_options() {
  EngineOptions o;
  o.background_bytes = 8 << 10;
  o.object_overhead_bytes = 256;
  o.counter_chunk_bytes = 512;
  o.batch_objects = 4;
  o.batch_bytes = 8 << 10;
  o.batches_in_flight = 2;
  o.interval = {0};
  o.expire = seconds(1'000'000'000);
  o.writer_recheck = Duration::max();
  o.shards = 2;
  return o;
}

}  // namespace tidewheel
