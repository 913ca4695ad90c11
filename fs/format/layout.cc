// Sizes and offsets of everything on disk: the one place where they are asserted. docs/format/layout.md shows
// the same; a test compares golden images.
#include <cstddef>
#include <type_traits>

#include "fs/format/ag_headers.h"
#include "fs/format/attributes.h"
#include "fs/format/directory.h"
#include "fs/format/log_format.h"
#include "fs/format/log_items.h"
#include "fs/format/superblock.h"

namespace tidewheel::disk {
namespace {

// No padding, no alignment, no invariant: bytes.
template <class T, std::size_t kBytes>
constexpr bool on_disk = std::has_unique_object_representations_v<T> && std::is_trivially_copyable_v<T> &&
                         std::is_standard_layout_v<T> && alignof(T) == 1 && sizeof(T) == kBytes;

#define TW_AT(type, member, offset) static_assert(offsetof(type, member) == (offset))

static_assert(on_disk<Le16, 2>);
static_assert(on_disk<Le32, 4>);
static_assert(on_disk<Le64, 8>);
static_assert(on_disk<DiskUuid, 16>);

static_assert(on_disk<BlockHeader, 48>);
TW_AT(BlockHeader, magic, 0);
TW_AT(BlockHeader, crc, 4);
TW_AT(BlockHeader, lsn, 8);
TW_AT(BlockHeader, block, 16);
TW_AT(BlockHeader, owner, 24);
TW_AT(BlockHeader, uuid, 32);

static_assert(on_disk<Superblock, 192>);
TW_AT(Superblock, version, 48);
TW_AT(Superblock, block_bytes, 52);
TW_AT(Superblock, device_blocks, 56);
TW_AT(Superblock, ag_blocks, 64);
TW_AT(Superblock, ag_count, 68);
TW_AT(Superblock, ag_block_log, 72);
TW_AT(Superblock, inode_log, 73);
TW_AT(Superblock, log_write_unit_bytes, 76);
TW_AT(Superblock, log_start, 80);
TW_AT(Superblock, log_blocks, 88);
TW_AT(Superblock, log_version, 92);
TW_AT(Superblock, root_inode, 96);
TW_AT(Superblock, features_compatible, 104);
TW_AT(Superblock, features_read_only_compatible, 112);
TW_AT(Superblock, features_incompatible, 120);
TW_AT(Superblock, inode_count, 128);
TW_AT(Superblock, free_inode_count, 136);
TW_AT(Superblock, free_block_count, 144);
TW_AT(Superblock, created_ns, 152);
TW_AT(Superblock, label, 160);

static_assert(on_disk<AgFree, 96>);
TW_AT(AgFree, ag_number, 48);
TW_AT(AgFree, length_blocks, 52);
TW_AT(AgFree, by_block_root, 56);
TW_AT(AgFree, by_block_levels, 60);
TW_AT(AgFree, by_size_root, 64);
TW_AT(AgFree, by_size_levels, 68);
TW_AT(AgFree, free_list_first, 72);
TW_AT(AgFree, free_list_count, 76);
TW_AT(AgFree, free_blocks, 80);
TW_AT(AgFree, longest_free, 84);
TW_AT(AgFree, tree_blocks, 88);

static_assert(on_disk<AgInode, 344>);
TW_AT(AgInode, ag_number, 48);
TW_AT(AgInode, length_blocks, 52);
TW_AT(AgInode, inode_count, 56);
TW_AT(AgInode, free_inode_count, 60);
TW_AT(AgInode, tree_root, 64);
TW_AT(AgInode, tree_levels, 68);
TW_AT(AgInode, free_root, 72);
TW_AT(AgInode, free_levels, 76);
TW_AT(AgInode, newest_chunk, 80);
TW_AT(AgInode, unlinked, 88);

static_assert(on_disk<AgFreeList, 4096>);
TW_AT(AgFreeList, blocks, 48);

static_assert(on_disk<BtreeHeader, 72>);
TW_AT(BtreeHeader, level, 48);
TW_AT(BtreeHeader, count, 50);
TW_AT(BtreeHeader, left, 56);
TW_AT(BtreeHeader, right, 64);
static_assert(on_disk<FreeRecord, 8>);
static_assert(on_disk<InodeChunkRecord, 16>);
TW_AT(InodeChunkRecord, free_mask, 8);
static_assert(on_disk<InodeChunkKey, 4>);
static_assert(on_disk<ExtentRecord, 16>);
static_assert(on_disk<ExtentKey, 8>);
static_assert(on_disk<DirHashRecord, 8>);
static_assert(kFreeByBlockShape.max_records() == 503 && kFreeByBlockShape.max_keys() == 335);
static_assert(kInodeTreeShape.max_records() == 251 && kInodeTreeShape.max_keys() == 503);
static_assert(kExtentTreeShape.max_records() == 251 && kExtentTreeShape.max_keys() == 251);
static_assert(kDirHashShape.max_records() == 503 && kDirHashShape.max_keys() == 251);

static_assert(on_disk<InodeHead, 40>);
TW_AT(InodeHead, crc, 4);
TW_AT(InodeHead, lsn, 8);
TW_AT(InodeHead, number, 16);
TW_AT(InodeHead, uuid, 24);
static_assert(on_disk<InodeBody, 88>);
TW_AT(InodeBody, data_format, 2);
TW_AT(InodeBody, attr_format, 3);
TW_AT(InodeBody, generation, 4);
TW_AT(InodeBody, size_bytes, 8);
TW_AT(InodeBody, blocks, 16);
TW_AT(InodeBody, change_count, 24);
TW_AT(InodeBody, atime_ns, 32);
TW_AT(InodeBody, mtime_ns, 40);
TW_AT(InodeBody, ctime_ns, 48);
TW_AT(InodeBody, born_ns, 56);
TW_AT(InodeBody, user, 64);
TW_AT(InodeBody, group, 68);
TW_AT(InodeBody, link_count, 72);
TW_AT(InodeBody, extent_count, 76);
TW_AT(InodeBody, attr_extent_count, 80);
TW_AT(InodeBody, flags, 82);
TW_AT(InodeBody, attr_offset, 83);
TW_AT(InodeBody, next_unlinked, 84);
static_assert(on_disk<InodeCore, 128>);
static_assert(on_disk<DiskInode, kInodeBytes>);
TW_AT(DiskInode, forks, 128);
static_assert(on_disk<ForkRoot, 8>);

static_assert(on_disk<InlineDirHeader, 16>);
static_assert(on_disk<InlineDirEntry, 14>);
static_assert(on_disk<DirBlockHeader, 64>);
TW_AT(DirBlockHeader, best, 48);
TW_AT(DirBlockHeader, entry_count, 60);
static_assert(on_disk<DirEntry, 12>);
TW_AT(DirEntry, offset, 2);
TW_AT(DirEntry, inode, 4);
static_assert(on_disk<DirFree, 8>);
TW_AT(DirFree, offset, 2);
TW_AT(DirFree, bytes, 4);
static_assert(on_disk<DirBlockTail, 8>);

static_assert(on_disk<InlineAttrHeader, 4>);
static_assert(on_disk<InlineAttrEntry, 3>);
static_assert(on_disk<AttrLeafHeader, 64>);
TW_AT(AttrLeafHeader, next, 48);
TW_AT(AttrLeafHeader, count, 56);
static_assert(on_disk<AttrLeafEntry, 12>);
static_assert(on_disk<AttrRemotePlace, 12>);
static_assert(on_disk<AttrValueHeader, 56>);

static_assert(on_disk<LogRecordHeader, kLogSectorBytes>);
TW_AT(LogRecordHeader, magic, 4);
TW_AT(LogRecordHeader, version, 8);
TW_AT(LogRecordHeader, payload_bytes, 12);
TW_AT(LogRecordHeader, lsn, 16);
TW_AT(LogRecordHeader, tail_lsn, 24);
TW_AT(LogRecordHeader, crc, 32);
TW_AT(LogRecordHeader, operation_count, 36);
TW_AT(LogRecordHeader, previous_sector, 40);
TW_AT(LogRecordHeader, record_sectors, 44);
TW_AT(LogRecordHeader, uuid, 48);
TW_AT(LogRecordHeader, buffer_bytes, 64);
TW_AT(LogRecordHeader, words, 72);
static_assert(on_disk<LogMoreHeader, kLogSectorBytes>);
TW_AT(LogMoreHeader, words, 8);
static_assert(log_header_sectors(111) == 1 && log_header_sectors(112) == 2);
static_assert(log_header_sectors(64) == 1 && kMaxLogHeaderSectors == 5);
static_assert(on_disk<LogOp, 12>);
static_assert(on_disk<LogCheckpoint, 16>);
static_assert(on_disk<LogCommit, 16>);
static_assert(on_disk<LogUnmount, 16>);

static_assert(on_disk<LogItemHeader, 4>);
static_assert(on_disk<BufferItemFormat, 24>);
TW_AT(BufferItemFormat, flags, 4);
TW_AT(BufferItemFormat, dirty_words, 6);
TW_AT(BufferItemFormat, length_blocks, 8);
TW_AT(BufferItemFormat, block_type, 12);
TW_AT(BufferItemFormat, address, 16);
static_assert(on_disk<InodeItemFormat, 32>);
TW_AT(InodeItemFormat, fields, 4);
TW_AT(InodeItemFormat, offset_bytes, 10);
TW_AT(InodeItemFormat, inode, 16);
TW_AT(InodeItemFormat, cluster, 24);
static_assert(on_disk<InodeChunkFormat, 24>);
static_assert(on_disk<IntentFormat, 16>);
static_assert(on_disk<DoneFormat, 16>);
static_assert(on_disk<IntentExtent, 16>);
static_assert(on_disk<IntentMap, 32>);
static_assert(on_disk<MockItemFormat, 32>);
static_assert(on_disk<MockBlock, 64>);

}  // namespace
}  // namespace tidewheel::disk
