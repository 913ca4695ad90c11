#include "writeback/write_behind.h"

#include <gtest/gtest.h>

#include <string>

#include "base/atomic.h"
#include "base/thread.h"

namespace tidewheel {
namespace {

struct InstantStore : ValueStore {
  Result<void> put(const std::string&, const std::string&) override { return {}; }
  Result<void> remove(const std::string&) override { return {}; }
};

// Puts that come while the list is made: the list is long, so that many of them do.
TEST(WriteBehindTest, NothingListedIsYoungerThanNow) {
  InstantStore store;
  auto made = WriteBehind::make(store, {.idle = seconds(60), .max_age = seconds(60)});
  ASSERT_TRUE(made.has_value());
  WriteBehind& values = **made;
  for (int i = 0; i < 2000; ++i) {
    auto handle = values.open("a" + std::to_string(i));
    ASSERT_TRUE(handle.put("v").has_value());
  }
  Atomic<bool> end{false};
  Thread putter("putter", [&] {
    auto last = values.open("z");
    while (!end.load(std::memory_order_relaxed)) {
      EXPECT_TRUE(last.put("v").has_value());
      EXPECT_TRUE(last.remove().has_value());
    }
  });
  int younger = 0;
  for (int i = 0; i < 300; ++i) {
    for (const WriteBehind::Dirty& each : values.dirty()) younger += each.age < Duration{} ? 1 : 0;
  }
  end.store(true, std::memory_order_relaxed);
  putter.join();
  EXPECT_EQ(younger, 0);
}

}  // namespace
}  // namespace tidewheel
