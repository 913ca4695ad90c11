#include "fs/mkfs/plan.h"

#include <algorithm>

#include "fs/format/log_sizes.h"

namespace tidewheel::mkfs {

namespace {

using Why = Refusal::Why;

constexpr std::uint64_t kMostBlocks = disk::kMaxFsBlock / 2;  // 32 PiB: every group's number fits

std::uint64_t blocks_of(std::uint64_t bytes) { return bytes / kFsBlockBytes; }
std::uint64_t bytes_of(std::uint64_t blocks) { return blocks * kFsBlockBytes; }

// Cut evenly; the last group has what is left, and at least so much that it has room for its headers.
struct Cut {
  std::uint64_t ag_blocks;
  std::uint32_t ag_count;
  std::uint64_t device_blocks;  // less a rest that would be too small for a group
};
Cut cut(std::uint64_t blocks, std::uint32_t groups) {
  const std::uint64_t ag_blocks = (blocks + groups - 1) / groups;
  std::uint64_t count = (blocks + ag_blocks - 1) / ag_blocks;
  const std::uint64_t last = blocks - (count - 1) * ag_blocks;
  if (count > 1 && last < disk::kMinLastAgBlocks) {
    --count;
    blocks = count * ag_blocks;
  }
  return {ag_blocks, static_cast<std::uint32_t>(count), blocks};
}

bool log_fits(const Cut& made) {
  return disk::min_log_blocks(static_cast<std::uint32_t>(made.ag_blocks), made.device_blocks) <=
         disk::max_log_blocks(static_cast<std::uint32_t>(made.ag_blocks));
}

std::uint32_t least_groups(std::uint64_t blocks) {
  return static_cast<std::uint32_t>((blocks + disk::kMaxAgBlocks - 1) / disk::kMaxAgBlocks);
}

std::uint32_t chosen_groups(std::uint64_t blocks) {
  if (bytes_of(blocks) < kChosenGroups * kChosenAgBytes) return 1;
  return std::max(kChosenGroups, least_groups(blocks));
}

bool works(std::uint64_t blocks, std::uint32_t groups) {
  const Cut made = cut(blocks, groups);
  return made.ag_count == groups && log_fits(made);
}

// The nearest number of groups from there down that comes out as itself.
std::uint32_t settle(std::uint64_t blocks, std::uint32_t groups) {
  while (groups > 1 && !works(blocks, groups)) {
    groups = std::min(groups - 1, std::max(1U, cut(blocks, groups).ag_count));
  }
  return groups;
}

// The most groups of this size whose smallest log still fits one of them.
std::uint32_t most_groups(std::uint64_t blocks) {
  std::uint64_t low = least_groups(blocks);
  std::uint64_t high = std::min<std::uint64_t>(blocks / disk::kMinAgBlocks, UINT32_MAX / 2);
  while (low < high) {
    const std::uint64_t middle = low + (high - low + 1) / 2;
    if (log_fits(cut(blocks, static_cast<std::uint32_t>(middle)))) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  // Cutting evenly may come out at fewer groups: the next number below that comes out at itself.
  return settle(blocks, static_cast<std::uint32_t>(low));
}

}  // namespace

std::uint64_t least_device_bytes() {
  // Grows with the size, the log it needs grows slower: the first that fits.
  std::uint64_t low = disk::kMinAgBlocks, high = blocks_of(kChosenAgBytes);
  while (low < high) {
    const std::uint64_t middle = (low + high) / 2;
    if (log_fits({middle, 1, middle})) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return bytes_of(low);
}

std::variant<disk::Geometry, Refusal> plan(const Wishes& wishes) {
  const std::uint64_t blocks = blocks_of(wishes.device_bytes);
  if (wishes.device_bytes < least_device_bytes()) return Refusal{Why::kDeviceTooSmall, least_device_bytes()};
  if (blocks > kMostBlocks) return Refusal{Why::kDeviceTooLarge, bytes_of(kMostBlocks)};
  const std::uint32_t groups = wishes.ag_count != 0 ? wishes.ag_count : chosen_groups(blocks);
  if (groups < least_groups(blocks)) return Refusal{Why::kTooFewGroups, least_groups(blocks)};
  if (groups > blocks / disk::kMinAgBlocks) return Refusal{Why::kTooManyGroups, most_groups(blocks)};
  const Cut made = cut(blocks, groups);
  if (made.ag_count != groups && wishes.ag_count != 0) {
    // Rounding up has left less than a group over.
    return Refusal{Why::kTooManyGroups, settle(blocks, made.ag_count)};
  }
  if (!log_fits(made)) return Refusal{Why::kTooManyGroups, most_groups(blocks)};

  disk::Geometry geometry;
  geometry.device_blocks = made.device_blocks;
  geometry.ag_blocks = static_cast<std::uint32_t>(made.ag_blocks);
  geometry.ag_count = made.ag_count;
  geometry.ag_block_log = disk::ceil_log2(made.ag_blocks);
  const std::uint32_t least = disk::min_log_blocks(geometry.ag_blocks, geometry.device_blocks);
  const std::uint32_t most = disk::max_log_blocks(geometry.ag_blocks);
  if (wishes.log_bytes != 0) {
    const std::uint64_t log_blocks = blocks_of(wishes.log_bytes);
    if (log_blocks < least) return Refusal{Why::kLogTooSmall, bytes_of(least)};
    if (log_blocks > most) return Refusal{Why::kLogTooLarge, bytes_of(most)};
    geometry.log_blocks = static_cast<std::uint32_t>(log_blocks);
  } else {
    geometry.log_blocks = disk::default_log_blocks(geometry.ag_blocks, geometry.device_blocks);
  }
  // Never the last group, which may be short, unless there is no other.
  const AgNumber log_ag{(geometry.ag_count - 1) / 2};
  const std::uint32_t before_log =
      disk::kAgHeaderBlocks + kFirstFreeListBlocks + (log_ag.value == 0 ? disk::kInodeChunkBlocks : 0);
  geometry.log_start = geometry.fs_block(log_ag, {before_log});
  geometry.root_inode = geometry.inode_number({0}, disk::kAgHeaderBlocks << disk::kInodesPerBlockLog);
  TW_ASSERT(geometry.check().has_value(), "a plan is a geometry");
  return geometry;
}

}  // namespace tidewheel::mkfs
