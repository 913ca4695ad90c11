// The flat store with its engine, flusher and device in the simulator: writers, a reader, deletion, sync and
// a device that fails once, under every order that is tried.
#include <gtest/gtest.h>

#include "base/sim.h"
#include "tests/fs/flat_fixture.h"

namespace tidewheel {
namespace {

constexpr FlatSetup kSmall{.device_bytes = 1 << 20, .memory_bytes = 6 << 20, .dirty_bytes = 64 << 10};

// ASSERTs of the helpers would leave a lambda, not the run: outcomes go through SIM_CHECK.
bool holds_pattern(FlatStore& store, FileKey key, std::uint64_t size) {
  auto file = store.open(key);
  if (!file || file->size() != size) return false;
  std::vector<std::byte> bytes(size);
  const auto n = store.read(*file, 0, bytes);
  return n && *n == size && bytes == pattern(key, 0, size);
}

SIM_TEST_WITH(FlatStoreSim, KeepsWhatWritersWroteWhileOthersDeleteAndSync, (sim::Options{.schedules = 250})) {
  FlatHarness harness(kSmall);
  harness.format();
  FlatStore& store = *harness.store_;
  std::vector<Thread> threads;
  for (std::uint16_t t = 0; t < 2; ++t) {
    threads.emplace_back("write", [&store, t] {
      for (std::uint32_t i = 0; i < 3; ++i) {
        SIM_CHECK(put_file(store, FileKey::of(t, 0, i), 5'000 + i).has_value());
        if (i == 1) SIM_CHECK(store.unlink(FileKey::of(t, 0, 0)).has_value());
      }
    });
  }
  threads.emplace_back("sync", [&store] { SIM_CHECK(store.sync().has_value()); });
  for (Thread& thread : threads) thread.join();
  harness.settle();
  SIM_CHECK(store.stats().index.files == 4);
  SIM_CHECK(store.stats().free_blocks == store.stats().total_blocks - 9);  // one for the index
  for (std::uint16_t t = 0; t < 2; ++t) {
    SIM_CHECK(!store.open(FileKey::of(t, 0, 0)));
    for (std::uint32_t i = 1; i < 3; ++i) SIM_CHECK(holds_pattern(store, FileKey::of(t, 0, i), 5'000 + i));
  }
}

SIM_TEST_WITH(FlatStoreSim, FillsUpExactlyWithTwoWriters, (sim::Options{.schedules = 150})) {
  FlatHarness harness({.device_bytes = 10 * 4096, .memory_bytes = 6 << 20, .dirty_bytes = 64 << 10});
  harness.format();
  FlatStore& store = *harness.store_;
  std::uint32_t made[2] = {};
  std::vector<Thread> threads;
  for (std::uint16_t t = 0; t < 2; ++t) {
    threads.emplace_back("fill", [&store, &made, t] {
      while (put_file(store, FileKey::of(t, 0, made[t]), 4096)) ++made[t];
    });
  }
  for (Thread& thread : threads) thread.join();
  SIM_CHECK(made[0] + made[1] == one_page_files(store));
  harness.settle();
  for (std::uint16_t t = 0; t < 2; ++t) {
    for (std::uint32_t i = 0; i < made[t]; ++i) SIM_CHECK(holds_pattern(store, FileKey::of(t, 0, i), 4096));
  }
}

SIM_TEST_WITH(FlatStoreSim, LosesNothingWhenAWriteFailsOnce, (sim::Options{.schedules = 250})) {
  FlatHarness harness(kSmall);
  harness.format();
  FlatStore& store = *harness.store_;
  harness.device_->add({.op = IoOp::kWrite, .first = 0, .count = 1});
  const FileKey key = FileKey::of(0, 0, 0);
  Thread writer("write", [&store, key] { SIM_CHECK(put_file(store, key, 9'000).has_value()); });
  Thread syncer("sync", [&store] { (void)store.sync(); });
  writer.join();
  syncer.join();
  (void)store.sync();  // whichever of the two meets the failure
  harness.settle();
  SIM_CHECK(holds_pattern(store, key, 9'000));
}

}  // namespace
}  // namespace tidewheel
