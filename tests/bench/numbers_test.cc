#include "bench/numbers.h"

#include <gtest/gtest.h>

namespace tidewheel::bench {
namespace {

TEST(ParseSize, TakesPowersOf1024) {
  EXPECT_EQ(parse_size("0"), 0U);
  EXPECT_EQ(parse_size("4096"), 4096U);
  EXPECT_EQ(parse_size("4k"), 4096U);
  EXPECT_EQ(parse_size("4K"), 4096U);
  EXPECT_EQ(parse_size("1M"), 1U << 20);
  EXPECT_EQ(parse_size("2G"), 2ULL << 30);
  EXPECT_EQ(parse_size("100T"), 100ULL << 40);
  EXPECT_EQ(parse_size("9223372036854775807"), 9223372036854775807ULL);
  EXPECT_EQ(parse_size("8191P"), 8191ULL << 50);
}

TEST(ParseSize, RefusesWhatIsNotWhollyASize) {
  for (const char* text : {"",
                           " ",
                           "k",
                           "4kx",
                           "4 k",
                           " 4k",
                           "4k ",
                           "-1",
                           "+1",
                           "1e3",
                           "0x10",
                           "4.5M",
                           "4kk",
                           "1KiB",
                           "9223372036854775808",
                           "8192P",
                           "99999999999999999999",
                           "4\n",
                           "NaN",
                           "inf",
                           "٤"}) {
    EXPECT_FALSE(parse_size(text)) << "'" << text << "'";
  }
}

TEST(ParseDuration, NeedsAUnitUnlessZero) {
  EXPECT_EQ(parse_duration("500ms"), milliseconds(500));
  EXPECT_EQ(parse_duration("5s"), seconds(5));
  EXPECT_EQ(parse_duration("2m"), seconds(120));
  EXPECT_EQ(parse_duration("3h"), seconds(10800));
  EXPECT_EQ(parse_duration("7us"), microseconds(7));
  EXPECT_EQ(parse_duration("7ns"), nanoseconds(7));
  EXPECT_EQ(parse_duration("0"), Duration{0});
  for (const char* text : {"", "5", "s", "5 s", "-5s", "5S", "1.5s", "5sec", "9999999999999h", "1d"}) {
    EXPECT_FALSE(parse_duration(text)) << "'" << text << "'";
  }
}

TEST(ParseSizeOrPercent, PercentIsOfTheWholeAndFrom1To100) {
  const auto part = parse_size_or_percent("20%");
  ASSERT_TRUE(part);
  EXPECT_TRUE(part->is_percent);
  EXPECT_EQ(part->of(1ULL << 30), (1ULL << 30) / 5);
  EXPECT_EQ(parse_size_or_percent("100%")->of(1ULL << 62), 1ULL << 62) << "no overflow on the way";
  EXPECT_EQ(parse_size_or_percent("64M")->of(1), 64ULL << 20);
  for (const char* text : {"", "%", "0%", "101%", "-5%", "5 %", "5.5%", "5%%", "5%k"}) {
    EXPECT_FALSE(parse_size_or_percent(text)) << "'" << text << "'";
  }
}

TEST(FormatSize, IsExactAndReadsBack) {
  EXPECT_EQ(format_size(0), "0");
  EXPECT_EQ(format_size(4096), "4k");
  EXPECT_EQ(format_size(4097), "4097");
  EXPECT_EQ(format_size(1536ULL << 20), "1536M");
  for (const std::uint64_t bytes : {1ULL, 1023ULL, 1ULL << 20, 3ULL << 40, (1ULL << 62)}) {
    EXPECT_EQ(parse_size(format_size(bytes)), bytes);
  }
}

TEST(AboutSize, SaysWhenItRounds) {
  EXPECT_EQ(about_size(107374182), "~102M");
  EXPECT_EQ(about_size(1ULL << 30), "1G");
  EXPECT_EQ(about_size(1000), "1000");
  EXPECT_EQ(about_size(8193), "~8k");
}

}  // namespace
}  // namespace tidewheel::bench
