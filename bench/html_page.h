// bench/html_page.h: what compare measured, as one HTML page that needs nothing else: no network (its content
// policy forbids it), no script for its content.
// Threads:   a pure function.
// Note:      text from outside (paths, command lines, processor names, errors) passes html_escape().
#pragma once
#include <string>
#include <vector>

#include "bench/json_report.h"
#include "bench/machine.h"
#include "bench/options.h"
#include "bench/run_figures.h"

namespace tidewheel::bench {

struct ComparePage {
  const CompareOptions& options;
  const CompareDocument& document;
  const std::vector<RunFigures>& runs;  // the complete ones
  MachineDescription machine;
  std::string error;  // why the comparison ended early; empty: it did not
};
std::string compare_page(const ComparePage& page);

}  // namespace tidewheel::bench
