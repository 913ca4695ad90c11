// One shard: where elements go, when they come out, and what is told about them.
#include "timerwheel/wheel.h"

#include <gtest/gtest.h>

#include "timerwheel/sharded_wheel.h"
#include "timerwheel/typed.h"

namespace tidewheel {
namespace {

struct Item {
  int name = 0;
  WheelNode node;
};
using ItemWheel = WheelOf<Item, &Item::node>;

TEST(Wheel, HandsOutWhatIsDueAndKeepsTheStraddlingSlot) {
  WheelHint hint;
  const WheelOptions options;
  ItemWheel wheel(options, hint);
  Item items[3];
  wheel.insert(items[0], Instant{0});
  wheel.insert(items[1], Instant{options.slot.ns - 1});
  wheel.insert(items[2], Instant{options.slot.ns});
  wheel.check_invariants();
  Item* out[32];
  EXPECT_EQ(wheel.detach_expired(Instant{options.slot.ns - 2}, Instant{options.slot.ns}), 0U);
  EXPECT_EQ(wheel.detach_expired(Instant{options.slot.ns - 1}, Instant{options.slot.ns}), 1U);
  ASSERT_EQ(wheel.claim(out), 2U);
  EXPECT_EQ(out[0], &items[0]);
  EXPECT_EQ(out[1], &items[1]);
  EXPECT_EQ(wheel.oldest(), Instant{options.slot.ns});
  wheel.check_invariants();
  wheel.remove(items[2]);
  EXPECT_EQ(wheel.oldest(), Instant::max());
  wheel.check_invariants();
}

}  // namespace
}  // namespace tidewheel
