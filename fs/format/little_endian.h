// fs/format/little_endian.h: integers as they lie on disk: little-endian, fixed width, no alignment.
// Threads:   value types.
// Invariant: sizeof(Le<T>) == sizeof(T), alignment 1, so that a struct of these has no padding.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tidewheel::disk {

template <class T>
class Le {
  static_assert(std::is_unsigned_v<T>);

 public:
  Le() = default;
  constexpr Le(T value) { set(value); }  // NOLINT: as an integer
  constexpr Le& operator=(T value) {
    set(value);
    return *this;
  }
  constexpr operator T() const { return get(); }  // NOLINT: as an integer

  // Byte by byte only where the compiler computes, or the machine is big-endian.
  constexpr T get() const {
    T value = 0;
    if (!std::is_constant_evaluated() && std::endian::native == std::endian::little) {
      std::memcpy(&value, bytes_, sizeof(T));
      return value;
    }
    for (std::size_t i = sizeof(T); i-- > 0;) value = static_cast<T>((value << 8) | bytes_[i]);
    return value;
  }
  constexpr void set(T value) {
    if (!std::is_constant_evaluated() && std::endian::native == std::endian::little) {
      std::memcpy(bytes_, &value, sizeof(T));
      return;
    }
    for (std::size_t i = 0; i < sizeof(T); ++i) bytes_[i] = static_cast<std::uint8_t>(value >> (8 * i));
  }

 private:
  std::uint8_t bytes_[sizeof(T)];
};

using U8 = std::uint8_t;
using Le16 = Le<std::uint16_t>;
using Le32 = Le<std::uint32_t>;
using Le64 = Le<std::uint64_t>;

}  // namespace tidewheel::disk
