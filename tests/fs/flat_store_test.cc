#include "fs/flat/flat_store.h"

#include <gtest/gtest.h>

#include "fs/block/null_device.h"
#include "fs/flat/flat_header.h"
#include "tests/fs/flat_fixture.h"
#include "tests/fs/io.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20;
constexpr std::uint64_t kSeed = 4711;

class FlatStoreTest : public testing::Test {
 protected:
  void make(const FlatSetup& setup = {}) {
    harness_ = std::make_unique<FlatHarness>(setup);
    harness_->format();
  }
  FlatStore& store() { return *harness_->store_; }
  FaultyDevice& device() { return *harness_->device_; }
  WritebackEngine& engine() { return *harness_->engine_; }
  std::unique_ptr<FlatHarness> harness_;
};

TEST_F(FlatStoreTest, KeepsFilesOfEverySize) {
  make();
  const std::vector<std::uint64_t> sizes{0,    1,       511,  4095,     4096,    4097,
                                         8192, 100'000, kMiB, kMiB + 1, 5 * kMiB};
  for (std::uint32_t i = 0; i < sizes.size(); ++i) {
    ASSERT_TRUE(put_file(store(), FileKey::of(1, 0, i), sizes[i]));
  }
  for (std::uint32_t i = 0; i < sizes.size(); ++i) expect_pattern(store(), FileKey::of(1, 0, i), sizes[i]);
  harness_->settle();
  EXPECT_EQ(store().inode_stats().inodes, 0U);
  for (std::uint32_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(store().stat(FileKey::of(1, 0, i)).value(), sizes[i]);
    expect_pattern(store(), FileKey::of(1, 0, i), sizes[i]);
  }
  EXPECT_GT(device().stats().read_bytes, 7 * kMiB);
}

TEST_F(FlatStoreTest, AgreesWithAnOracleOverRandomCalls) {
  SCOPED_TRACE(kSeed);
  make({.device_bytes = 48 * kMiB, .memory_bytes = 12 * kMiB, .dirty_bytes = 2 * kMiB, .owners = 3});
  Rng rng(kSeed);
  std::map<std::uint64_t, std::vector<std::byte>> oracle;
  std::uint64_t version = 0;
  for (int step = 0; step < 6'000; ++step) {
    const FileKey key =
        FileKey::of(static_cast<std::uint16_t>(rng.below(4)), static_cast<std::uint16_t>(rng.below(2)),
                    static_cast<std::uint32_t>(rng.below(40)));
    const auto there = oracle.find(key.value);
    switch (rng.below(12)) {
      case 0:
      case 1: {
        auto file = store().create(key);
        ASSERT_EQ(file.has_value(), there == oracle.end());
        if (file) {
          oracle[key.value] = {};
        } else {
          ASSERT_EQ(file.error().code, Reason::kExists);
        }
        break;
      }
      case 2: {
        const Result<void> gone = store().unlink(key);
        ASSERT_EQ(gone.has_value(), there != oracle.end());
        if (!gone) {
          ASSERT_EQ(gone.error().code, Reason::kNotFound);
        }
        oracle.erase(key.value);
        break;
      }
      case 3:
        if (rng.chance(10)) {
          ASSERT_TRUE(store().sync());
        }
        if (rng.chance(10)) store().drop_caches();
        break;
      case 4:
        if (there != oracle.end()) {
          auto file = store().open(key);
          ASSERT_TRUE(file);
          ASSERT_TRUE(store().fsync(*file));
        }
        break;
      case 5:
      case 6:
      case 7: {
        auto file = store().open(key);
        ASSERT_EQ(file.has_value(), there != oracle.end());
        if (file) {
          ASSERT_EQ(file->size(), there->second.size());
          ASSERT_TRUE(read_all(store(), *file) == there->second) << "step " << step;
        }
        break;
      }
      default: {
        auto file = store().open(key);
        if (!file) break;
        const std::uint64_t offset = rng.below(3) == 0 ? there->second.size() : rng.below(200'000);
        const std::uint64_t n = rng.below(4) == 0 ? 4096 * rng.below(20) : rng.below(30'000);
        const auto bytes = pattern(key, offset, n, ++version);
        TaskThrottle task = store().make_task(static_cast<std::uint32_t>(rng.below(store().owners())));
        const auto written = store().write(*file, offset, bytes, &task);
        ASSERT_TRUE(written) << written.error().sentence();
        ASSERT_EQ(*written, n);
        if (n != 0) {
          if (there->second.size() < offset + n) there->second.resize(offset + n);
          std::copy(bytes.begin(), bytes.end(), there->second.begin() + static_cast<std::ptrdiff_t>(offset));
        }
      }
    }
  }
  harness_->settle();
  for (const auto& [key, bytes] : oracle) {
    auto file = store().open({key});
    ASSERT_TRUE(file);
    ASSERT_TRUE(read_all(store(), *file) == bytes);
    file->close();
    ASSERT_TRUE(store().unlink({key}));
  }
  EXPECT_EQ(store().stats().free_blocks, store().stats().total_blocks);
  EXPECT_EQ(store().stats().index.files, 0U);
  EXPECT_EQ(store().stats().index.bytes(), 0U);
}

TEST_F(FlatStoreTest, LeavesHolesEmpty) {
  make();
  const FileKey key = FileKey::of(0, 0, 0);
  const std::uint64_t far = 3ULL << 30;
  auto file = store().create(key).value();
  ASSERT_EQ(store().write(file, far + 5, pattern(key, far + 5, 10)).value(), 10U);
  ASSERT_EQ(store().write(file, 4096, pattern(key, 4096, 10)).value(), 10U);
  EXPECT_EQ(store().stats().free_blocks, store().stats().total_blocks - 3);  // one for the index
  file.close();
  harness_->settle();
  EXPECT_EQ(store().stats().free_blocks, store().stats().total_blocks - 3);  // one for the index
  file = store().open(key).value();
  EXPECT_EQ(file.size(), far + 15);
  std::vector<std::byte> bytes(100);
  EXPECT_EQ(store().read(file, far, bytes).value(), 15U);
  EXPECT_EQ(bytes[4], std::byte{0});
  EXPECT_TRUE(std::equal(bytes.begin() + 5, bytes.begin() + 15, pattern(key, far + 5, 10).begin()));
  EXPECT_EQ(store().read(file, 1ULL << 30, bytes).value(), 100U);
  for (std::byte b : bytes) EXPECT_EQ(b, std::byte{0});
  EXPECT_EQ(store().read(file, far + 15, bytes).value(), 0U);
}

TEST_F(FlatStoreTest, AnswersOddCalls) {
  make();
  const FileKey key = FileKey::of(65'535, 65'535, UINT32_MAX);
  EXPECT_EQ(store().open(key).error().code, Reason::kNotFound);
  EXPECT_EQ(store().stat(key).error().code, Reason::kNotFound);
  EXPECT_EQ(store().unlink(key).error().code, Reason::kNotFound);
  auto file = store().create(key).value();
  EXPECT_EQ(store().create(key).error().code, Reason::kExists);
  const std::vector<std::byte> byte(1);
  EXPECT_EQ(store().write(file, FileIndex::kMaxFileBytes, byte).error().code, Reason::kFileTooLarge);
  EXPECT_EQ(store().write(file, UINT64_MAX, byte).error().code, Reason::kFileTooLarge);
  EXPECT_EQ(store().write(file, 5, {}).value(), 0U);
  EXPECT_EQ(file.size(), 0U);
  EXPECT_EQ(store().write(file, FileIndex::kMaxFileBytes - 1, byte).value(), 1U);
  EXPECT_EQ(file.size(), FileIndex::kMaxFileBytes);
  file.close();
  harness_->settle();
  EXPECT_EQ(store().stat(key).value(), FileIndex::kMaxFileBytes);
  EXPECT_TRUE(store().unlink(key));
  EXPECT_EQ(store().stats().free_blocks, store().stats().total_blocks);
}

TEST_F(FlatStoreTest, WritesABatchAsFewLargeRequests) {
  make({.dirty_bytes = 64 * kMiB});
  const DeviceStats before = device().stats();
  constexpr std::uint32_t kFiles = 3'000;
  for (std::uint32_t i = 0; i < kFiles; ++i) ASSERT_TRUE(put_file(store(), FileKey::of(0, 0, i), 4096));
  ASSERT_TRUE(store().sync());
  const DeviceStats after = device().stats();
  EXPECT_EQ(after.write_bytes - before.write_bytes, kFiles * 4096ULL);
  // 1,024 files per batch make 4 MiB each; a background flusher may have cut some of them.
  EXPECT_LE(after.writes - before.writes, 12U);
}

TEST_F(FlatStoreTest, SplitsAHugeFileIntoRequests) {
  make({.dirty_bytes = 64 * kMiB});
  const DeviceStats before = device().stats();
  auto file = store().create(FileKey::of(0, 0, 0)).value();
  const auto bytes = pattern(FileKey::of(0, 0, 0), 0, 20 * kMiB);
  ASSERT_EQ(store().write(file, 0, bytes).value(), bytes.size());
  ASSERT_TRUE(store().fsync(file));
  const DeviceStats after = device().stats();
  EXPECT_EQ(after.write_bytes - before.write_bytes, bytes.size());
  EXPECT_GE(after.writes - before.writes, 5U);
  EXPECT_LE(after.writes - before.writes, 12U);
  EXPECT_EQ(store().stats().index.table_bytes, 0U) << "one run, and one extent";
  harness_->store_->drop_caches();
  EXPECT_TRUE(read_all(store(), file) == bytes);
}

// A slice of background work leaves the place in the file's middle where the next one goes on.
TEST_F(FlatStoreTest, AnFsyncTakesTheWholeFileWhereverBackgroundHasStopped) {
  make({.dirty_bytes = 64 * kMiB});
  const FileKey key = FileKey::of(0, 0, 0);
  auto file = store().create(key).value();
  const auto bytes = pattern(key, 0, 12 * kMiB);
  ASSERT_EQ(store().write(file, 0, bytes).value(), bytes.size());
  WritebackEngine& engine = *harness_->engine_;
  engine.reclaim(*engine.context(0), 1);
  while (engine.stats().batches == 0) yield_thread();
  ASSERT_EQ(engine.stats().io_bytes, engine.options().batch_bytes);
  ASSERT_TRUE(store().write(file, 0, std::span(bytes).first(kPageBytes)));
  ASSERT_TRUE(store().fsync(file));
  EXPECT_EQ(engine.stats().batches, 2U) << "one pass, from the front";
  EXPECT_EQ(engine.stats().io_bytes, bytes.size() + kPageBytes);
  EXPECT_EQ(engine.dirty_and_writeback_bytes(), 0U);
  harness_->store_->drop_caches();
  EXPECT_TRUE(read_all(store(), file) == bytes);
}

TEST_F(FlatStoreTest, OverwritesInPlace) {
  make();
  const FileKey key = FileKey::of(0, 0, 0);
  ASSERT_TRUE(put_file(store(), key, 40'000, 1));
  harness_->settle();
  const std::uint64_t free = store().stats().free_blocks;
  auto file = store().open(key).value();
  ASSERT_TRUE(store().write(file, 0, pattern(key, 0, 40'000, 2)));
  EXPECT_EQ(store().stats().free_blocks, free);
  file.close();
  harness_->settle();
  EXPECT_EQ(store().stats().free_blocks, free);
  expect_pattern(store(), key, 40'000, 2);
}

TEST_F(FlatStoreTest, SpendsFewBytesOfIndexPerFile) {
  make({.device_bytes = 512 * kMiB, .memory_bytes = 64 * kMiB});
  constexpr std::uint32_t kFiles = 50'000;
  for (std::uint32_t i = 0; i < kFiles; ++i) {
    ASSERT_TRUE(put_file(store(), FileKey::of(static_cast<std::uint16_t>(i % 4), 0, i / 4), 1));
  }
  const FileIndexStats index = store().stats().index;
  EXPECT_EQ(index.files, kFiles);
  EXPECT_LE(index.bytes(), kFiles * 32ULL);
  EXPECT_GE(index.bytes(), kFiles * 16ULL);
  harness_->settle();
}

TEST_F(FlatStoreTest, EvictsCleanInodesAndRebuildsThem) {
  // Memory for a fraction of the files.
  make({.device_bytes = 256 * kMiB, .memory_bytes = 10 * kMiB, .dirty_bytes = 2 * kMiB});
  constexpr std::uint32_t kFiles = 20'000;
  for (std::uint32_t i = 0; i < kFiles; ++i) {
    ASSERT_TRUE(put_file(store(), FileKey::of(0, 0, i), 4096 + i % 3));
    ASSERT_LE(harness_->budget_.charged_bytes(), 10 * kMiB);
  }
  EXPECT_GT(store().inode_stats().evictions, kFiles / 2);
  for (std::uint32_t i = 0; i < kFiles; i += 7) expect_pattern(store(), FileKey::of(0, 0, i), 4096 + i % 3);
  harness_->settle();
}

TEST_F(FlatStoreTest, SaysNoSpaceToTheWriterAndKeepsWhatItTook) {
  make({.device_bytes = 4 * kMiB});
  const std::uint64_t fit = one_page_files(store());
  std::uint32_t made = 0;
  for (;; ++made) {
    const Result<void> put = put_file(store(), FileKey::of(0, 0, made), 4096);
    if (put) continue;
    EXPECT_EQ(put.error().code, Reason::kNoSpace);
    break;
  }
  EXPECT_EQ(made, fit) << "every block but the header's and the saved index's";
  ASSERT_TRUE(store().unlink(FileKey::of(0, 0, made)));  // made, but empty
  {
    // Still dirty, so its block is set aside already: no other is needed.
    auto dirty = store().open(FileKey::of(0, 0, made - 1)).value();
    EXPECT_EQ(store().write(dirty, 0, pattern(FileKey::of(0, 0, made - 1), 0, 4096)).value(), 4096U);
  }
  harness_->settle();
  for (std::uint32_t i = 0; i < made; ++i) expect_pattern(store(), FileKey::of(0, 0, i), 4096);
  // Overwriting needs no space; what is deleted can be used again.
  auto file = store().open(FileKey::of(0, 0, 3)).value();
  EXPECT_EQ(store().write(file, 0, pattern(FileKey::of(0, 0, 3), 0, 4096, 9)).value(), 4096U);
  EXPECT_EQ(store().write(file, 4096, std::vector<std::byte>(1)).error().code, Reason::kNoSpace);
  ASSERT_TRUE(store().unlink(FileKey::of(0, 0, 5)));
  EXPECT_EQ(store().write(file, 4096, pattern(FileKey::of(0, 0, 3), 4096, 4096, 9)).value(), 4096U);
  file.close();
  // Also by files of every other part of the index, whichever has the freed block in hand.
  for (std::uint16_t thread = 1; thread <= 2 * FileIndex::kShards; ++thread) {
    ASSERT_TRUE(store().unlink(FileKey::of(0, 0, 10U + thread)));
    ASSERT_TRUE(put_file(store(), FileKey::of(thread, 0, 0), 4096)) << "thread " << thread;
  }
  harness_->settle();
  expect_pattern(store(), FileKey::of(0, 0, 3), 8192, 9);
}

TEST_F(FlatStoreTest, WritesThePartThatFits) {
  make({.device_bytes = 4 * kMiB});
  const std::uint64_t room = (store().stats().total_blocks - 1) * 4096;  // and one for the index
  const FileKey key = FileKey::of(0, 0, 0);
  auto file = store().create(key).value();
  const auto bytes = pattern(key, 0, 6 * kMiB);
  EXPECT_EQ(store().write(file, 0, bytes).value(), room);
  EXPECT_EQ(file.size(), room);
  EXPECT_EQ(store().write(file, room, std::span(bytes).first(1)).error().code, Reason::kNoSpace);
  file.close();
  harness_->settle();
  expect_pattern(store(), key, room);
}

TEST_F(FlatStoreTest, FillsUpExactlyWithManyWriters) {
  make({.device_bytes = 16 * kMiB, .dirty_bytes = 4 * kMiB, .owners = 2, .flushers = 2});
  constexpr std::uint16_t kThreads = 8;
  std::uint32_t made[kThreads] = {};
  std::vector<Thread> threads;
  for (std::uint16_t t = 0; t < kThreads; ++t) {
    threads.emplace_back("fill", [this, t, &made] {
      for (std::uint32_t i = 0;; ++i) {
        const FileKey key = FileKey::of(t, 0, i);
        const Result<void> put = put_file(store(), key, 4096);
        if (!put) {
          EXPECT_EQ(put.error().code, Reason::kNoSpace);
          EXPECT_TRUE(store().unlink(key));
          made[t] = i;
          return;
        }
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  std::uint64_t total = 0;
  for (std::uint32_t n : made) total += n;
  EXPECT_EQ(total, one_page_files(store()));
  harness_->settle();
  for (std::uint16_t t = 0; t < kThreads; ++t) {
    for (std::uint32_t i = 0; i < made[t]; ++i) expect_pattern(store(), FileKey::of(t, 0, i), 4096);
  }
}

TEST_F(FlatStoreTest, TellsAFailedWriteOncePerHandleAndKeepsTheData) {
  for (const FaultEffect effect : {FaultEffect::kIoError, FaultEffect::kNoSpace}) {
    make();
    const Reason reason = effect == FaultEffect::kIoError ? Reason::kIo : Reason::kNoSpace;
    const FileKey key = FileKey::of(0, 0, 0);
    auto first = store().create(key).value();
    auto second = store().open(key).value();
    ASSERT_TRUE(store().write(first, 0, pattern(key, 0, 50'000)));
    device().add({.op = IoOp::kWrite, .effect = effect, .count = FaultRule::kForEver});
    EXPECT_EQ(store().fsync(first).error().code, reason);
    EXPECT_GT(engine().dirty_and_writeback_bytes(), 0U) << "what failed is still dirty";
    device().clear_rules();
    EXPECT_EQ(store().fsync(second).error().code, reason) << "not told yet, though all is well by now";
    EXPECT_TRUE(store().fsync(first));
    EXPECT_TRUE(store().fsync(second));
    first.close();
    second.close();
    (void)store().sync();  // may tell the context of the error once
    harness_->settle();
    expect_pattern(store(), key, 50'000);
    auto third = store().open(key).value();
    EXPECT_TRUE(store().fsync(third));
    third.close();
    harness_.reset();
  }
}

TEST_F(FlatStoreTest, TellsAnErrorAlsoAfterTheInodeWasEvicted) {
  make();
  const FileKey key = FileKey::of(0, 0, 0);
  ASSERT_TRUE(put_file(store(), key, 10'000));  // and closed
  device().add({.op = IoOp::kWrite, .effect = FaultEffect::kIoError, .count = 1});
  (void)store().sync();
  EXPECT_TRUE(store().sync());  // the second attempt went well
  for (int round = 0; round < 2; ++round) {
    const std::uint64_t evictions = store().inode_stats().evictions;
    store().drop_caches();
    EXPECT_EQ(store().inode_stats().evictions, evictions + 1);
    if (round == 0) (void)store().stat(key);  // brings it in, tells nobody
  }
  auto file = store().open(key).value();
  EXPECT_EQ(store().fsync(file).error().code, Reason::kIo);
  EXPECT_TRUE(store().fsync(file));
  file.close();
  store().drop_caches();
  file = store().open(key).value();
  EXPECT_TRUE(store().fsync(file)) << "it has been told";
  file.close();
  harness_->settle();
  expect_pattern(store(), key, 10'000);
}

TEST_F(FlatStoreTest, SyncTellsOfAFailingDevice) {
  make();
  for (std::uint32_t i = 0; i < 100; ++i) ASSERT_TRUE(put_file(store(), FileKey::of(0, 0, i), 4096));
  device().add({.op = IoOp::kWrite, .count = FaultRule::kForEver});
  EXPECT_EQ(store().sync().error().code, Reason::kIo);
  EXPECT_EQ(store().unmount().error().code, Reason::kIo);
  device().clear_rules();
  device().add({.op = IoOp::kFlush, .count = 1});
  EXPECT_FALSE(store().sync());
  harness_->settle();
  for (std::uint32_t i = 0; i < 100; ++i) expect_pattern(store(), FileKey::of(0, 0, i), 4096);
}

TEST_F(FlatStoreTest, EndsOnADeadDevice) {
  make();
  for (std::uint32_t i = 0; i < 500; ++i) ASSERT_TRUE(put_file(store(), FileKey::of(0, 0, i), 5000));
  device().add({.op = IoOp::kWrite, .count = FaultRule::kForEver});
  device().add({.op = IoOp::kFlush, .count = FaultRule::kForEver});
  EXPECT_FALSE(store().sync());
  harness_->store_.reset();
  EXPECT_EQ(engine().dirty_and_writeback_bytes(), 0U);
}

TEST_F(FlatStoreTest, DropsTheDirtOfDeletedFiles) {
  make();
  const std::uint64_t writes = device().stats().writes;
  for (std::uint32_t i = 0; i < 200; ++i) {
    const FileKey key = FileKey::of(0, 0, i);
    ASSERT_TRUE(put_file(store(), key, 10'000));
    ASSERT_TRUE(store().unlink(key));
    EXPECT_EQ(store().open(key).error().code, Reason::kNotFound);
  }
  EXPECT_EQ(device().stats().writes, writes);
  EXPECT_EQ(engine().dirty_and_writeback_bytes(), 0U);
  EXPECT_EQ(store().stats().free_blocks, store().stats().total_blocks);
  harness_->settle();
}

TEST_F(FlatStoreTest, WaitsForTheWritebackOfADeletedFile) {
  make();
  const FileKey key = FileKey::of(0, 0, 0);
  ASSERT_TRUE(put_file(store(), key, 10'000));
  device().add({.op = IoOp::kWrite, .effect = FaultEffect::kStall, .count = 1});
  Thread syncer("sync", [this] { EXPECT_TRUE(store().sync()); });
  device().wait_stalled(1);
  Thread remover("unlink", [this, key] { EXPECT_TRUE(store().unlink(key)); });
  // Its blocks are being written: nobody else may get them.
  while (store().open(key).has_value()) yield_thread();
  EXPECT_EQ(store().stats().free_blocks, store().stats().total_blocks - 4);  // one for the index
  device().release_stalled();
  remover.join();
  syncer.join();
  EXPECT_EQ(store().stats().free_blocks, store().stats().total_blocks);
  ASSERT_TRUE(put_file(store(), key, 100));
  harness_->settle();
}

TEST_F(FlatStoreTest, LetsOpenHandlesOfADeletedFileGoOn) {
  make();
  const FileKey key = FileKey::of(0, 0, 0);
  ASSERT_TRUE(put_file(store(), key, 10'000));
  auto file = store().open(key).value();
  ASSERT_TRUE(store().unlink(key));
  EXPECT_EQ(store().create(key).error().code, Reason::kBusy);
  ASSERT_TRUE(store().write(file, 10'000, pattern(key, 10'000, 5'000)));
  ASSERT_TRUE(store().fsync(file));
  EXPECT_TRUE(read_all(store(), file) == pattern(key, 0, 15'000));
  EXPECT_LT(store().stats().free_blocks, store().stats().total_blocks);
  file.close();
  EXPECT_EQ(store().stats().free_blocks, store().stats().total_blocks);
  ASSERT_TRUE(put_file(store(), key, 7));
  harness_->settle();
}

TEST_F(FlatStoreTest, ServesManyThreadsAtOnce) {
  SCOPED_TRACE(kSeed);
  make({.device_bytes = 128 * kMiB,
        .memory_bytes = 16 * kMiB,
        .dirty_bytes = 4 * kMiB,
        .owners = 2,
        .flushers = 2});
  constexpr std::uint16_t kThreads = 8;
  constexpr std::uint32_t kFiles = 300;
  std::vector<Thread> threads;
  for (std::uint16_t t = 0; t < kThreads; ++t) {
    threads.emplace_back("files", [this, t] {
      Rng rng(kSeed + t);
      for (std::uint32_t i = 0; i < kFiles; ++i) {
        const FileKey key = FileKey::of(t, 0, i);
        EXPECT_TRUE(put_file(store(), key, 1 + i * 37 % 20'000));
        if (rng.chance(40)) {
          auto file = store().open(key).value();
          EXPECT_TRUE(store().fsync(file));
        }
        if (rng.chance(200)) {
          EXPECT_TRUE(store().sync());
        }
        const FileKey other = FileKey::of(static_cast<std::uint16_t>(rng.below(kThreads)), 0,
                                          static_cast<std::uint32_t>(rng.below(kFiles)));
        if (auto file = store().open(other)) {
          std::vector<std::byte> bytes(file->size());
          const auto n = store().read(*file, 0, bytes);
          EXPECT_TRUE(n);
          EXPECT_TRUE(std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(*n),
                                 pattern(other, 0, *n).begin()));
        }
        if (i >= 50 && i % 3 == 0) {
          EXPECT_TRUE(store().unlink(FileKey::of(t, 0, i - 50)));
        }
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  harness_->settle();
  for (std::uint16_t t = 0; t < kThreads; ++t) {
    for (std::uint32_t i = 0; i < kFiles; ++i) {
      const FileKey key = FileKey::of(t, 0, i);
      const bool deleted = (i + 50) < kFiles && (i + 50) % 3 == 0;
      if (deleted) {
        EXPECT_FALSE(store().open(key));
      } else {
        expect_pattern(store(), key, 1 + i * 37 % 20'000);
      }
    }
  }
}

// One file, many writers: each page holds one writer's bytes, wholly.
TEST_F(FlatStoreTest, SerialisesTheWritersOfOneFile) {
  make({.dirty_bytes = 2 * kMiB, .flushers = 2});
  const FileKey key = FileKey::of(0, 0, 0);
  store().create(key).value().close();
  constexpr std::uint64_t kPages = 64;
  std::vector<Thread> threads;
  for (std::uint16_t t = 0; t < 6; ++t) {
    threads.emplace_back("write", [this, key, t] {
      Rng rng(kSeed + t);
      auto file = store().open(key).value();
      std::vector<std::byte> bytes(8 * 4096);
      for (int i = 0; i < 300; ++i) {
        const std::uint64_t first = rng.below(kPages - 8);
        std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(1 + t));
        EXPECT_EQ(store().write(file, first * 4096, bytes).value(), bytes.size());
        if (i % 50 == 0) {
          EXPECT_TRUE(store().fsync(file));
        }
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  harness_->settle();
  auto file = store().open(key).value();
  const auto bytes = read_all(store(), file);
  for (std::size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], bytes[i / 4096 * 4096]) << i;
}

TEST_F(FlatStoreTest, RunsOnEveryDesign) {
  for (const DirtyListDesign& design : dirty_list_designs()) {
    SCOPED_TRACE(design.name);
    make({.dirty_bytes = kMiB, .design = design.name});
    for (std::uint32_t i = 0; i < 1'000; ++i) ASSERT_TRUE(put_file(store(), FileKey::of(0, 0, i), 4096));
    harness_->settle();
    for (std::uint32_t i = 0; i < 1'000; ++i) expect_pattern(store(), FileKey::of(0, 0, i), 4096);
    harness_.reset();
  }
}

// ---- opening and closing the store ----

TEST_F(FlatStoreTest, ComesBackAfterUnmount) {
  make();
  for (std::uint32_t i = 0; i < 3'000; ++i) ASSERT_TRUE(put_file(store(), FileKey::of(2, 1, i), i % 9'000));
  {
    // A file with many extents.
    auto file = store().create(FileKey::of(9, 9, 9)).value();
    for (std::uint64_t i = 0; i < 200; ++i) {
      ASSERT_TRUE(store().write(file, i * 3 * 4096, pattern(FileKey::of(9, 9, 9), i * 3 * 4096, 4096)));
    }
  }
  const std::uint64_t free = store().stats().free_blocks;
  ASSERT_TRUE(store().unmount());
  harness_->store_.reset();
  EXPECT_EQ(harness_->budget_.charged_bytes(), 0U);

  ASSERT_TRUE(harness_->mount());
  EXPECT_EQ(store().stats().index.files, 3'001U);
  EXPECT_EQ(store().stats().free_blocks, free);
  for (std::uint32_t i = 0; i < 3'000; ++i) expect_pattern(store(), FileKey::of(2, 1, i), i % 9'000);
  {
    auto file = store().open(FileKey::of(9, 9, 9)).value();
    const auto bytes = read_all(store(), file);
    for (std::uint64_t at = 0; at < bytes.size(); ++at) {
      const bool hole = at / 4096 % 3 != 0;
      ASSERT_EQ(bytes[at], hole ? std::byte{0} : pattern_byte(FileKey::of(9, 9, 9), at));
    }
  }
  harness_->settle();
  // And once more, with what has changed since.
  ASSERT_TRUE(store().unlink(FileKey::of(2, 1, 0)));
  ASSERT_TRUE(put_file(store(), FileKey::of(2, 2, 0), 12'345));
  ASSERT_TRUE(store().unmount());
  harness_->store_.reset();
  ASSERT_TRUE(harness_->mount());
  expect_pattern(store(), FileKey::of(2, 2, 0), 12'345);
  EXPECT_FALSE(store().open(FileKey::of(2, 1, 0)));
}

TEST_F(FlatStoreTest, MountsOnlyWhatWasUnmounted) {
  harness_ = std::make_unique<FlatHarness>();
  EXPECT_EQ(harness_->mount().error().code, Reason::kNotFound);
  harness_->format();
  ASSERT_TRUE(put_file(store(), FileKey::of(0, 0, 0), 100));
  harness_->store_.reset();  // without unmount
  EXPECT_EQ(harness_->mount().error().code, Reason::kCorrupt);
  harness_->format();  // ours, so it may be emptied
  EXPECT_FALSE(store().open(FileKey::of(0, 0, 0)));
  ASSERT_TRUE(store().unmount());
  harness_->store_.reset();
  ASSERT_TRUE(harness_->mount());
  harness_->store_.reset();  // again without unmount
  EXPECT_EQ(harness_->mount().error().code, Reason::kCorrupt);
}

TEST_F(FlatStoreTest, RefusesWhatIsForeign) {
  harness_ = std::make_unique<FlatHarness>();
  AlignedBytes text(4096);
  std::memset(text.data(), 'x', text.size());
  ASSERT_TRUE(device().write(0, text.span()));
  EXPECT_EQ(FlatStore::format(device(), engine(), harness_->budget_, harness_->store_options()).error().code,
            Reason::kNotEmpty);
  EXPECT_EQ(harness_->mount().error().code, Reason::kNotEmpty);
  AlignedBytes back(4096);
  ASSERT_TRUE(device().read(0, back.span()));
  EXPECT_EQ(std::memcmp(text.data(), back.data(), 4096), 0);
}

TEST_F(FlatStoreTest, NoticesADamagedIndex) {
  SCOPED_TRACE(kSeed);
  make({.device_bytes = 8 * kMiB});
  for (std::uint32_t i = 0; i < 300; ++i) ASSERT_TRUE(put_file(store(), FileKey::of(0, 0, i), 5'000));
  ASSERT_TRUE(store().unmount());
  harness_->store_.reset();
  const FlatHeader header = read_header(device()).value();
  ASSERT_EQ(header.files, 300U);
  Rng rng(kSeed);
  for (int round = 0; round < 40; ++round) {
    const BlockExtent& extent = header.index;
    const std::uint64_t at = (extent.block + rng.below(extent.blocks)) * kBlockBytes;
    AlignedBytes block(kBlockBytes);
    ASSERT_TRUE(device().read(at, block.span()));
    const std::uint64_t bit = rng.below(kBlockBytes * 8);
    block.data()[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    ASSERT_TRUE(device().write(at, block.span()));
    EXPECT_EQ(harness_->mount().error().code, Reason::kCorrupt) << "bit " << bit << " at " << at;
    block.data()[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    ASSERT_TRUE(device().write(at, block.span()));
  }
  ASSERT_TRUE(harness_->mount());
  expect_pattern(store(), FileKey::of(0, 0, 7), 5'000);
}

TEST_F(FlatStoreTest, RefusesToUnmountWhileADeletedFileIsOpen) {
  make();
  ASSERT_TRUE(put_file(store(), FileKey::of(0, 0, 0), 4096));
  auto file = store().open(FileKey::of(0, 0, 0)).value();
  ASSERT_TRUE(store().unlink(FileKey::of(0, 0, 0)));
  EXPECT_EQ(store().unmount().error().code, Reason::kBusy);
  expect_contents(store(), file, FileKey::of(0, 0, 0), 4096);
  file.close();
  EXPECT_TRUE(store().unmount());
}

TEST(FlatStoreNull, WritesAndReadsNothingBack) {
  MemoryBudget budget(32 * kMiB, kMiB);
  NullDevice device(1ULL << 40);
  EngineOptions options;
  options.dirty_bytes = 4 * kMiB;
  options.background_bytes = 2 * kMiB;
  auto engine = WritebackEngine::make(options, std::make_unique<ThreadDriver>()).value();
  auto store =
      FlatStore::format(device, *engine, budget, {.memory_limit_bytes = 32 * kMiB, .huge_pages = false})
          .value();
  for (std::uint32_t i = 0; i < 20'000; ++i) ASSERT_TRUE(put_file(*store, FileKey::of(0, 0, i), 4096));
  ASSERT_TRUE(store->sync());
  store->drop_caches();
  EXPECT_EQ(device.stats().write_bytes_data, 20'000ULL * 4096);
  EXPECT_EQ(store->stat(FileKey::of(0, 0, 5)).value(), 4096U);
  auto file = store->open(FileKey::of(0, 0, 5)).value();
  std::vector<std::byte> bytes(10);
  EXPECT_EQ(store->read(file, 0, bytes).error().code, Reason::kUnsupported);
  file.close();
  EXPECT_TRUE(store->unmount());
  store.reset();
  EXPECT_EQ(FlatStore::mount(device, *engine, budget, {.memory_limit_bytes = 32 * kMiB}).error().code,
            Reason::kUnsupported);
}

// Reads alone keep a file's pages: four times what memory holds goes by.
TEST_F(FlatStoreTest, WhatIsReadAgainAndAgainStaysInMemory) {
  make({.memory_bytes = 12 * kMiB, .dirty_bytes = 2 * kMiB});
  constexpr std::uint32_t kFiles = 48;
  for (std::uint32_t n = 0; n < kFiles; ++n) ASSERT_TRUE(put_file(store(), FileKey::of(0, 0, n), kMiB));
  harness_->settle();
  expect_pattern(store(), FileKey::of(0, 0, 0), kMiB);
  const std::uint64_t once = store().page_stats().read_misses;
  for (std::uint32_t n = 1; n < kFiles; ++n) {
    expect_pattern(store(), FileKey::of(0, 0, n), kMiB);
    expect_pattern(store(), FileKey::of(0, 0, 0), kMiB);
  }
  EXPECT_EQ(store().page_stats().read_misses, once + (kFiles - 1) * kMiB / kPageBytes);
  EXPECT_GT(store().page_stats().reclaimed_pages, 12 * kMiB / kPageBytes);
  harness_->settle();
}

}  // namespace
}  // namespace tidewheel
