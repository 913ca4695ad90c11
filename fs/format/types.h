// fs/format/types.h: the numbers of tidefs, each a type of its own.
// Threads:   value types.
// Units:     blocks of kFsBlockBytes, except Lsn::block (sectors of 512 bytes).
// Note:      `InodeNumber` of inode/ is any store's name for a file; the number that tidefs composes from
//            group, block and slot is disk::InodeNumber.
#pragma once
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tidewheel {

inline constexpr std::uint32_t kFsBlockBytes = 4096;
inline constexpr std::uint32_t kFsBlockLog = 12;
inline constexpr std::uint32_t kLogSectorBytes = 512;

// A place in the log and a moment: `cycle` counts the times the log has been gone round (from 1), `block` is
// the sector in the log. Later is greater. The cycle does not wrap: mounting is refused from
// kLastCycle on (at 1 MiB a cycle, 2 PiB of log).
struct Lsn {
  std::uint64_t value = 0;

  static constexpr std::uint32_t kLastCycle = 0x7FFF'FFFF;
  static constexpr Lsn make(std::uint32_t cycle, std::uint32_t block) {
    return {static_cast<std::uint64_t>(cycle) << 32 | block};
  }
  constexpr std::uint32_t cycle() const { return static_cast<std::uint32_t>(value >> 32); }
  constexpr std::uint32_t block() const { return static_cast<std::uint32_t>(value); }
  constexpr bool none() const { return value == 0; }
  friend constexpr auto operator<=>(const Lsn&, const Lsn&) = default;
};
inline constexpr Lsn kNoLsn{0};  // never logged
inline constexpr Lsn kNeverLsn{UINT64_MAX};

// Bytes that a log of so many sectors holds from `from` to `to`; `from` is the earlier one, by less than
// a whole round and one sector.
constexpr std::uint64_t log_distance_bytes(Lsn from, Lsn to, std::uint32_t log_sectors) {
  const std::uint64_t sectors =
      static_cast<std::uint64_t>(to.cycle() - from.cycle()) * log_sectors + to.block() - from.block();
  return sectors * kLogSectorBytes;
}

// The place `sectors` further on.
constexpr Lsn log_advance(Lsn from, std::uint64_t sectors, std::uint32_t log_sectors) {
  const std::uint64_t sector = from.block() + sectors;
  return Lsn::make(from.cycle() + static_cast<std::uint32_t>(sector / log_sectors),
                   static_cast<std::uint32_t>(sector % log_sectors));
}

struct AgNumber {
  std::uint32_t value = 0;
  friend constexpr auto operator<=>(const AgNumber&, const AgNumber&) = default;
};

// A block within its allocation group.
struct AgBlock {
  std::uint32_t value = 0;
  constexpr bool null() const { return value == UINT32_MAX; }
  friend constexpr auto operator<=>(const AgBlock&, const AgBlock&) = default;
};
inline constexpr AgBlock kNullAgBlock{UINT32_MAX};

// A block within the file system: group << ag_block_log | block in the group. Not dense: where a group is
// no power of two, numbers are left out. disk::Geometry converts.
struct FsBlock {
  std::uint64_t value = 0;
  constexpr bool null() const { return value == UINT64_MAX; }
  friend constexpr auto operator<=>(const FsBlock&, const FsBlock&) = default;
};
inline constexpr FsBlock kNullFsBlock{UINT64_MAX};

// A block of the device, dense from 0: where a buffer lives.
struct DeviceAddress {
  std::uint64_t value = 0;
  constexpr std::uint64_t bytes() const { return value << kFsBlockLog; }
  friend constexpr auto operator<=>(const DeviceAddress&, const DeviceAddress&) = default;
};

struct Uuid {
  std::array<std::uint8_t, 16> bytes{};
  friend constexpr auto operator<=>(const Uuid&, const Uuid&) = default;
  constexpr bool null() const {
    for (const std::uint8_t b : bytes) {
      if (b != 0) return false;
    }
    return true;
  }
  // Version 4 (random) from 128 random bits.
  static Uuid from_random(std::uint64_t high, std::uint64_t low);
  std::string text() const;  // 8-4-4-4-12 hexadecimal digits
};

namespace disk {

// group, block in the group, slot in the block: group << (ag_block_log + 4) | block << 4 | slot.
struct InodeNumber {
  std::uint64_t value = 0;
  constexpr bool null() const { return value == 0; }  // block 0 is a superblock: never an inode
  friend constexpr auto operator<=>(const InodeNumber&, const InodeNumber&) = default;
};

}  // namespace disk

}  // namespace tidewheel
