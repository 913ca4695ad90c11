// Full devices: what was acknowledged is there after unmount and mount, whatever filled the device, and the
// saved index always finds the room that was set aside for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/fs/flat_fixture.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20;
constexpr std::uint64_t kSeed = 20260730;

// What of a file was acknowledged.
struct Acknowledged {
  FileKey key;
  std::uint64_t bytes = 0;
};

class FlatFullTest : public ::testing::Test {
 protected:
  FlatStore& store() { return *harness_->store_; }
  void make(const FlatSetup& setup) {
    harness_ = std::make_unique<FlatHarness>(setup);
    harness_->format();
  }
  // One thread's files until the device is full. Half of those that do not fit are kept with what was taken.
  void fill(std::uint16_t thread, const std::function<std::uint64_t(Rng&)>& size_of,
            std::vector<Acknowledged>& out) {
    Rng rng(kSeed + thread);
    for (std::uint32_t i = 0;; ++i) {
      const FileKey key = FileKey::of(thread, 0, i);
      auto file = store().create(key);
      if (!file) {
        ASSERT_EQ(file.error().code, Reason::kNoSpace);
        return;
      }
      const std::uint64_t size = size_of(rng);
      std::uint64_t done = 0;
      while (done < size) {
        const auto bytes = pattern(key, done, std::min<std::uint64_t>(size - done, kMiB));
        const auto n = store().write(*file, done, bytes);
        if (!n) {
          ASSERT_EQ(n.error().code, Reason::kNoSpace);
          break;
        }
        done += *n;
      }
      if (done < size && i % 2 == 0) {
        file->close();
        ASSERT_TRUE(store().unlink(key));
        return;
      }
      out.push_back({key, done});
      if (done < size) return;
    }
  }
  void expect_all(const std::vector<Acknowledged>& files) {
    for (const Acknowledged& file : files) {
      expect_pattern(store(), file.key, file.bytes);
      if (HasFatalFailure()) return;
    }
    EXPECT_EQ(store().stats().index.files, files.size());
  }
  void expect_all_after_remount(const std::vector<Acknowledged>& files) {
    harness_->settle();
    const std::uint64_t free = store().stats().free_blocks;
    const Result<void> unmounted = store().unmount();
    ASSERT_TRUE(unmounted) << unmounted.error().sentence();
    harness_->store_.reset();
    ASSERT_TRUE(harness_->mount());
    EXPECT_EQ(store().stats().free_blocks, free);
    expect_all(files);
    harness_->settle();
  }
  void fill_and_remount(const FlatSetup& setup, std::uint16_t threads,
                        const std::function<std::uint64_t(Rng&)>& size_of) {
    SCOPED_TRACE(kSeed);
    make(setup);
    std::vector<std::vector<Acknowledged>> made(threads);
    std::vector<Thread> running;
    for (std::uint16_t t = 0; t < threads; ++t) {
      running.emplace_back("fill", [&, t] { fill(t, size_of, made[t]); });
    }
    for (Thread& thread : running) thread.join();
    std::vector<Acknowledged> all;
    for (const auto& files : made) all.insert(all.end(), files.begin(), files.end());
    ASSERT_FALSE(all.empty());
    ASSERT_NO_FATAL_FAILURE(expect_all_after_remount(all));
    // It can be emptied and filled again.
    for (const Acknowledged& file : all) ASSERT_TRUE(store().unlink(file.key));
    harness_->settle();
    EXPECT_EQ(store().stats().free_blocks, store().stats().total_blocks);
    made.assign(1, {});
    fill(0, size_of, made[0]);
    ASSERT_NO_FATAL_FAILURE(expect_all_after_remount(made[0]));
  }

  std::unique_ptr<FlatHarness> harness_;
};

