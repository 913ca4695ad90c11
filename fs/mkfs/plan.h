// fs/mkfs/plan.h: the geometry of a new file system, or why there can be none.
// Threads:   pure functions.
// Units:     bytes in what is asked for and in limits, blocks of 4 KiB in the result.
// Errors:    a Refusal, with the limit that would be accepted; nothing has been touched by then.
#pragma once
#include <cstdint>
#include <variant>

#include "fs/format/geometry.h"

namespace tidewheel::mkfs {

struct Wishes {
  std::uint64_t device_bytes = 0;
  std::uint32_t ag_count = 0;   // 0: chosen
  std::uint64_t log_bytes = 0;  // 0: chosen
};

struct Refusal {
  enum class Why : std::uint8_t {
    kDeviceTooSmall,  // limit: the least size, in bytes
    kDeviceTooLarge,  // limit: the most
    kTooManyGroups,   // limit: the most groups for this size and log
    kTooFewGroups,    // limit: the least groups for this size
    kLogTooSmall,     // limit: the least log, in bytes
    kLogTooLarge,     // limit: the most, in bytes
  };
  Why why = Why::kDeviceTooSmall;
  std::uint64_t limit = 0;
};

// Blocks that mkfs puts on the free list of each group, right behind the headers (and the root's chunk).
inline constexpr std::uint32_t kFirstFreeListBlocks = 6;
// Groups of at least so much where there is room for kChosenGroups of them; else one group.
inline constexpr std::uint64_t kChosenAgBytes = 16ULL << 20;
inline constexpr std::uint32_t kChosenGroups = 4;

// Everything but uuid. The log lies in the middle group, behind its headers.
std::variant<disk::Geometry, Refusal> plan(const Wishes& wishes);

// The least image that any wishes allow.
std::uint64_t least_device_bytes();

}  // namespace tidewheel::mkfs
