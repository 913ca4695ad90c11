#include "bench/numbers.h"

#include <limits>

namespace tidewheel::bench {

namespace {

constexpr std::uint64_t kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

// Reads the digits in front; what follows them is left in `text`.
std::optional<std::uint64_t> take_digits(std::string_view& text) {
  std::uint64_t value = 0;
  std::size_t used = 0;
  while (used < text.size() && text[used] >= '0' && text[used] <= '9') {
    const std::uint64_t digit = static_cast<std::uint64_t>(text[used] - '0');
    if (value > (kLargest - digit) / 10) return std::nullopt;
    value = value * 10 + digit;
    ++used;
  }
  if (used == 0) return std::nullopt;
  text.remove_prefix(used);
  return value;
}

std::optional<std::uint64_t> times(std::uint64_t value, std::uint64_t unit) {
  if (value > kLargest / unit) return std::nullopt;
  return value * unit;
}

}  // namespace

std::optional<std::uint64_t> parse_count(std::string_view text) {
  const auto value = take_digits(text);
  return text.empty() ? value : std::nullopt;
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  const auto value = take_digits(text);
  if (!value) return std::nullopt;
  if (text.empty()) return value;
  if (text.size() != 1) return std::nullopt;
  switch (text[0]) {
    case 'k':
    case 'K': return times(*value, 1ULL << 10);
    case 'm':
    case 'M': return times(*value, 1ULL << 20);
    case 'g':
    case 'G': return times(*value, 1ULL << 30);
    case 't':
    case 'T': return times(*value, 1ULL << 40);
    case 'p':
    case 'P': return times(*value, 1ULL << 50);
    default: return std::nullopt;
  }
}

std::optional<Duration> parse_duration(std::string_view text) {
  const auto value = take_digits(text);
  if (!value) return std::nullopt;
  std::uint64_t unit_ns = 0;
  if (text == "ns") unit_ns = 1;
  if (text == "us") unit_ns = 1'000;
  if (text == "ms") unit_ns = 1'000'000;
  if (text == "s") unit_ns = 1'000'000'000;
  if (text == "m") unit_ns = 60'000'000'000;
  if (text == "h") unit_ns = 3'600'000'000'000;
  if (unit_ns == 0) return text.empty() && *value == 0 ? std::optional<Duration>(Duration{0}) : std::nullopt;
  const auto ns = times(*value, unit_ns);
  if (!ns) return std::nullopt;
  return Duration{static_cast<std::int64_t>(*ns)};
}

std::uint64_t SizeOrPercent::of(std::uint64_t whole) const {
  if (!is_percent) return value;
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(whole) * value / 100);
}

std::optional<SizeOrPercent> parse_size_or_percent(std::string_view text) {
  if (!text.empty() && text.back() == '%') {
    text.remove_suffix(1);
    const auto percent = parse_count(text);
    if (!percent || *percent == 0 || *percent > 100) return std::nullopt;
    return SizeOrPercent{.is_percent = true, .value = *percent};
  }
  const auto size = parse_size(text);
  if (!size) return std::nullopt;
  return SizeOrPercent{.is_percent = false, .value = *size};
}

std::string format_size(std::uint64_t bytes) {
  const char units[] = {'\0', 'k', 'M', 'G', 'T', 'P'};
  std::size_t unit = 0;
  while (unit + 1 < sizeof units && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  std::string text = std::to_string(bytes);
  if (units[unit] != '\0') text.push_back(units[unit]);
  return text;
}

std::string about_size(std::uint64_t bytes) {
  std::uint64_t unit = 1;
  while (bytes / unit >= 8192) unit *= 1024;
  const std::uint64_t whole = bytes / unit * unit;
  return (whole == bytes ? "" : "~") + format_size(whole);
}

}  // namespace tidewheel::bench
