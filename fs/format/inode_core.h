// fs/format/inode_core.h: an inode on disk: 256 bytes, half core, half forks.
// Units:     size in bytes, blocks of 4 KiB (forks and their trees), times in nanoseconds since 1970 (two's
//            complement, 1677 to 2262).
// Invariant: every slot of a chunk carries a head of its own, free ones too (mode 0). The body is the part
//            that changes and is logged as it stands; head.crc and head.lsn are stamped at the write.
#pragma once
#include "fs/format/btree_block.h"

namespace tidewheel::disk {

inline constexpr std::uint32_t kInodeLog = 8;
inline constexpr std::uint32_t kInodeBytes = 256;
inline constexpr std::uint32_t kInodesPerBlock = kFsBlockBytes / kInodeBytes;
inline constexpr std::uint32_t kInodesPerBlockLog = 4;
inline constexpr std::uint32_t kInodeChunkBlocks = kInodesPerChunk / kInodesPerBlock;
// What is read and written as one buffer: 32 inodes. A chunk is two clusters.
inline constexpr std::uint32_t kInodeClusterBlocks = 2;
inline constexpr std::uint32_t kInodesPerCluster = kInodeClusterBlocks * kInodesPerBlock;
inline constexpr std::uint16_t kInodeMagic = 0x4954;  // "TI"
inline constexpr std::uint8_t kInodeVersion = 1;
inline constexpr std::uint32_t kForkBytes = 128;

enum class ForkFormat : std::uint8_t {
  kNone = 0,     // a free inode; no attributes
  kInline = 1,   // the bytes themselves: short symlinks, directories, attributes
  kExtents = 2,  // ExtentRecords
  kTree = 3,     // ForkRoot, keys and pointers of kExtentTreeShape
};

enum : std::uint8_t {
  kInodeAppendOnly = 1,
  kInodeImmutable = 2,
  kKnownInodeFlags = kInodeAppendOnly | kInodeImmutable,
};

struct InodeHead {
  Le16 magic;
  U8 version;
  U8 reserved;
  Le32 crc;     // of the 256 bytes, this field as zeros
  Le64 lsn;
  Le64 number;  // its own
  DiskUuid uuid;
};

struct InodeBody {
  Le16 mode;                // type and permissions as in <sys/stat.h>; 0: free
  U8 data_format;           // ForkFormat
  U8 attr_format;           // ForkFormat
  Le32 generation;          // moved on when the inode is used again
  Le64 size_bytes;
  Le64 blocks;
  Le64 change_count;
  Le64 atime_ns;
  Le64 mtime_ns;
  Le64 ctime_ns;
  Le64 born_ns;
  Le32 user;
  Le32 group;
  Le32 link_count;
  Le32 extent_count;        // of the data fork
  Le16 attr_extent_count;
  U8 flags;
  U8 attr_offset;           // in 8 bytes from the fork area's start; 0: no attribute fork
  Le32 next_unlinked;       // next inode (within the group) of the unlinked list, or UINT32_MAX
};

struct InodeCore {
  InodeHead head;
  InodeBody body;
};

struct DiskInode {
  InodeCore core;
  U8 forks[kForkBytes];  // data fork, then at attr_offset * 8 the attribute fork
};

// Root of a tree in a fork: followed by `count` keys and, from half of what is left, as many pointers.
struct ForkRoot {
  Le16 level;
  Le16 count;
  Le32 reserved;
};

inline constexpr std::uint16_t kModeTypeMask = 0xF000;
inline constexpr std::uint16_t kModeDirectory = 0x4000;
inline constexpr std::uint16_t kModeRegular = 0x8000;
inline constexpr std::uint16_t kModeSymlink = 0xA000;
inline constexpr std::uint16_t kModeFifo = 0x1000;
inline constexpr std::uint16_t kModeCharacter = 0x2000;
inline constexpr std::uint16_t kModeBlock = 0x6000;
inline constexpr std::uint16_t kModeSocket = 0xC000;

// A slot as mkfs and chunk allocation leave it: free, its head filled in, CRC stamped.
void start_inode(DiskInode& inode, const Uuid& uuid, InodeNumber number, std::uint32_t generation);
void stamp_inode(DiskInode& inode, Lsn lsn);

}  // namespace tidewheel::disk
