// Policies and owners: writers of a context with a limit of its own are slowed down by that one too, in
// virtual time. The device writes 50 MiB/s, all owners together may have 100 MiB dirty, one of them 20.
#include <algorithm>

#include "throttle_rig.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kMega = 1 << 20;
constexpr std::uint64_t kOwn = 20 * kMega;

double sum_of(std::span<const double> values) {
  double sum = 0;
  for (const double each : values) sum += each;
  return sum;
}
double fairness_of(std::span<const double> values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return *high == 0 ? 0 : *low / *high;
}

// Nothing is written for its age: what holds writers back must itself see to it that they get on.
class OwnersRig : public ThrottleRig {
 public:
  explicit OwnersRig(const char* policy, std::uint64_t own = kOwn)
      : ThrottleRig(policy, 100 * kMega, [](EngineOptions& o) {
          o.interval = {0};
          o.batch_bytes = 256 << 10;
        }) {
    const auto device = std::make_shared<NoisyDevice>(*driver, 50 * kMega, 0, 1);
    const auto backing = std::make_shared<BackingDevice>(BackingDeviceOptions{});
    limited = &add_owner(device, backing, own);
    other = &add_owner(device, backing, ContextOptions::kNone);
  }
  // Samples the limited owner's dirt every 10 ms.
  void run_owner_for(Duration d) {
    least_own = UINT64_MAX;
    most_own = 0;
    for (const Instant end = clock.now() + d; clock.now() < end;) {
      run_for(milliseconds(10));
      const std::uint64_t own = limited->context->counts().total();
      least_own = std::min(least_own, own);
      most_own = std::max(most_own, own);
      ever_most = std::max(ever_most, own);
    }
  }
  ThrottleLane* limited = nullptr;
  ThrottleLane* other = nullptr;
  std::uint64_t least_own = 0, most_own = 0, ever_most = 0;
};

class OwnerThrottle : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Policies, OwnerThrottle, ::testing::Values("linux", "delay-curve"),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(OwnerThrottle, TheOwnersLimitWinsWhileLittleIsDirtyAltogether) {
  for (const int writers : {1, 4, 16}) {
    SCOPED_TRACE(writers);
    OwnersRig rig(GetParam());
    rig.add_writers(*rig.limited, writers);
    rig.run_owner_for(seconds(10));
    rig.take_progress();
    rig.run_owner_for(seconds(20));
    const std::vector<double> made = rig.take_progress();
    EXPECT_GE(sum_of(made), 0.95 * 20 * 50 * kMega) << "the device ran dry";
    EXPECT_LE(sum_of(made), 1.05 * 20 * 50 * kMega);
    EXPECT_GE(fairness_of(made), 0.8);
    EXPECT_LE(rig.ever_most, kOwn);
    // By pauses, before its limit: nobody had to wait at that.
    EXPECT_LT(rig.most_own, kOwn) << "the limit was reached";
    EXPECT_GE(rig.least_own, kOwn / 2);
    for (const auto& writer : rig.writers) EXPECT_GT(writer->pauses, 0U);
  }
}

TEST_P(OwnerThrottle, SlowingDownBeginsBeforeTheOwnersLimit) {
  OwnersRig rig(GetParam());
  std::uint64_t first_pause_at = UINT64_MAX;
  for (int i = 0; i < 16; ++i) {
    rig.add_writer(*rig.limited).on_pause = [&](VirtualWriter&) {
      first_pause_at = std::min(first_pause_at, rig.limited->context->counts().total());
    };
  }
  rig.run_owner_for(milliseconds(500));
  const bool linux_policy = GetParam() == std::string("linux");
  const std::uint64_t from = linux_policy ? kOwn * 3 / 4 : kOwn * 6 / 10;
  // linux: 5 MiB are left there, the square root is 32 pages, so much each of the 16 may dirty unseen.
  const std::uint64_t unseen = linux_policy ? 16 * ((32 << 12) + 2 * (16 << 10)) : 0;
  EXPECT_GE(first_pause_at, from - 16 * (16 << 10));
  EXPECT_LE(first_pause_at, from + unseen + kOwn / 50);
  EXPECT_LE(rig.ever_most, kOwn);
  for (const auto& writer : rig.writers) EXPECT_GT(writer->pauses, 0U);
}

TEST_P(OwnerThrottle, ABurstBelowTheOwnersFreeRunIsNotHeldBack) {
  OwnersRig rig(GetParam());
  for (int burst = 0; burst < 5; ++burst) {
    VirtualWriter& writer = rig.add_writer(*rig.limited);
    writer.calls_left = kOwn / 2 / writer.piece_bytes;
    rig.run_owner_for(seconds(2));
    EXPECT_TRUE(writer.ended);
    EXPECT_TRUE(rig.engine->sync(*rig.limited->context).has_value());
  }
  EXPECT_EQ(rig.engine->stats().throttle_pauses, 0U);
}

