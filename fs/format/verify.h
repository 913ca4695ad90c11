// fs/format/verify.h: whether a block is what it says it is: after each read, and before each write.
// Owns:      nothing. Pure functions over bytes: nothing from disk is trusted, nothing is asserted of it.
// Threads:   thread-safe.
// Errors:    a Verdict: which check failed, where in the block, and in words.
// Invariant: a block that verify_write() refused is not stamped and must not reach the device; one that it
//            stamped passes verify_read() in the same context.
#pragma once
#include <span>

#include "base/result.h"
#include "fs/format/geometry.h"

namespace tidewheel::disk {

enum class BlockType : std::uint8_t {
  kSuper,
  kAgFree,
  kAgInode,
  kAgFreeList,
  kFreeByBlock,
  kFreeBySize,
  kInodeTree,
  kFreeInode,
  kExtentTree,
  kDirHash,
  kInodeCluster,
  kDirBlock,
  kDirData,
  kAttrLeaf,
  kAttrValue,
  kMock,
};
inline constexpr std::uint32_t kBlockTypes = 16;
const char* name_of(BlockType type);
// Of a block that begins with a BlockHeader; kBlockTypes for an unknown one.
std::uint32_t block_type_of_magic(std::uint32_t magic);
std::uint32_t magic_of(BlockType type);  // 0 for kInodeCluster, whose inodes have one each
bool known_block_type(std::uint32_t number);

enum class Fault : std::uint8_t { kNone, kLength, kMagic, kCrc, kUuid, kBlock, kOwner, kLsn, kStructure };
const char* name_of(Fault fault);

struct Verdict {
  Fault fault = Fault::kNone;
  std::uint32_t at = 0;   // offset in the block
  const char* what = "";  // the check, in words

  bool good() const { return fault == Fault::kNone; }
  // kCorrupt, with the fault as its detail.
  Result<void> result() const {
    if (good()) return {};
    return TW_FAIL_WITH(kCorrupt, fault);
  }
};

inline constexpr std::uint64_t kAnyOwner = UINT64_MAX;

struct VerifyContext {
  const Geometry* geometry = nullptr;  // never null
  DeviceAddress address;               // where the block was read from, or goes to
  std::uint64_t owner = kAnyOwner;     // the inode, where the reader knows it
  // The log's head: nothing on disk can be newer. Before recovery knows it: kNewestLsn.
  Lsn newest;
};
inline constexpr Lsn kNewestLsn{UINT64_MAX};

// Everything: magic, CRC, UUID, own number, owner, LSN, structure; in this order, so that the first failure
// names the cause.
Verdict verify_read(BlockType type, std::span<const std::byte> block, const VerifyContext& context);
// All of it but CRC and LSN of what is in the block; then stamps `lsn` and the CRC.
Verdict verify_write(BlockType type, std::span<std::byte> block, const VerifyContext& context, Lsn lsn);
// An inode cluster: the same with an LSN for each inode; those of kKeepLsn keep what they carry.
inline constexpr Lsn kKeepLsn{UINT64_MAX};
Verdict verify_write_cluster(std::span<std::byte> cluster, const VerifyContext& context,
                             std::span<const Lsn> lsns);

// Whether the block's header names this inode as its owner. What no inode owns (a group's block, a cluster)
// belongs to whoever asks.
bool belongs_to(BlockType type, std::span<const std::byte> block, std::uint64_t owner);

// One inode of a cluster.
Verdict verify_inode(const DiskInode& inode, InodeNumber expected, const Geometry& geometry, Lsn newest);

// A first look at block 0, before any geometry is known. Errors: kNotEmpty (not tidefs), kCorrupt,
// kUnsupported (of another version, or with features that this program does not know; ro-compatible ones
// only when `writable`).
Result<Geometry> read_superblock(std::span<const std::byte> block, std::uint64_t device_blocks,
                                 bool writable);

// ---- structure alone, for the parts above (fs/format/verify_*.cc) ----
Verdict check_superblock(const Superblock& super, const VerifyContext& context);
Verdict check_ag_free(const AgFree& ag_free, const VerifyContext& context);
Verdict check_ag_inode(const AgInode& ag_inode, const VerifyContext& context);
Verdict check_ag_free_list(const AgFreeList& list, const VerifyContext& context);
Verdict check_btree(const BtreeShape& shape, std::span<const std::byte> block, const VerifyContext& context);
Verdict check_dir_block(std::span<const std::byte> block, const VerifyContext& context, bool with_tail);
Verdict check_attr_leaf(std::span<const std::byte> block, const VerifyContext& context);
Verdict check_attr_value(std::span<const std::byte> block, const VerifyContext& context);
Verdict check_mock(std::span<const std::byte> block, const VerifyContext& context);
Verdict check_inode(const DiskInode& inode, const Geometry& geometry);

}  // namespace tidewheel::disk
