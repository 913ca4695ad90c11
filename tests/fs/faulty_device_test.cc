#include "fs/block/faulty_device.h"

#include <gtest/gtest.h>

#include "base/thread.h"
#include "fs/block/ram_device.h"
#include "tests/fs/io.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kBlock = 4096;

class FaultyRam : public testing::Test {
 protected:
  FaultyDevice device_{RamDevice::make(1 << 20).value()};
  AlignedBytes memory_{kBlock};
};

TEST_F(FaultyRam, FailsTheNthOfItsKindAndNoOther) {
  device_.add({.op = IoOp::kWrite, .effect = FaultEffect::kIoError, .first = 2, .count = 2});
  std::vector<Reason> reasons;
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(device_.read(0, memory_.span()));
    reasons.push_back(device_.write(0, memory_.span()).error().code);
  }
  EXPECT_EQ(reasons, (std::vector<Reason>{Reason::kOk, Reason::kOk, Reason::kIo, Reason::kIo, Reason::kOk,
                                          Reason::kOk}));
  EXPECT_EQ(device_.injected(), 2U);
  EXPECT_EQ(device_.stats().errors, 2U);
  EXPECT_EQ(device_.stats().writes, 4U);
}

TEST_F(FaultyRam, WritesNothingOfWhatFails) {
  std::memset(memory_.data(), 'a', kBlock);
  ASSERT_TRUE(device_.write(0, memory_.span()));
  device_.add({.op = IoOp::kWrite, .effect = FaultEffect::kNoSpace, .count = FaultRule::kForEver});
  std::memset(memory_.data(), 'b', kBlock);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(device_.write(0, memory_.span()).error().code, Reason::kNoSpace);
  ASSERT_TRUE(device_.read(0, memory_.span()));
  EXPECT_EQ(memory_.data()[0], std::byte{'a'});
  device_.clear_rules();
  EXPECT_TRUE(device_.write(0, memory_.span()));
}

TEST_F(FaultyRam, FailsFlushes) {
  device_.add({.op = IoOp::kFlush});
  EXPECT_EQ(device_.flush().error().code, Reason::kIo);
  EXPECT_TRUE(device_.flush());
}

TEST_F(FaultyRam, HoldsBackUntilReleased) {
  std::memset(memory_.data(), 'c', kBlock);
  device_.add({.op = IoOp::kWrite, .effect = FaultEffect::kStall, .count = 1});
  Thread writer("writer", [this] { EXPECT_TRUE(device_.write(0, memory_.span())); });
  device_.wait_stalled(1);
  AlignedBytes back(kBlock);
  // Neither reads nor flushes wait for it.
  EXPECT_TRUE(device_.read(0, back.span()));
  EXPECT_EQ(back.data()[0], std::byte{0});
  EXPECT_TRUE(device_.flush());
  EXPECT_EQ(device_.release_stalled(), 1U);
  writer.join();
  EXPECT_TRUE(device_.read(0, back.span()));
  EXPECT_EQ(back.data()[0], std::byte{'c'});
}

}  // namespace
}  // namespace tidewheel
