// inode/lab/access.h: what an experiment plays back: reads and writes of files, in the order and at the times
// of one program. Made by a generator, or recorded and read from a text.
// Owns:      nothing: plain values.
// Threads:   pure functions.
// Units:     bytes; Durations since the beginning.
// Errors:    a sentence that names the line and the field; nothing is asserted of what a user wrote.
// Invariant: times never go back; a length is from 1 byte to kLongestAccess.
//
// The text: one access a line, `time_us op inode offset length`, op `read` or `write`, decimal numbers;
// empty lines, and what follows a `#`, are passed over.
//   # time_us op inode offset length
//   0 write 12 0 4096
//   150 read 12 0 512
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace tidewheel::lab {

enum class AccessKind : std::uint8_t { kRead, kWrite };

inline constexpr std::uint64_t kLongestAccess = 1ULL << 30;

struct Access {
  Duration at;
  AccessKind kind = AccessKind::kRead;
  std::uint64_t inode = 1;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  friend bool operator==(const Access&, const Access&) = default;
};

// Either accesses or an error, never both.
struct Accesses {
  std::vector<Access> list;
  std::string error;
};

// ---- recorded ----
Accesses parse_trace(std::string_view text);
Accesses read_trace(const std::string& path);
std::string to_trace(const std::vector<Access>& accesses);

// ---- generated ----
enum class Pattern : std::uint8_t {
  kZipf,   // page r, of those in a fixed random order, with a chance in proportion to 1 / r^skew
  kScan,   // every page once, in order; from the start again when all have been
  kLoop,   // the first loop_pages again and again, in order: the worst case of LRU
  kMixed,  // zipf, and after each scan_every accesses a scan of scan_pages that nobody reads again soon
};
// "zipf", "scan", "loop", "mixed"; false: none of these.
bool pattern_of(std::string_view name, Pattern& pattern);
const char* name_of(Pattern pattern);

struct PatternOptions {
  Pattern pattern = Pattern::kZipf;
  std::uint64_t accesses = 100'000;
  std::uint64_t files = 16;
  std::uint64_t pages_per_file = 1024;  // so 64 MiB in all
  std::uint32_t write_percent = 0;      // of the accesses; each is of one page
  Duration interval = microseconds(100);  // between two accesses
  double skew = 0.9;
  std::uint64_t loop_pages = 4096;
  std::uint64_t scan_every = 2000, scan_pages = 2000;
  std::uint64_t seed = 1;
};
Accesses make_pattern(const PatternOptions& options);

}  // namespace tidewheel::lab
