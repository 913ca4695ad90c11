#include "fs/flat/flat_header.h"

#include <bit>
#include <cstring>

#include "base/crc32c.h"
#include "fs/flat/aligned_buffer.h"

namespace tidewheel {

namespace {

static_assert(std::endian::native == std::endian::little, "words go to the device as they are");

constexpr char kMagic[8] = {'T', 'W', 'F', 'L', 'A', 'T', '0', '1'};

struct Layout {  // offsets in block 0; the CRC covers all bytes before it
  static constexpr std::size_t kMagicAt = 0;
  static constexpr std::size_t kVersionAt = 8;
  static constexpr std::size_t kBlockBytesAt = 12;
  static constexpr std::size_t kSeedAt = 16;
  static constexpr std::size_t kDeviceBlocksAt = 24;
  static constexpr std::size_t kStateAt = 32;
  static constexpr std::size_t kIndexCrcAt = 36;
  static constexpr std::size_t kFilesAt = 40;
  static constexpr std::size_t kIndexBytesAt = 48;
  static constexpr std::size_t kIndexAt = 56;  // block, blocks
  static constexpr std::size_t kCrcAt = kBlockBytes - 4;
};

template <class T>
void put(std::span<std::byte, kBlockBytes> block, std::size_t at, T value) {
  std::memcpy(block.data() + at, &value, sizeof value);
}
template <class T>
T get(std::span<const std::byte, kBlockBytes> block, std::size_t at) {
  T value;
  std::memcpy(&value, block.data() + at, sizeof value);
  return value;
}

}  // namespace

void encode_header(const FlatHeader& header, std::span<std::byte, kBlockBytes> block) {
  std::memset(block.data(), 0, block.size());
  std::memcpy(block.data() + Layout::kMagicAt, kMagic, sizeof kMagic);
  put<std::uint32_t>(block, Layout::kVersionAt, FlatHeader::kVersion);
  put<std::uint32_t>(block, Layout::kBlockBytesAt, kBlockBytes);
  put<std::uint64_t>(block, Layout::kSeedAt, header.seed);
  put<std::uint64_t>(block, Layout::kDeviceBlocksAt, header.device_blocks);
  put<std::uint32_t>(block, Layout::kStateAt, static_cast<std::uint32_t>(header.state));
  put<std::uint32_t>(block, Layout::kIndexCrcAt, header.index_crc);
  put<std::uint64_t>(block, Layout::kFilesAt, header.files);
  put<std::uint64_t>(block, Layout::kIndexBytesAt, header.index_bytes);
  put<std::uint64_t>(block, Layout::kIndexAt, header.index.block);
  put<std::uint64_t>(block, Layout::kIndexAt + 8, header.index.blocks);
  put<std::uint32_t>(block, Layout::kCrcAt, crc32c(0, block.data(), Layout::kCrcAt));
}

Result<FlatHeader> decode_header(std::span<const std::byte, kBlockBytes> block) {
  if (std::memcmp(block.data() + Layout::kMagicAt, kMagic, sizeof kMagic) != 0) return TW_FAIL(kNotEmpty);
  if (get<std::uint32_t>(block, Layout::kCrcAt) != crc32c(0, block.data(), Layout::kCrcAt)) {
    return TW_FAIL(kCorrupt);
  }
  if (get<std::uint32_t>(block, Layout::kVersionAt) != FlatHeader::kVersion ||
      get<std::uint32_t>(block, Layout::kBlockBytesAt) != kBlockBytes) {
    return TW_FAIL(kUnsupported);
  }
  FlatHeader header;
  header.seed = get<std::uint64_t>(block, Layout::kSeedAt);
  header.device_blocks = get<std::uint64_t>(block, Layout::kDeviceBlocksAt);
  const auto state = get<std::uint32_t>(block, Layout::kStateAt);
  if (state != 1 && state != 2) return TW_FAIL(kCorrupt);
  header.state = static_cast<FlatHeader::State>(state);
  header.index_crc = get<std::uint32_t>(block, Layout::kIndexCrcAt);
  header.files = get<std::uint64_t>(block, Layout::kFilesAt);
  header.index_bytes = get<std::uint64_t>(block, Layout::kIndexBytesAt);
  header.index = {get<std::uint64_t>(block, Layout::kIndexAt),
                  get<std::uint64_t>(block, Layout::kIndexAt + 8)};
  return header;
}

Result<DeviceContent> probe_device(BlockDevice& device) {
  if (!device.keeps_data()) return DeviceContent::kBlank;
  if (device.size_bytes() < kBlockBytes) return TW_FAIL(kInvalidArgument);
  AlignedBuffer buffer(1);
  TW_TRY(device.read(0, buffer.span(), IoCause::kMetadata));
  const auto first = buffer.span().first<kBlockBytes>();
  if (all_zero(first)) {
    // Other makers' images may begin with any number of zeros: what is blank is so to the end.
    const Result<bool> data = device.holds_data();
    if (!data) return Unexpected(data.error());
    if (*data) return TW_FAIL(kNotEmpty);
    return DeviceContent::kBlank;
  }
  TW_TRY(decode_header(first));
  return DeviceContent::kFlatStore;
}

Result<FlatHeader> read_header(BlockDevice& device) {
  AlignedBuffer buffer(1);
  TW_TRY(device.read(0, buffer.span(), IoCause::kMetadata));
  return decode_header(buffer.span().first<kBlockBytes>());
}

Result<void> write_header(BlockDevice& device, const FlatHeader& header) {
  AlignedBuffer buffer(1);
  encode_header(header, buffer.span().first<kBlockBytes>());
  TW_TRY(device.write(0, buffer.span(), IoCause::kMetadata));
  return device.flush(IoCause::kMetadata);
}

}  // namespace tidewheel
