// base/time.h: moments and lengths of time, in nanoseconds of a Clock, never wall time.
// Units:     nanoseconds, signed 64 bits (292 years each way).
// Invariant: an Instant means something only beside others of the same Clock.
#pragma once
#include <compare>
#include <cstdint>

namespace tidewheel {

struct Duration {
  std::int64_t ns = 0;

  friend constexpr auto operator<=>(const Duration&, const Duration&) = default;
  friend constexpr Duration operator+(Duration a, Duration b) { return {a.ns + b.ns}; }
  friend constexpr Duration operator-(Duration a, Duration b) { return {a.ns - b.ns}; }
  friend constexpr Duration operator*(Duration a, std::int64_t n) { return {a.ns * n}; }
  friend constexpr Duration operator/(Duration a, std::int64_t n) { return {a.ns / n}; }
  constexpr Duration& operator+=(Duration d) { ns += d.ns; return *this; }
  constexpr double seconds() const { return static_cast<double>(ns) * 1e-9; }
  static constexpr Duration max() { return {INT64_MAX}; }
};

constexpr Duration nanoseconds(std::int64_t n) { return {n}; }
constexpr Duration microseconds(std::int64_t n) { return {n * 1'000}; }
constexpr Duration milliseconds(std::int64_t n) { return {n * 1'000'000}; }
constexpr Duration seconds(std::int64_t n) { return {n * 1'000'000'000}; }

struct Instant {
  std::int64_t ns = 0;

  friend constexpr auto operator<=>(const Instant&, const Instant&) = default;
  friend constexpr Instant operator+(Instant t, Duration d) { return {t.ns + d.ns}; }
  friend constexpr Instant operator-(Instant t, Duration d) { return {t.ns - d.ns}; }
  friend constexpr Duration operator-(Instant a, Instant b) { return {a.ns - b.ns}; }
  static constexpr Instant max() { return {INT64_MAX}; }
  static constexpr Instant min() { return {INT64_MIN}; }
};

}  // namespace tidewheel
