// bench/numbers.h: what people write for sizes, lengths of time and counts, read strictly.
// Threads:   pure functions.
// Units:     sizes in bytes (k, M, G, T, P are powers of 1024); durations ns, us, ms, s, m, h.
// Errors:    nullopt for anything that is not wholly such a number, or overflows 63 bits. Nothing is
//            rounded, clipped or half read: "4kx", "-1", "1e3", " 4" and "" are refused.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace tidewheel::bench {

std::optional<std::uint64_t> parse_count(std::string_view text);
std::optional<std::uint64_t> parse_size(std::string_view text);
// A unit is needed, except for 0.
std::optional<Duration> parse_duration(std::string_view text);

// "25%" or a size.
struct SizeOrPercent {
  bool is_percent = false;
  std::uint64_t value = 0;  // bytes, or 1 to 100
  std::uint64_t of(std::uint64_t whole) const;
};
std::optional<SizeOrPercent> parse_size_or_percent(std::string_view text);

// 4096 -> "4k", 1610612736 -> "1536M": exact, in the largest unit that divides it.
std::string format_size(std::uint64_t bytes);
// For people: three digits or so, "102M", and "~" in front unless that is exact.
std::string about_size(std::uint64_t bytes);

}  // namespace tidewheel::bench