TEST_P(OwnerThrottle, FollowsADeviceThatSlowsDownAndRecovers) {
  OwnersRig rig(GetParam());
  rig.add_writers(*rig.limited, 4);
  const auto rate_after = [&](std::uint64_t device_rate) {
    rig.limited->device->bytes_per_s = device_rate;
    rig.run_owner_for(seconds(15));
    rig.take_progress();
    rig.run_owner_for(seconds(10));
    return sum_of(rig.take_progress()) / 10 / kMega;
  };
  EXPECT_NEAR(rate_after(50 * kMega), 50, 3);
  EXPECT_NEAR(rate_after(10 * kMega), 10, 1);
  EXPECT_NEAR(rate_after(50 * kMega), 50, 3);
  EXPECT_LE(rig.ever_most, kOwn);
}

// What one owner's writers are held to is nothing to those of another who may still run freely.
TEST_P(OwnerThrottle, WritersOfAnotherOwnerAreNotHeldBack) {
  OwnersRig rig(GetParam());
  rig.add_writers(*rig.limited, 8);
  rig.run_owner_for(seconds(10));
  const std::uint64_t before = rig.writers.back()->pauses;
  EXPECT_GT(before, 0U);
  VirtualWriter& free = rig.add_writer(*rig.other);
  free.calls_left = 30 * kMega / free.piece_bytes;  // with the other's 20: half of what all may have
  rig.run_owner_for(seconds(5));
  EXPECT_TRUE(free.ended);
  EXPECT_EQ(free.pauses, 0U);
  EXPECT_GT(rig.writers[0]->pauses, before / 2);
}

// delay-curve gives out places one after the other: those near an owner's limit in a queue of its own.
TEST(OwnerThrottleQueue, DelaysNearAnOwnersLimitAreNotOthers) {
  OwnersRig rig("delay-curve");
  rig.limited->device->dead = true;  // what is dirty stays so
  const auto fill = [&](ThrottleLane& lane, std::uint64_t bytes) {
    for (VirtualWriter& writer = rig.add_writer(lane); lane.context->counts().total() < bytes;) {
      rig.run_owner_for(milliseconds(10));
      if (lane.context->counts().total() >= bytes) writer.stop();
    }
    rig.writers.back()->stop();
    rig.run_owner_for(seconds(1));
  };
  fill(*rig.other, 48 * kMega);
  fill(*rig.limited, 18 * kMega);  // 90% of its own: 1.5 ms a request; 66% of all: 0.09 ms
  ThrottlePause pauses[9];
  for (ThrottlePause& pause : pauses) {
    rig.engine->begin_pause(*(&pause == &pauses[8] ? rig.other : rig.limited)->context, 4096, pause);
  }
  EXPECT_GE(pauses[7].length, milliseconds(8)) << "the eighth in the owner's queue";
  EXPECT_GT(pauses[8].length, Duration{0});
  EXPECT_LE(pauses[8].length, milliseconds(1)) << "the first in the other's";
  for (ThrottlePause& pause : pauses) rig.engine->end_pause(pause);
}

// Above everybody's free run the lower ratio decides: the limited owner's writers get less, none of them
// nothing, and the device is kept busy.
TEST_P(OwnerThrottle, BothLimitsHoldWhenBothArePassed) {
  OwnersRig rig(GetParam());
  rig.add_writers(*rig.limited, 4);
  rig.add_writers(*rig.other, 4);
  rig.run_owner_for(seconds(20));
  rig.take_progress();
  rig.run_owner_for(seconds(20));
  const std::vector<double> made = rig.take_progress();
  EXPECT_GE(sum_of(made), 0.95 * 20 * 50 * kMega);
  EXPECT_GT(sum_of({made.data(), 4}), 0.05 * 20 * 50 * kMega) << "the limited owner's";
  EXPECT_GT(sum_of({made.data() + 4, 4}), 0.05 * 20 * 50 * kMega) << "the other's";
  EXPECT_GE(fairness_of({made.data(), 4}), 0.8);
  EXPECT_GE(fairness_of({made.data() + 4, 4}), 0.8);
  EXPECT_LE(rig.ever_most, kOwn);
  EXPECT_LE(rig.most_charged, rig.engine->options().dirty_bytes);
}

TEST_P(OwnerThrottle, AnOwnersLimitOfFewPagesWorks) {
  OwnersRig rig(GetParam(), 4 * kPageBytes);
  rig.add_writers(*rig.limited, 3);
  for (auto& writer : rig.writers) writer->piece_bytes = kPageBytes;
  rig.run_owner_for(seconds(5));
  rig.take_progress();
  rig.run_owner_for(seconds(10));
  const std::vector<double> made = rig.take_progress();
  EXPECT_LE(rig.ever_most, 4 * kPageBytes);
  EXPECT_GT(sum_of(made), 0.1 * 10 * 50 * kMega) << "a tenth of the device at least";
  EXPECT_GE(fairness_of(made), 0.5);
}

}  // namespace
}  // namespace tidewheel
