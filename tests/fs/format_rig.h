// tests/fs/format_rig.h: a small geometry, and one good block of each type to try verifiers on.
#pragma once
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "fs/format/attributes.h"
#include "fs/format/directory.h"
#include "fs/format/log_format.h"
#include "fs/format/log_items.h"
#include "fs/format/verify.h"

namespace tidewheel::disk {

// 3 groups of 1,000 blocks, the last one of 500; the log in the middle one.
inline Geometry small_geometry() {
  Geometry geometry;
  geometry.uuid = Uuid::from_random(0x0123456789ABCDEF, 0x0F1E2D3C4B5A6978);
  geometry.device_blocks = 2500;
  geometry.ag_blocks = 1000;
  geometry.ag_count = 3;
  geometry.ag_block_log = 10;
  geometry.log_start = {1ULL << 10 | 8};
  geometry.log_blocks = 100;
  geometry.root_inode = {8U << kInodesPerBlockLog};
  return geometry;
}

struct SampleBlock {
  BlockType type;
  const char* variant;
  DeviceAddress address;
  std::vector<std::byte> bytes;

  std::span<std::byte> span() { return bytes; }
  std::span<const std::byte> span() const { return bytes; }
};

// Stamped with LSN 5:16. Each type at least once, trees as leaf and as node.
std::vector<SampleBlock> sample_blocks(const Geometry& geometry);
inline constexpr Lsn kSampleLsn = Lsn::make(5, 16);

inline VerifyContext context_of(const SampleBlock& block, const Geometry& geometry) {
  return {.geometry = &geometry, .address = block.address, .newest = Lsn::make(5, 16)};
}

}  // namespace tidewheel::disk
