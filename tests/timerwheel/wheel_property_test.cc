// The wheel against the model, over long random runs and over short ones that rapidcheck shrinks.
// Ten million operations in all; TIDEWHEEL_FULL makes it a hundred million, TIDEWHEEL_QUICK one.
// TIDEWHEEL_SEED repeats a run.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdlib>

#include "tests/length.h"
#include "tests/timerwheel/wheel_model.h"

namespace tidewheel {
namespace {

struct Shape {
  std::uint32_t slots;
  std::uint32_t shift;
  std::uint32_t items;
  std::int64_t late_slots;  // late_reading in slots
  std::int64_t start_ns;
  std::uint64_t calm;
};

void PrintTo(const Shape& shape, std::ostream* out) {
  *out << shape.slots << " slots of 2^" << shape.shift << " ns, " << shape.items << " items, calm "
       << shape.calm;
}

ModelOptions options_of(const Shape& shape) {
  ModelOptions options;
  options.wheel.slots = shape.slots;
  options.wheel.slot = Duration{1LL << shape.shift};
  options.wheel.late_reading = options.wheel.slot * shape.late_slots;
  options.items = shape.items;
  options.start = Instant{shape.start_ns};
  options.calm = shape.calm;
  return options;
}

std::uint64_t number_from_env(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

constexpr Shape kShapes[] = {
    {8, 10, 64, 1, 0, 1},
    {8, 27, 200, 8, -5'000'000'000, 50},
    {64, 10, 200, 3, INT64_MAX - 40'000, 1},
    {64, 17, 1000, 8, 1'000'000'000'000, 500},
    {64, 40, 100, 1, INT64_MIN, 1},
    {128, 20, 50, 8, -1, 10},
    {512, 27, 150, 8, 0, 1},
    {512, 27, 5000, 1, 86'400'000'000'000, 1000},
    {512, 10, 200, 100, INT64_MAX, 20},
    {4096, 27, 3000, 8, 0, 1000},
    {4096, 12, 10'000, 8, INT64_MIN + 12345, 3000},
};

class WheelProperty : public testing::TestWithParam<Shape> {};

TEST_P(WheelProperty, AgreesWithTheModelOverALongRun) {
  const std::uint64_t operations = loop_length(10'000'000) / std::size(kShapes) + 1;
  const std::uint64_t seed = number_from_env("TIDEWHEEL_SEED", 0x7157) + GetParam().slots + GetParam().shift;
  Rng words(seed);
  std::uint64_t done = 0;
  try {
    WheelModel model(options_of(GetParam()));
    for (; done < operations; ++done) {
      model.step(words.next());
      if (done % 20'000 == 0) model.check_invariants();
    }
    model.finish();
    if (is_quick()) return;
    // The run, when it is long enough, went where it was meant to go.
    EXPECT_GT(model.expected().clock_steps, 0U);
    EXPECT_GT(model.removed_from_sets(), 0U);
    EXPECT_GT(model.most_listed(), GetParam().items / 2) << "the wheel never filled";
    EXPECT_GT(model.counted().aged_buckets, 0U);
    EXPECT_GT(model.counted().detached_buckets, 0U);
    EXPECT_EQ(model.counted().max_elements_per_hold, kMaxClaim);
    EXPECT_GT(model.readings_beside_others, 100U);
  } catch (const Mismatch& mismatch) {
    FAIL() << mismatch.what() << " at operation " << done
           << " of TIDEWHEEL_SEED=" << number_from_env("TIDEWHEEL_SEED", 0x7157);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, WheelProperty, testing::ValuesIn(kShapes));

// Short runs on a small wheel, which rapidcheck cuts down to the operations that matter.
TEST(WheelShrunk, AgreesWithTheModelOverShortRuns) {
  const bool holds = rc::check("the wheel and the model agree", [](const std::vector<std::uint64_t>& words) {
    WheelModel model(options_of(kShapes[0]));
    for (const std::uint64_t word : words) model.step(word);
    model.finish();
  });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace tidewheel