std::uint64_t mixed_size(Rng& rng) {
  switch (rng.below(5)) {
    case 0: return 0;
    case 1: return 1 + rng.below(4096);
    case 2: return 4096;
    case 3: return rng.below(100'000);
    default: return rng.below(3 * kMiB);
  }
}

TEST_F(FlatFullTest, ServesFilesOfNoBytes) {
  make({.device_bytes = kMiB});
  std::vector<Acknowledged> files;
  fill(0, [](Rng&) { return 0; }, files);
  EXPECT_EQ(files.size(), 255U * 170) << "every block but the header's holds 170 files";
  ASSERT_NO_FATAL_FAILURE(expect_all_after_remount(files));
}

TEST_F(FlatFullTest, ServesFilesOfOnePage) {
  make({.device_bytes = 32 * kMiB, .dirty_bytes = 4 * kMiB});
  std::vector<Acknowledged> files;
  fill(0, [](Rng&) { return 4096; }, files);
  EXPECT_EQ(std::count_if(files.begin(), files.end(), [](const Acknowledged& f) { return f.bytes == 4096; }),
            static_cast<std::ptrdiff_t>(one_page_files(store())));
  ASSERT_NO_FATAL_FAILURE(expect_all_after_remount(files));
}

TEST_F(FlatFullTest, ServesOneFileOfAllButTheIndex) {
  make({.device_bytes = 32 * kMiB, .dirty_bytes = 16 * kMiB});
  std::vector<Acknowledged> files;
  fill(1, [](Rng&) { return kMiB << 10; }, files);
  // The first is unlinked when it did not fit: what is left is none.
  EXPECT_TRUE(files.empty());
  const FileKey key = FileKey::of(0, 0, 0);
  auto file = store().create(key).value();
  std::uint64_t done = 0;
  for (;;) {
    const auto n = store().write(file, done, pattern(key, done, kMiB));
    if (!n) break;
    done += *n;
  }
  file.close();
  // Pages that lie together need one extent, however many were dirty at once: one block of index in all.
  EXPECT_EQ(done, (store().stats().total_blocks - 1) * 4096);
  ASSERT_NO_FATAL_FAILURE(expect_all_after_remount({{key, done}}));
}

TEST_F(FlatFullTest, ServesLargeFiles) {
  fill_and_remount({.device_bytes = 64 * kMiB}, 1, [](Rng& rng) { return 3 * kMiB + rng.below(kMiB); });
}

TEST_F(FlatFullTest, ServesFilesOfMixedSizes) {
  fill_and_remount({.device_bytes = 48 * kMiB}, 1, mixed_size);
}

TEST_F(FlatFullTest, ServesFilesOfMixedSizesFromEightThreads) {
  fill_and_remount({.device_bytes = 48 * kMiB, .dirty_bytes = 8 * kMiB, .owners = 2, .flushers = 2}, 8,
                   mixed_size);
}

TEST_F(FlatFullTest, ServesFilesOfNoBytesFromEightThreads) {
  fill_and_remount({.device_bytes = kMiB / 2}, 8, [](Rng&) { return 0; });
}

TEST_F(FlatFullTest, ServesSmallFilesFromEightThreads) {
  fill_and_remount({.device_bytes = 16 * kMiB, .dirty_bytes = 4 * kMiB}, 8,
                   [](Rng& rng) { return rng.below(9'000); });
}

// The worst that can be done to the index: each page an extent of its own, and the free blocks lie singly.
TEST_F(FlatFullTest, ServesScatteredPagesAndScattersItsIndex) {
  make({.device_bytes = 16 * kMiB, .dirty_bytes = 4 * kMiB});
  std::vector<Acknowledged> files;
  fill(0, [](Rng&) { return 4096; }, files);
  harness_->settle();
  // Every third block is free now, and no two of them touch.
  std::vector<Acknowledged> kept;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (i % 3 != 0) {
      kept.push_back(files[i]);
    } else {
      ASSERT_TRUE(store().unlink(files[i].key));
    }
  }
  // One file with holes, whose pages go there: as many extents as pages.
  const FileKey key = FileKey::of(7, 0, 0);
  auto file = store().create(key).value();
  std::uint64_t pages = 0;
  while (store().write(file, pages * 2 * 4096, pattern(key, pages * 2 * 4096, 4096))) ++pages;
  file.close();
  EXPECT_GT(pages, files.size() / 4);
  harness_->settle();
  // No room for a file of one page; its unmounted index lies in many pieces.
  EXPECT_LE(store().stats().free_blocks, 1U);
  const Result<void> unmounted = store().unmount();
  ASSERT_TRUE(unmounted) << unmounted.error().sentence();
  harness_->store_.reset();
  ASSERT_TRUE(harness_->mount());
  for (const Acknowledged& one : kept) ASSERT_NO_FATAL_FAILURE(expect_pattern(store(), one.key, one.bytes));
  auto back = store().open(key).value();
  ASSERT_EQ(back.size(), ((pages - 1) * 2 + 1) * 4096);
  for (std::uint64_t i = 0; i < pages; ++i) {
    std::vector<std::byte> page(4096);
    ASSERT_TRUE(store().read(back, i * 2 * 4096, page));
    ASSERT_EQ(page, pattern(key, i * 2 * 4096, 4096));
  }
  back.close();
  harness_->settle();
}

// A store that stays full while files come and go, over several unmounts.
TEST_F(FlatFullTest, StaysServiceableWhileFull) {
  SCOPED_TRACE(kSeed);
  make({.device_bytes = 12 * kMiB, .dirty_bytes = 4 * kMiB});
  Rng rng(kSeed);
  std::vector<Acknowledged> files;
  std::uint32_t next = 0;
  for (int round = 0; round < 6; ++round) {
    for (;;) {
      const FileKey key = FileKey::of(0, 0, next++);
      const std::uint64_t size = mixed_size(rng);
      const Result<void> put = put_file(store(), key, size);
      if (put) {
        files.push_back({key, size});
        continue;
      }
      ASSERT_TRUE(put.error().code == Reason::kNoSpace || put.error().code == Reason::kShortIo);
      (void)store().unlink(key);  // perhaps not even created
      break;
    }
    ASSERT_NO_FATAL_FAILURE(expect_all_after_remount(files));
    for (std::size_t n = files.size() / 3; n != 0; --n) {
      const std::size_t at = rng.below(files.size());
      ASSERT_TRUE(store().unlink(files[at].key));
      files[at] = files.back();
      files.pop_back();
    }
  }
}

}  // namespace
}  // namespace tidewheel
