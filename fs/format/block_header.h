// fs/format/block_header.h: what every metadata block but an inode block begins with.
// Threads:   value types and pure functions.
// Units:     `block` in device blocks (DeviceAddress).
// Errors:    none here: fs/format/verify.h judges.
// Invariant: the CRC covers the whole block, its own field taken as zeros: no byte of a block, used or
//            not, can change unseen. Unused bytes are zeros when a block is made.
#pragma once
#include <span>

#include "fs/format/little_endian.h"
#include "fs/format/types.h"

namespace tidewheel::disk {

// Four letters, in this order on disk.
constexpr std::uint32_t magic_of(const char (&text)[5]) {
  std::uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<std::uint8_t>(text[i]);
  return value;
}

inline constexpr std::uint32_t kSuperMagic = magic_of("TdSB");
inline constexpr std::uint32_t kAgFreeMagic = magic_of("TdGF");
inline constexpr std::uint32_t kAgInodeMagic = magic_of("TdGI");
inline constexpr std::uint32_t kAgFreeListMagic = magic_of("TdFL");
inline constexpr std::uint32_t kFreeByBlockMagic = magic_of("TdBb");   // free space by block
inline constexpr std::uint32_t kFreeBySizeMagic = magic_of("TdBs");    // free space by size
inline constexpr std::uint32_t kInodeTreeMagic = magic_of("TdBi");     // all inode chunks
inline constexpr std::uint32_t kFreeInodeMagic = magic_of("TdBf");     // chunks with a free inode
inline constexpr std::uint32_t kExtentTreeMagic = magic_of("TdBe");    // a file's extents
inline constexpr std::uint32_t kDirHashMagic = magic_of("TdBh");       // a directory's hashed names
inline constexpr std::uint32_t kDirBlockMagic = magic_of("TdDb");      // a whole directory in one block
inline constexpr std::uint32_t kDirDataMagic = magic_of("TdDd");       // names of a larger directory
inline constexpr std::uint32_t kAttrLeafMagic = magic_of("TdAl");
inline constexpr std::uint32_t kAttrValueMagic = magic_of("TdAv");     // a value too large for a leaf
inline constexpr std::uint32_t kMockMagic = magic_of("TdMk");          // blocks of the mock items

struct DiskUuid {
  U8 bytes[16];
};

struct BlockHeader {
  Le32 magic;
  Le32 crc;     // CRC32C of the whole block, this field as zeros
  Le64 lsn;     // start of the last checkpoint that changed it and is known; 0: never logged
  Le64 block;   // its own address on the device
  Le64 owner;   // AG blocks: the group's number; blocks of an inode: its number
  DiskUuid uuid;
};

inline Uuid from_disk(const DiskUuid& on_disk) {
  Uuid uuid;
  std::memcpy(uuid.bytes.data(), on_disk.bytes, 16);
  return uuid;
}
inline DiskUuid to_disk(const Uuid& uuid) {
  DiskUuid on_disk;
  std::memcpy(on_disk.bytes, uuid.bytes.data(), 16);
  return on_disk;
}

// A view of bytes from disk as a struct of Le fields (alignment 1). `bytes` are at least as many as T has.
template <class T>
const T& view(std::span<const std::byte> bytes, std::size_t at = 0) {
  static_assert(alignof(T) == 1 && std::is_trivially_copyable_v<T>);
  return *reinterpret_cast<const T*>(bytes.data() + at);
}
template <class T>
T& view(std::span<std::byte> bytes, std::size_t at = 0) {
  static_assert(alignof(T) == 1 && std::is_trivially_copyable_v<T>);
  return *reinterpret_cast<T*>(bytes.data() + at);
}

// CRC32C of `bytes` with the four at `crc_at` taken as zeros.
std::uint32_t crc_without(std::span<const std::byte> bytes, std::size_t crc_at);

// Zeros all of `block` and fills the header in; the CRC comes with the write.
void start_block(std::span<std::byte> block, std::uint32_t magic, const Uuid& uuid, DeviceAddress address,
                 std::uint64_t owner);
// What a write stamps last.
void stamp_block(std::span<std::byte> block, Lsn lsn);

}  // namespace tidewheel::disk
