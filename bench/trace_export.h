// bench/trace_export.h: recorded trace events as text in ftrace's line format, or as trace-event JSON.
// Threads:   pure functions of a snapshot.
// Units:     lines: seconds with microseconds, as ftrace prints them; JSON: microseconds with thousandths.
// Note:      docs/tracing.md has the fields. What the kernel's event has and nothing here corresponds to is
//            left out, never filled with a made-up number; sizes are bytes where the kernel's are pages, and
//            then their names say so.
#pragma once
#include <string>

#include "base/trace.h"

namespace tidewheel::bench {

// COMM-TID [CPU] ..... SECONDS: NAME: FIELDS; a head as ftrace's, with how many events were lost.
std::string trace_lines(const TraceSnapshot& trace);
// For Perfetto and chrome://tracing: batches as asynchronous slices, pauses of writers as slices of their
// threads, dirty and writeback bytes as a counter, the rest as instants. Every slice that begins also ends:
// one whose beginning was lost is left out, one that was open at the end is closed there and says so.
std::string trace_json(const TraceSnapshot& trace);

}  // namespace tidewheel::bench
