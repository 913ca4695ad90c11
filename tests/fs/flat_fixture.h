// tests/fs/flat_fixture.h: a flat store on a RAM device that can be made to fail, with engine and budget.
#pragma once
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "base/thread.h"
#include "fs/block/faulty_device.h"
#include "fs/block/ram_device.h"
#include "fs/flat/flat_store.h"
#include "writeback/driver_thread.h"
#include "writeback/engine.h"

namespace tidewheel {

inline constexpr std::uint64_t kReserveBytes = 1ULL << 20;

struct FlatSetup {
  std::uint64_t device_bytes = 64ULL << 20;
  std::uint64_t memory_bytes = 32ULL << 20;
  std::uint64_t dirty_bytes = 16ULL << 20;
  std::uint32_t owners = 1;
  std::uint32_t flushers = 1;
  std::string design = "timer-wheel";
};

class FlatHarness {
 public:
  explicit FlatHarness(const FlatSetup& setup = {})
      : setup_(setup), budget_(setup.memory_bytes, kReserveBytes) {
    device_ = std::make_unique<FaultyDevice>(RamDevice::make(setup.device_bytes).value());
    start_engine();
  }
  ~FlatHarness() {
    store_.reset();
    engine_.reset();
    EXPECT_EQ(budget_.charged_bytes(), 0U) << "memory is still charged at the end";
  }
  void start_engine() {
    EngineOptions options;
    options.design = setup_.design;
    options.flushers = setup_.flushers;
    options.dirty_bytes = setup_.dirty_bytes;
    options.background_bytes = setup_.dirty_bytes / 2;
    options.retry_first = milliseconds(1);
    options.retry_longest = milliseconds(4);
    engine_ = WritebackEngine::make(options, std::make_unique<ThreadDriver>()).value();
  }
  FlatStoreOptions store_options() const {
    return {.memory_limit_bytes = setup_.memory_bytes, .owners = setup_.owners, .huge_pages = false};
  }
  void format() {
    auto store = FlatStore::format(*device_, *engine_, budget_, store_options());
    ASSERT_TRUE(store) << store.error().sentence();
    store_ = std::move(store).value();
  }
  Result<void> mount() {
    auto store = FlatStore::mount(*device_, *engine_, budget_, store_options());
    if (!store) return Unexpected(store.error());
    store_ = std::move(store).value();
    return {};
  }
  void settle() {
    EXPECT_TRUE(store_->sync());
    EXPECT_EQ(engine_->dirty_and_writeback_bytes(), 0U);
    store_->drop_caches();
    store_->check_invariants();
  }

  FlatSetup setup_;
  MemoryBudget budget_;
  std::unique_ptr<FaultyDevice> device_;
  std::unique_ptr<WritebackEngine> engine_;
  std::unique_ptr<FlatStore> store_;
};

// Bytes that say where they belong: of which file, and where in it.
inline std::byte pattern_byte(FileKey key, std::uint64_t offset, std::uint64_t version = 0) {
  std::uint64_t z = (key.value * 31 + (offset / 8)) * 0x9E3779B97F4A7C15ULL + version * 0xD1B54A32D192ED03ULL;
  z ^= z >> 29;
  return static_cast<std::byte>(z >> (8 * (offset % 8)));
}
inline std::vector<std::byte> pattern(FileKey key, std::uint64_t offset, std::uint64_t n,
                                      std::uint64_t version = 0) {
  std::vector<std::byte> bytes(n);
  for (std::uint64_t i = 0; i < n; ++i) bytes[i] = pattern_byte(key, offset + i, version);
  return bytes;
}
inline std::vector<std::byte> read_all(FlatStore& store, FlatFile& file) {
  std::vector<std::byte> bytes(file.size());
  const auto n = store.read(file, 0, bytes);
  EXPECT_TRUE(n) << n.error().sentence();
  if (n) {
    EXPECT_EQ(*n, bytes.size());
  }
  return bytes;
}
// How many files of one page fit: each takes its block and six words of the saved index, 510 words a block.
inline std::uint64_t one_page_files(FlatStore& store) { return store.stats().total_blocks * 510 / (510 + 6); }

inline void expect_contents(FlatStore& store, FlatFile& file, FileKey key, std::uint64_t size) {
  ASSERT_EQ(file.size(), size);
  ASSERT_TRUE(read_all(store, file) == pattern(key, 0, size)) << "file " << key.value;
}
inline void expect_pattern(FlatStore& store, FileKey key, std::uint64_t size, std::uint64_t version = 0) {
  auto file = store.open(key);
  ASSERT_TRUE(file) << "file " << key.value << ": " << file.error().sentence();
  ASSERT_EQ(file->size(), size);
  ASSERT_TRUE(read_all(store, *file) == pattern(key, 0, size, version)) << "file " << key.value;
}
inline Result<void> put_file(FlatStore& store, FileKey key, std::uint64_t size, std::uint64_t version = 0) {
  auto file = store.create(key);
  if (!file) return Unexpected(file.error());
  const auto bytes = pattern(key, 0, size, version);
  const auto n = store.write(*file, 0, bytes);
  if (!n) return Unexpected(n.error());
  if (*n != size) return TW_FAIL(kShortIo);
  return {};
}

}  // namespace tidewheel
