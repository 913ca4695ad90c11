#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/config.h"
#include "base/rng.h"
#include "inode/lab/access.h"

namespace tidewheel::lab {

namespace {

constexpr struct {
  Pattern pattern;
  const char* name;
} kNames[] = {{Pattern::kZipf, "zipf"},
              {Pattern::kScan, "scan"},
              {Pattern::kLoop, "loop"},
              {Pattern::kMixed, "mixed"}};

constexpr std::uint64_t kMostPages = 1ULL << 24;     // 64 GiB of files: 256 MiB of tables here
constexpr std::uint64_t kMostAccesses = 1ULL << 28;

// Ranks with a chance in proportion to 1 / rank^skew, by a table of sums and a binary search.
class Zipf {
 public:
  Zipf(std::uint64_t pages, double skew, Rng& rng) : sums_(pages), page_of_(pages) {
    double sum = 0;
    for (std::uint64_t rank = 0; rank < pages; ++rank) {
      sum += std::pow(static_cast<double>(rank + 1), -skew);
      sums_[rank] = sum;
    }
    // Hot pages lie anywhere, not at the front of the first file.
    std::iota(page_of_.begin(), page_of_.end(), 0U);
    for (std::uint64_t i = pages; i > 1; --i) std::swap(page_of_[i - 1], page_of_[rng.below(i)]);
  }
  std::uint64_t next(Rng& rng) const {
    const double at = static_cast<double>(rng.next() >> 11) * 0x1p-53 * sums_.back();
    const auto found = std::upper_bound(sums_.begin(), sums_.end(), at) - sums_.begin();
    return page_of_[std::min(static_cast<std::size_t>(found), sums_.size() - 1)];
  }

 private:
  std::vector<double> sums_;
  std::vector<std::uint32_t> page_of_;
};

std::string flaw_of(const PatternOptions& o) {
  if (o.files == 0 || o.pages_per_file == 0) return "a pattern needs at least one file of one page";
  if (o.files > kMostPages / o.pages_per_file) return "a pattern has at most 2^24 pages in all its files";
  if (o.accesses > kMostAccesses) return "a pattern has at most 2^28 accesses";
  if (o.write_percent > 100) return "write_percent is from 0 to 100";
  if (o.interval.ns < 0) return "the interval between accesses is not negative";
  if (!(o.skew >= 0 && o.skew <= 10)) return "skew is from 0 (all pages alike) to 10";
  const std::uint64_t pages = o.files * o.pages_per_file;
  if (o.pattern == Pattern::kLoop && (o.loop_pages == 0 || o.loop_pages > pages)) {
    return "loop_pages is from 1 to the number of pages in all files";
  }
  if (o.pattern == Pattern::kMixed && (o.scan_every == 0 || o.scan_pages > pages)) {
    return "scan_every is at least 1, and scan_pages at most the number of pages in all files";
  }
  return {};
}

}  // namespace

bool pattern_of(std::string_view name, Pattern& pattern) {
  for (const auto& row : kNames) {
    if (name != row.name) continue;
    pattern = row.pattern;
    return true;
  }
  return false;
}

const char* name_of(Pattern pattern) {
  for (const auto& row : kNames) {
    if (pattern == row.pattern) return row.name;
  }
  return "?";
}

Accesses make_pattern(const PatternOptions& o) {
  Accesses made;
  made.error = flaw_of(o);
  if (!made.error.empty()) return made;
  const std::uint64_t pages = o.files * o.pages_per_file;
  Rng rng(o.seed);
  const bool zipfian = o.pattern == Pattern::kZipf || o.pattern == Pattern::kMixed;
  const Zipf zipf(zipfian ? pages : 1, o.skew, rng);
  std::uint64_t scanned = 0;    // where the scan stands
  std::uint64_t scan_left = 0;  // kMixed: of the one that is under way
  made.list.reserve(o.accesses);
  for (std::uint64_t i = 0; i < o.accesses; ++i) {
    std::uint64_t page = 0;
    switch (o.pattern) {
      case Pattern::kZipf: page = zipf.next(rng); break;
      case Pattern::kScan: page = i % pages; break;
      case Pattern::kLoop: page = i % o.loop_pages; break;
      case Pattern::kMixed:
        if (scan_left == 0 && i % (o.scan_every + o.scan_pages) == o.scan_every) scan_left = o.scan_pages;
        if (scan_left != 0) {
          --scan_left;
          page = scanned++ % pages;
        } else {
          page = zipf.next(rng);
        }
        break;
    }
    const bool writes = o.write_percent != 0 && rng.below(100) < o.write_percent;
    made.list.push_back({o.interval * static_cast<std::int64_t>(i),
                         writes ? AccessKind::kWrite : AccessKind::kRead, 1 + page / o.pages_per_file,
                         page % o.pages_per_file * kPageBytes, kPageBytes});
  }
  return made;
}

}  // namespace tidewheel::lab
