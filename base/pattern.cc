#include "base/pattern.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/config.h"
#include "base/rng.h"

namespace tidewheel {

namespace {

constexpr std::size_t kBlockWords = kPageBytes / sizeof(std::uint64_t);

// Twice a block: a window starts anywhere in the first half.
const std::array<std::uint64_t, 2 * kBlockWords>& table() {
  static const auto words = [] {
    std::array<std::uint64_t, 2 * kBlockWords> made;
    Rng rng(0x7469646577686C21);  // any constant; changing it changes all content
    for (std::uint64_t& word : made) word = rng.next();
    return made;
  }();
  return words;
}

struct Block {
  const std::uint64_t* window;
  std::uint64_t key;
};

Block block_of(const Pattern& pattern, std::uint64_t block) {
  // Three rounds, so that neighbours in seed, file or block share nothing.
  const std::uint64_t a = Rng(pattern.seed).next();
  const std::uint64_t b = Rng(a ^ pattern.file).next();
  const std::uint64_t key = Rng(b ^ block).next();
  return Block{table().data() + key % kBlockWords, key};
}

// Calls piece(block, first byte within it, bytes, position in the buffer) for each block that is touched,
// until it answers false.
template <class Piece>
void for_each_piece(const Pattern& pattern, std::uint64_t offset, std::size_t len, Piece piece) {
  std::size_t done = 0;
  while (done < len) {
    const std::uint64_t at = offset + done;
    const std::size_t within = at % kPageBytes;
    const std::size_t bytes = std::min(len - done, kPageBytes - within);
    if (!piece(block_of(pattern, at / kPageBytes), within, bytes, done)) return;
    done += bytes;
  }
}

std::byte byte_of(const Block& block, std::size_t within) {
  const std::uint64_t word = block.window[within / 8] ^ block.key;
  return static_cast<std::byte>(word >> (8 * (within % 8)));  // little-endian on every machine
}

std::uint64_t stored_little_endian(std::uint64_t word) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  return __builtin_bswap64(word);
#else
  return word;
#endif
}

}  // namespace

void Pattern::fill(std::uint64_t offset_bytes, std::span<std::byte> out) const {
  for_each_piece(*this, offset_bytes, out.size(),
                 [&](const Block& block, std::size_t within, std::size_t bytes, std::size_t at) {
                   std::byte* to = out.data() + at;
                   std::size_t i = 0;
                   for (; i < bytes && (within + i) % 8 != 0; ++i) to[i] = byte_of(block, within + i);
                   for (; i + 8 <= bytes; i += 8) {
                     const std::uint64_t word =
                         stored_little_endian(block.window[(within + i) / 8] ^ block.key);
                     std::memcpy(to + i, &word, 8);
                   }
                   for (; i < bytes; ++i) to[i] = byte_of(block, within + i);
                   return true;
                 });
}

std::optional<std::uint64_t> Pattern::first_difference(std::uint64_t offset_bytes,
                                                       std::span<const std::byte> in) const {
  std::optional<std::uint64_t> found;
  for_each_piece(*this, offset_bytes, in.size(),
                 [&](const Block& block, std::size_t within, std::size_t bytes, std::size_t at) {
                   const std::byte* from = in.data() + at;
                   std::size_t i = 0;
                   const auto differs = [&](std::size_t end) {
                     for (; i < end; ++i) {
                       if (from[i] == byte_of(block, within + i)) continue;
                       found = offset_bytes + at + i;
                       return true;
                     }
                     return false;
                   };
                   const std::size_t head = std::min(bytes, (8 - within % 8) % 8);
                   if (differs(head)) return false;
                   // Words are compared without a branch each; only a difference is looked for bytewise.
                   std::uint64_t wrong = 0;
                   std::size_t end = head;
                   for (; end + 8 <= bytes; end += 8) {
                     std::uint64_t word = 0;
                     std::memcpy(&word, from + end, 8);
                     wrong |= word ^ stored_little_endian(block.window[(within + end) / 8] ^ block.key);
                   }
                   if (wrong == 0) i = end;
                   return !differs(bytes);
                 });
  return found;
}

}  // namespace tidewheel
