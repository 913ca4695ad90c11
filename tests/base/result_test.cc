#include "base/result.h"

#include <gtest/gtest.h>

namespace tidewheel {
namespace {

Result<std::uint64_t> half(std::uint64_t n) {
  if (n % 2 != 0) return TW_FAIL(kInvalidArgument);
  return n / 2;
}

static_assert(sizeof(Error) == 8);
static_assert(std::is_trivially_copyable_v<Result<std::uint64_t>> && sizeof(Result<std::uint64_t>) == 16,
              "comes back in registers");

TEST(Result, CarriesAValueOrTheReasonWhyNot) {
  EXPECT_EQ(half(8).value(), 4U);
  const auto failed = half(7);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Reason::kInvalidArgument);
  EXPECT_NE(failed.error().line, 0);
}

TEST(Result, MovesWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> a(std::make_unique<int>(3));
  Result<std::unique_ptr<int>> b(std::move(a));
  EXPECT_EQ(**b, 3);
}

}  // namespace
}  // namespace tidewheel
