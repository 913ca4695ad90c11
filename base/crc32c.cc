#include "base/crc32c.h"

#include <isa-l/crc.h>

namespace tidewheel {

std::uint32_t crc32c(std::uint32_t crc, const void* data, std::size_t n) {
  // isa-l takes int lengths, and neither inverts before nor after.
  auto* bytes = static_cast<unsigned char*>(const_cast<void*>(data));
  constexpr std::size_t kPiece = 1U << 30;
  crc = ~crc;
  while (n != 0) {
    const std::size_t piece = n < kPiece ? n : kPiece;
    crc = crc32_iscsi(bytes, static_cast<int>(piece), crc);
    bytes += piece;
    n -= piece;
  }
  return ~crc;
}

}  // namespace tidewheel
