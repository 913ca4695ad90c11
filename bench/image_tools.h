// bench/image_tools.h: `tidewheel mkfs` and `tidewheel dump`.
// Threads:   the caller's.
// Units:     bytes.
// Errors:    one line on standard error, and an exit status: 1 failed, 2 usage. A geometry that cannot be is
//            refused before the image is touched; a file that mkfs has made is taken away again when it
//            fails.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "bench/command_line.h"

namespace tidewheel::bench {

struct MkfsOptions {
  std::string image;
  std::uint64_t size_bytes = 0;  // 0: as large as the image is
  std::uint32_t ag_count = 0;    // 0: chosen
  std::uint64_t log_bytes = 0;   // 0: chosen
  std::string label;
  bool preallocate = false;
  bool force = false;
  std::string json_path;
  std::vector<std::string> command;
};
std::variant<MkfsOptions, UsageError> mkfs_options(const Arguments& arguments,
                                                   std::vector<std::string> command);
int run_mkfs(const MkfsOptions& options);

struct DumpOptions {
  enum class What : std::uint8_t { kSuper, kGroup, kInode, kDir, kLog };
  std::string image;
  What what = What::kSuper;
  std::uint64_t number = 0;
};
std::variant<DumpOptions, UsageError> dump_options(const Arguments& arguments);
int run_dump(const DumpOptions& options);

}  // namespace tidewheel::bench
