#include "base/pattern.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace tidewheel {
namespace {

std::vector<std::byte> content(const Pattern& pattern, std::uint64_t offset, std::size_t len) {
  std::vector<std::byte> bytes(len);
  pattern.fill(offset, bytes);
  return bytes;
}

TEST(Pattern, IsTheSameHoweverItIsCutUp) {
  const Pattern pattern{.seed = 7, .file = 3};
  const std::vector<std::byte> whole = content(pattern, 0, 5 * 4096);
  Rng rng(1);
  for (int i = 0; i < 2'000; ++i) {
    const std::size_t from = rng.below(whole.size());
    const std::size_t len = rng.below(whole.size() - from + 1);
    const std::vector<std::byte> part = content(pattern, from, len);
    ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(from)))
        << from << " + " << len;
    ASSERT_FALSE(pattern.first_difference(from, part).has_value());
  }
}

TEST(Pattern, NamesTheFirstWrongByte) {
  const Pattern pattern{.seed = 1, .file = 2};
  Rng rng(2);
  for (int i = 0; i < 2'000; ++i) {
    const std::uint64_t offset = rng.below(3 * 4096) + (rng.chance(2) ? 0 : (1ULL << 40));
    std::vector<std::byte> bytes = content(pattern, offset, 1 + rng.below(9'000));
    const std::size_t first = rng.below(bytes.size());
    const std::size_t second = first + rng.below(bytes.size() - first);
    bytes[first] ^= std::byte{1};
    if (second != first) bytes[second] ^= std::byte{0x80};
    ASSERT_EQ(pattern.first_difference(offset, bytes), offset + first);
  }
}

// A block that lies where another belongs must differ nearly everywhere, whatever was mixed up.
TEST(Pattern, TellsBlocksFilesSeedsAndShiftsApart) {
  const std::vector<std::byte> right = content({.seed = 1, .file = 1}, 4096, 4096);
  const auto same = [&](const std::vector<std::byte>& other) {
    std::size_t n = 0;
    for (std::size_t i = 0; i < right.size(); ++i) n += right[i] == other[i];
    return n;
  };
  const std::size_t chance = 4096 / 256 * 4;  // four times what unrelated bytes have in common
  EXPECT_LT(same(content({.seed = 1, .file = 1}, 0, 4096)), chance);
  EXPECT_LT(same(content({.seed = 1, .file = 1}, 8192, 4096)), chance);
  EXPECT_LT(same(content({.seed = 1, .file = 2}, 4096, 4096)), chance);
  EXPECT_LT(same(content({.seed = 2, .file = 1}, 4096, 4096)), chance);
  EXPECT_LT(same(content({.seed = 1, .file = 1}, 4097, 4096)), chance);
  EXPECT_LT(same(content({.seed = 1, .file = 1}, 4104, 4096)), chance);
  EXPECT_LT(same(std::vector<std::byte>(4096)), chance);
}

TEST(Pattern, DiffersBetweenManyFilesInTheirFirstWord) {
  std::vector<std::uint64_t> words;
  for (std::uint64_t file = 0; file < 50'000; ++file) {
    std::uint64_t word = 0;
    Pattern{.seed = 5, .file = file}.fill(0, std::as_writable_bytes(std::span(&word, 1)));
    words.push_back(word);
  }
  std::sort(words.begin(), words.end());
  EXPECT_EQ(std::adjacent_find(words.begin(), words.end()), words.end());
}

TEST(Pattern, AnswersNothingForNothing) {
  const Pattern pattern{.seed = 1, .file = 1};
  pattern.fill(99, {});
  EXPECT_FALSE(pattern.first_difference(99, {}).has_value());
}

}  // namespace
}  // namespace tidewheel
