// tests/trace_recording.h: tracing on, from here to the end of the scope; and what was recorded meanwhile.
#pragma once
#include <vector>

#include "base/trace.h"

namespace tidewheel {

class TraceRecording {
 public:
  TraceRecording() {
    clear_trace();
    set_tracing(true);
  }
  ~TraceRecording() {
    set_tracing(false);
    clear_trace();
  }
  TraceRecording(const TraceRecording&) = delete;
  TraceRecording& operator=(const TraceRecording&) = delete;
  std::vector<TraceEvent> events(TracePoint point) const {
    std::vector<TraceEvent> found;
    for (const TraceEvent& event : read_trace()) {
      if (event.point == point) found.push_back(event);
    }
    return found;
  }
};

}  // namespace tidewheel
