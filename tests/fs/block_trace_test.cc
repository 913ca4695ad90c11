// Every device that has a medium says what it takes and what became of it; those that pass on say nothing.
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "base/clock.h"
#include "fs/block/faulty_device.h"
#include "fs/block/file_device.h"
#include "fs/block/null_device.h"
#include "fs/block/ram_device.h"
#include "fs/block/recorded_device.h"
#include "fs/block/sim_device.h"
#include "tests/fs/io.h"
#include "tests/fs/scratch.h"
#include "tests/trace_recording.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kDeviceBytes = 1 << 20;

struct TracedKind {
  const char* name;
  std::function<std::unique_ptr<BlockDevice>(const ScratchFolder&)> make;
};

std::unique_ptr<BlockDevice> make_file(const ScratchFolder& scratch, bool io_uring) {
  auto device = FileDevice::open(
      {.path = scratch.file("image"), .size_bytes = kDeviceBytes, .direct = false, .io_uring = io_uring});
  return device ? std::move(device).value() : nullptr;
}

class BlockTrace : public testing::TestWithParam<TracedKind> {};

TEST_P(BlockTrace, EachRequestIsIssuedAndCompletedOnce) {
  ScratchFolder scratch;
  const auto device = GetParam().make(scratch);
  ASSERT_NE(device, nullptr);
  AlignedBytes memory(8192);
  const TraceRecording recording;
  const IoSegment halves[] = {{memory.data(), 4096}, {memory.data() + 4096, 4096}};
  IoRequest write{.op = IoOp::kWrite, .cause = IoCause::kLog, .preflush = true, .fua = true,
                  .offset_bytes = 16384, .segments = halves};
  ASSERT_TRUE(device->submit_and_wait(write));
  ASSERT_TRUE(device->flush(IoCause::kMetadata));
  ASSERT_FALSE(device->write(kDeviceBytes, memory.span())) << "refused: it never was a request";

  const auto issued = recording.events(TracePoint::block_rq_issue);
  const auto completed = recording.events(TracePoint::block_rq_complete);
  ASSERT_EQ(issued.size(), 2U);
  ASSERT_EQ(completed.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_LE(issued[i].at_ns, completed[i].at_ns);
    for (std::size_t n = 0; n < kTraceArguments; ++n) {
      EXPECT_EQ(issued[i].arguments[n], completed[i].arguments[n]) << "of one request, and without an error";
    }
  }
  EXPECT_EQ(issued[0].arguments[1], 16384U);
  EXPECT_EQ(issued[0].arguments[2], 8192U);
  const IoTraceFlags first = IoTraceFlags::unpacked(issued[0].arguments[3]);
  EXPECT_EQ(first.op, IoOp::kWrite);
  EXPECT_EQ(first.cause, IoCause::kLog);
  EXPECT_TRUE(first.preflush);
  EXPECT_TRUE(first.fua);
  const IoTraceFlags second = IoTraceFlags::unpacked(issued[1].arguments[3]);
  EXPECT_EQ(second.op, IoOp::kFlush);
  EXPECT_EQ(second.cause, IoCause::kMetadata);
  EXPECT_FALSE(second.preflush || second.fua);
}

INSTANTIATE_TEST_SUITE_P(
    Devices, BlockTrace,
    testing::Values(TracedKind{"Ram", [](const ScratchFolder&) -> std::unique_ptr<BlockDevice> {
                                 return RamDevice::make(kDeviceBytes).value();
                               }},
                    TracedKind{"Null", [](const ScratchFolder&) -> std::unique_ptr<BlockDevice> {
                                 return std::make_unique<NullDevice>(kDeviceBytes);
                               }},
                    TracedKind{"File", [](const ScratchFolder& s) { return make_file(s, true); }},
                    TracedKind{"FilePool", [](const ScratchFolder& s) { return make_file(s, false); }},
                    TracedKind{"Faulty", [](const ScratchFolder&) -> std::unique_ptr<BlockDevice> {
                                 return std::make_unique<FaultyDevice>(RamDevice::make(kDeviceBytes).value());
                               }}),
    [](const auto& each) { return each.param.name; });

TEST(BlockTraceErrors, ACompletionSaysItsError) {
  NullDevice device(kDeviceBytes);
  AlignedBytes memory(4096);
  const TraceRecording recording;
  ASSERT_FALSE(device.read(0, memory.span()));
  const auto completed = recording.events(TracePoint::block_rq_complete);
  ASSERT_EQ(completed.size(), 1U);
  EXPECT_EQ(IoTraceFlags::unpacked(completed[0].arguments[3]).error, Reason::kUnsupported);
}

TEST(BlockTraceErrors, FlagsComeOutAsTheyWentIn) {
  for (const IoOp op : {IoOp::kRead, IoOp::kWrite, IoOp::kFlush}) {
    for (const IoCause cause : {IoCause::kData, IoCause::kLog, IoCause::kMetadata}) {
      for (int bits = 0; bits < 4; ++bits) {
        const IoTraceFlags flags{op, cause, (bits & 1) != 0, (bits & 2) != 0, Reason::kNoSpace};
        const IoTraceFlags again = IoTraceFlags::unpacked(flags.packed());
        EXPECT_EQ(again.op, op);
        EXPECT_EQ(again.cause, cause);
        EXPECT_EQ(again.preflush, flags.preflush);
        EXPECT_EQ(again.fua, flags.fua);
        EXPECT_EQ(again.error, Reason::kNoSpace);
      }
    }
  }
}

}  // namespace
}  // namespace tidewheel
