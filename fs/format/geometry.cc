#include "fs/format/geometry.h"

namespace tidewheel::disk {

Result<Geometry> Geometry::make(const Superblock& super) {
  if (super.version != kFormatVersion || super.block_bytes != kFsBlockBytes) return TW_FAIL(kUnsupported);
  if (super.inode_log != kInodeLog || super.log_write_unit_bytes != kFsBlockBytes) return TW_FAIL(kCorrupt);
  const Geometry geometry{.uuid = from_disk(super.header.uuid),
                          .device_blocks = super.device_blocks,
                          .ag_blocks = super.ag_blocks,
                          .ag_count = super.ag_count,
                          .ag_block_log = super.ag_block_log,
                          .log_start = {super.log_start},
                          .log_blocks = super.log_blocks,
                          .root_inode = {super.root_inode}};
  TW_TRY(geometry.check());
  return geometry;
}

// Divisions before products: any bytes may come in.
Result<void> Geometry::check() const {
  if (ag_blocks < kMinAgBlocks || ag_blocks > kMaxAgBlocks) return TW_FAIL(kCorrupt);
  if (ag_count == 0 || ag_block_log != ceil_log2(ag_blocks)) return TW_FAIL(kCorrupt);
  if (ag_count > (kMaxFsBlock >> ag_block_log)) return TW_FAIL(kCorrupt);
  const std::uint64_t before_last = static_cast<std::uint64_t>(ag_count - 1) * ag_blocks;
  if (device_blocks < before_last + kMinLastAgBlocks) return TW_FAIL(kCorrupt);
  if (device_blocks > before_last + ag_blocks) return TW_FAIL(kCorrupt);
  if (log_blocks == 0 || log_blocks > kMaxLogBlocks) return TW_FAIL(kCorrupt);
  if (!contains(log_start, log_blocks)) return TW_FAIL(kCorrupt);
  if (ag_block_of(log_start).value < kAgHeaderBlocks) return TW_FAIL(kCorrupt);
  if (!contains(root_inode)) return TW_FAIL(kCorrupt);
  return {};
}

}  // namespace tidewheel::disk
