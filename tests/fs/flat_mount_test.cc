// What a store leaves on its device, and what it believes of a device when it is opened.
#include <gtest/gtest.h>

#include <functional>

#include "base/crc32c.h"
#include "fs/block/recorded_device.h"
#include "fs/flat/flat_header.h"
#include "tests/fs/flat_fixture.h"
#include "tests/fs/io.h"

namespace tidewheel {
namespace {

constexpr FileKey kFile = FileKey::of(0, 0, 1);

// Where in the trace the write is known to be on stable storage.
std::uint32_t stable_at(const IoTrace& trace, const IoTrace::Op& write) {
  for (const IoTrace::Op& op : trace.ops) {
    if (op.op == IoOp::kFlush && op.ok && write.completed < op.submitted) return op.completed;
  }
  return IoTrace::kNever;
}

// Every write before the last one, which is the header's, is stable before it, and it is stable at the end.
void expect_header_last(const IoTrace& trace) {
  std::size_t header = trace.ops.size();
  for (std::size_t i = 0; i < trace.ops.size(); ++i) {
    if (trace.ops[i].op == IoOp::kWrite) header = i;
  }
  ASSERT_LT(header, trace.ops.size());
  ASSERT_EQ(trace.ops[header].offset_bytes, 0U);
  EXPECT_NE(stable_at(trace, trace.ops[header]), IoTrace::kNever) << "the header itself is not flushed";
  for (std::size_t i = 0; i < header; ++i) {
    if (trace.ops[i].op != IoOp::kWrite) continue;
    EXPECT_LT(stable_at(trace, trace.ops[i]), trace.ops[header].submitted)
        << trace.describe(static_cast<std::uint32_t>(i)) << " may be lost while the header is there";
  }
}

TEST(FlatMount, WhatAHeaderPointsToIsStableBeforeIt) {
  FlatHarness harness;
  RecordedDevice recorded(*harness.device_);
  const auto options = harness.store_options();
  auto store = FlatStore::format(recorded, *harness.engine_, harness.budget_, options).value();
  expect_header_last(recorded.trace());
  recorded.clear();
  ASSERT_TRUE(put_file(*store, kFile, 9'000));
  ASSERT_TRUE(store->unmount());
  store.reset();
  expect_header_last(recorded.trace());
  EXPECT_GE(recorded.trace().ops.size(), 6U) << "data, index and header, each with a flush";
  recorded.clear();
  store = FlatStore::mount(recorded, *harness.engine_, harness.budget_, options).value();
  expect_header_last(recorded.trace());
  store.reset();
}

TEST(FlatMount, AnUnmountThatFailedCanBeRepeated) {
  FlatHarness harness;
  harness.format();
  ASSERT_TRUE(put_file(*harness.store_, kFile, 9'000));
  harness.settle();
  const std::uint64_t free_blocks = harness.store_->stats().free_blocks;
  for (const std::uint64_t nth : {0, 1}) {  // of the writes that are left: the index, the header
    harness.device_->add({.op = IoOp::kWrite, .effect = FaultEffect::kIoError, .first = nth, .count = 1});
    EXPECT_EQ(harness.store_->unmount().error().code, Reason::kIo);
    harness.device_->clear_rules();
    harness.store_->check_invariants();
    EXPECT_EQ(harness.store_->stats().free_blocks, free_blocks);
    expect_pattern(*harness.store_, kFile, 9'000);
  }
  ASSERT_TRUE(harness.store_->unmount());
  harness.store_.reset();
  ASSERT_TRUE(harness.mount());
  expect_pattern(*harness.store_, kFile, 9'000);
}

TEST(FlatMount, NoticesAHeaderThatIsNotTheIndexs) {
  FlatHarness harness;
  harness.format();
  ASSERT_TRUE(put_file(*harness.store_, kFile, 9'000));
  ASSERT_TRUE(harness.store_->unmount());
  harness.store_.reset();
  const FlatHeader good = read_header(*harness.device_).value();
  const std::function<void(FlatHeader&)> lies[] = {
      [](FlatHeader& h) { h.index_bytes += sizeof(std::uint64_t); },
      [](FlatHeader& h) { h.index_bytes -= sizeof(std::uint64_t); },
      [](FlatHeader& h) { ++h.files; },
      [](FlatHeader& h) { --h.files; },
      [](FlatHeader& h) { h.index_crc ^= 1; },
      [](FlatHeader& h) { ++h.device_blocks; },
      [](FlatHeader& h) { h.device_blocks = h.index.block; },
      [](FlatHeader& h) { h.index = {h.device_blocks, 1}; },
      [](FlatHeader& h) { h.index = {h.device_blocks - 1, 2}; },
      [](FlatHeader& h) { h.index = {0, 1}; },
      [](FlatHeader& h) { h.index = {}; },
  };
  for (std::size_t i = 0; i < std::size(lies); ++i) {
    FlatHeader header = good;
    lies[i](header);
    ASSERT_TRUE(write_header(*harness.device_, header));
    const Result<void> mounted = harness.mount();
    ASSERT_FALSE(mounted) << "lie " << i;
    EXPECT_EQ(mounted.error().code, Reason::kCorrupt) << "lie " << i;
  }
  ASSERT_TRUE(write_header(*harness.device_, good));
  ASSERT_TRUE(harness.mount());
  expect_pattern(*harness.store_, kFile, 9'000);
}

// An index whose checksum is right and whose contents are not: what it says of blocks must not be believed.
TEST(FlatMount, NoticesAnIndexThatContradictsItself) {
  FlatHarness harness;
  harness.format();
  {
    auto file = harness.store_->create(kFile).value();
    for (const std::uint64_t page : {0, 2}) {
      ASSERT_TRUE(harness.store_->write(file, page * kPageBytes, pattern(kFile, 0, kPageBytes)));
      ASSERT_TRUE(harness.store_->fsync(file));
    }
  }
  ASSERT_TRUE(harness.store_->unmount());
  harness.store_.reset();
  FlatHeader header = read_header(*harness.device_).value();
  ASSERT_EQ(header.index.blocks, 1U);
  AlignedBytes block(kBlockBytes);
  ASSERT_TRUE(harness.device_->read(header.index.block * kBlockBytes, block.span()));
  // After two words of link: key, size, extents, then page, block, pages of each.
  enum : std::size_t { kKey = 2, kSize, kCount, kPage, kBlock, kPages, kPage2, kBlock2, kPages2 };
  auto* const words = reinterpret_cast<std::uint64_t*>(block.data());
  ASSERT_EQ(words[kKey], kFile.value);
  ASSERT_EQ(words[kCount], 2U);
  ASSERT_EQ(words[kPage2], 2U);
  const struct {
    std::size_t word;
    std::uint64_t value;
  } lies[] = {{kPage2, words[kPage]},
              {kPages, 3},
              {kBlock2, words[kBlock]},
              {kBlock2, header.device_blocks},
              {kBlock, 0},
              {kPages2, 0},
              {kPages2, UINT64_MAX},
              {kPage2, UINT64_MAX},
              {kCount, 1},
              {kCount, UINT64_MAX},
              {kSize, UINT64_MAX}};
  for (const auto& lie : lies) {
    const std::uint64_t truth = std::exchange(words[lie.word], lie.value);
    header.index_crc = crc32c(0, block.data(), kBlockBytes);
    ASSERT_TRUE(harness.device_->write(header.index.block * kBlockBytes, block.span()));
    ASSERT_TRUE(write_header(*harness.device_, header));
    const Result<void> mounted = harness.mount();
    ASSERT_FALSE(mounted) << "word " << lie.word << " = " << lie.value;
    EXPECT_EQ(mounted.error().code, Reason::kCorrupt) << "word " << lie.word << " = " << lie.value;
    words[lie.word] = truth;
  }
}

}  // namespace
}  // namespace tidewheel
