// bench/fsmark_text.h: the text that fs_mark 3.3 prints, column for column.
// Threads:   pure functions.
// Source:    the published behaviour of fs_mark 3.3; docs/fsmark.md says what differs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "bench/options.h"
#include "bench/run_result.h"

namespace tidewheel::bench {

// `started` as ctime(3) has it, without the newline; `target` for the one line that fs_mark hasn't.
std::string fsmark_header(const FsmarkOptions& options, const std::string& started,
                          const std::string& target);
std::string fsmark_row(const WorkloadOptions& workload, const LoopResult& loop, std::uint64_t count);
// Average, sum of threads, p50, p90, p99.
std::string fsmark_footer(const std::vector<LoopResult>& loops);
// A line for each of several owners; nothing for one.
std::string fsmark_owners(const RunResult& result);

}  // namespace tidewheel::bench
