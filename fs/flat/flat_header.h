// fs/flat/flat_header.h: block 0 of a flat store: says whose the device is, and where a cleanly unmounted
// store left its index.
// Threads:   value types and functions without state.
// Units:     bytes and blocks of 4 KiB. Little-endian; the layout is in docs/flat-store.md.
// Errors:    kNotEmpty: something else lives here (or nothing but zeros is not so: see probe_device());
//            kCorrupt: ours, but damaged; kUnsupported: ours, of a later version or another block size.
#pragma once
#include <cstdint>
#include <span>

#include "base/crc32c.h"
#include "base/result.h"
#include "fs/block/block_device.h"
#include "fs/flat/block_allocator.h"

namespace tidewheel {

struct FlatHeader {
  enum class State : std::uint32_t {
    kInUse = 1,  // mounted, or not unmounted: the contents are lost
    kClean = 2,  // the index begins where `index` says
  };
  static constexpr std::uint32_t kVersion = 1;

  State state = State::kInUse;
  std::uint64_t seed = 0;  // differs from store to store, as a UUID would
  std::uint64_t device_blocks = 0;
  std::uint64_t files = 0;
  std::uint64_t index_bytes = 0;
  std::uint32_t index_crc = 0;
  BlockExtent index;  // the first extent of the saved index
};

enum class DeviceContent : std::uint8_t {
  kBlank,      // nothing but zeros, to the end
  kFlatStore,  // a header of this version, valid
};

void encode_header(const FlatHeader& header, std::span<std::byte, kBlockBytes> block);
Result<FlatHeader> decode_header(std::span<const std::byte, kBlockBytes> block);

// Looks at what is on the device, and changes nothing. A device whose first block is zeros is looked through
// (holds_data(): a blank disk costs one reading). Devices that keep no data are blank.
Result<DeviceContent> probe_device(BlockDevice& device);
Result<FlatHeader> read_header(BlockDevice& device);
Result<void> write_header(BlockDevice& device, const FlatHeader& header);  // and flushes

}  // namespace tidewheel
