#include "fs/format/block_header.h"

#include <cstddef>

#include "base/assert.h"
#include "base/crc32c.h"
#include "fs/format/directory.h"

namespace tidewheel {

Uuid Uuid::from_random(std::uint64_t high, std::uint64_t low) {
  Uuid uuid;
  for (std::size_t i = 0; i < 8; ++i) {
    uuid.bytes[i] = static_cast<std::uint8_t>(high >> (8 * (7 - i)));
    uuid.bytes[8 + i] = static_cast<std::uint8_t>(low >> (8 * (7 - i)));
  }
  uuid.bytes[6] = static_cast<std::uint8_t>((uuid.bytes[6] & 0x0F) | 0x40);  // version 4
  uuid.bytes[8] = static_cast<std::uint8_t>((uuid.bytes[8] & 0x3F) | 0x80);  // variant 1
  return uuid;
}

std::string Uuid::text() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

namespace disk {

std::uint32_t crc_without(std::span<const std::byte> bytes, std::size_t crc_at) {
  TW_DASSERT(crc_at + 4 <= bytes.size(), "a CRC field lies inside what it covers");
  static constexpr std::byte kZeros[4] = {};
  std::uint32_t crc = crc32c(0, bytes.data(), crc_at);
  crc = crc32c(crc, kZeros, sizeof kZeros);
  return crc32c(crc, bytes.data() + crc_at + 4, bytes.size() - crc_at - 4);
}

void start_block(std::span<std::byte> block, std::uint32_t magic, const Uuid& uuid, DeviceAddress address,
                 std::uint64_t owner) {
  std::memset(block.data(), 0, block.size());
  auto& header = view<BlockHeader>(block);
  header.magic = magic;
  header.block = address.value;
  header.owner = owner;
  header.uuid = to_disk(uuid);
}

void stamp_block(std::span<std::byte> block, Lsn lsn) {
  auto& header = view<BlockHeader>(block);
  header.lsn = lsn.value;
  header.crc = crc_without(block, offsetof(BlockHeader, crc));
}

void start_inode(DiskInode& inode, const Uuid& uuid, InodeNumber number, std::uint32_t generation) {
  std::memset(static_cast<void*>(&inode), 0, sizeof inode);
  inode.core.head.magic = kInodeMagic;
  inode.core.head.version = kInodeVersion;
  inode.core.head.number = number.value;
  inode.core.head.uuid = to_disk(uuid);
  inode.core.body.generation = generation;
  inode.core.body.next_unlinked = UINT32_MAX;
  stamp_inode(inode, kNoLsn);
}

void stamp_inode(DiskInode& inode, Lsn lsn) {
  inode.core.head.lsn = lsn.value;
  inode.core.head.crc =
      crc_without({reinterpret_cast<const std::byte*>(&inode), sizeof inode}, offsetof(InodeHead, crc));
}

std::uint32_t dir_hash(const void* name, std::size_t n) {
  const auto* bytes = static_cast<const std::uint8_t*>(name);
  std::uint32_t hash = 2166136261U;
  for (std::size_t i = 0; i < n; ++i) hash = (hash ^ bytes[i]) * 16777619U;
  return hash;
}

}  // namespace disk

}  // namespace tidewheel
