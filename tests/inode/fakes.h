// tests/inode/fakes.h: a store that keeps pages in a map, and an engine of forty lines: one list under one
// lock, written on request or by a thread. Both count what they are told.
#pragma once
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/sync.h"
#include "base/thread.h"
#include "inode/inode_cache.h"

namespace tidewheel::inode_test {

inline LockClass fake_class{"test.inode_fake", LockRank::kNone};

class FakeStore final : public InodeSource {
 public:
  struct File {
    std::uint64_t size = 0;
    std::map<std::uint64_t, std::array<std::byte, kPageBytes>> pages;
  };

  Result<void> load(Inode& inode) override {
    MutexLock lock(mutex_);
    ++loads;
    if (fail_loads) return TW_FAIL(kIo);
    auto file = files_.find(inode.number());
    if (file == files_.end()) return TW_FAIL(kNotFound);
    inode.set_size(file->second.size);
    inode.set_context(0);
    return {};
  }
  Result<void> read_pages(Inode& inode, std::uint64_t first, std::span<Page* const> pages) override {
    const std::uint64_t size = inode.size();
    // Until the data is in, nobody may see what the pages' memory holds.
    for (const Page* page : pages) std::memset(page->data, 0xEE, kPageBytes);
    MutexLock lock(mutex_);
    ++reads;
    if (fail_reads) return TW_FAIL(kIo);
    const File& file = files_[inode.number()];
    for (std::size_t i = 0; i < pages.size(); ++i) {
      auto page = file.pages.find(first + i);
      if (page == file.pages.end()) {
        std::memset(pages[i]->data, 0, kPageBytes);
      } else {
        std::memcpy(pages[i]->data, page->second.data(), kPageBytes);
      }
      const std::uint64_t start = (first + i) * kPageBytes;
      const std::uint64_t end = size > start ? std::min<std::uint64_t>(size - start, kPageBytes) : 0;
      std::memset(pages[i]->data + end, 0, kPageBytes - end);
    }
    return {};
  }
  void truncate(Inode& inode, std::uint64_t new_size) override {
    MutexLock lock(mutex_);
    auto& pages = files_[inode.number()].pages;
    pages.erase(pages.lower_bound((new_size + kPageBytes - 1) / kPageBytes), pages.end());
  }
  void evict(Inode&) override {
    MutexLock lock(mutex_);
    ++evictions;
  }
  void inactivate(Inode& inode) override {
    if (on_inactivate) on_inactivate();
    MutexLock lock(mutex_);
    ++inactivations;
    files_.erase(inode.number());
  }

  void put(Inode& inode, std::span<Page* const> pages) {
    MutexLock lock(mutex_);
    File& file = files_[inode.number()];
    file.size = inode.size();
    for (const Page* page : pages) std::memcpy(file.pages[page->index].data(), page->data, kPageBytes);
  }
  void add(InodeNumber number, std::uint64_t size) {
    MutexLock lock(mutex_);
    files_[number].size = size;
  }
  bool has(InodeNumber number) {
    MutexLock lock(mutex_);
    return files_.count(number) != 0;
  }

  // Set before threads start; counts are read at rest.
  bool fail_loads = false, fail_reads = false;
  std::function<void()> on_inactivate;
  int loads = 0, reads = 0, evictions = 0, inactivations = 0;

 private:
  Mutex mutex_{fake_class};
  std::map<InodeNumber, File> files_;
};

class FakeEngine final : public DirtySink {
 public:
  explicit FakeEngine(FakeStore& store) : store_(&store) {}
  ~FakeEngine() override { stop(); }
  void set_cache(InodeCache& cache) { cache_ = &cache; }

  Result<DirtyTicket> balance_dirty_pages(Inode&, std::uint64_t bytes, TaskThrottle*) override {
    if (refuse) return TW_FAIL(kShutDown);
    DirtyTicket ticket;
    ticket.bytes = std::min(bytes, grant_at_most);
    return ticket;
  }
  void mark_dirty(Inode& inode, std::uint32_t classes, Instant, DirtyTicket*) override {
    if (inode.covers(classes)) return;
    MutexLock lock(mutex_);
    const DirtyState state = inode.state();  // every transition here is under mutex_
    inode.state_.store(
        state.clean() ? DirtyState(DirtyPhase::kListed, classes, 0).word() : state.word() | classes,
        std::memory_order_seq_cst);
    if (state.clean()) {
      listed_.push_back(&inode);
      changed_.notify_all();
    }
  }
  void account_dirtied(Inode&, std::uint64_t bytes, DirtyTicket*) override { dirty.add(std::int64_t(bytes)); }
  void account_writeback_started(Inode&, std::uint64_t bytes) override {
    dirty.add(-std::int64_t(bytes));
    writeback.add(std::int64_t(bytes));
  }
  void account_cleaned(Inode&, std::uint64_t bytes) override { writeback.add(-std::int64_t(bytes)); }
  void account_redirtied(Inode&, std::uint64_t bytes) override {
    writeback.add(-std::int64_t(bytes));
    dirty.add(std::int64_t(bytes));
  }
  void account_cancelled(Inode&, std::uint64_t bytes) override { dirty.add(-std::int64_t(bytes)); }

  void cancel(Inode& inode) override {
    MutexLock lock(mutex_);
    while (inode.state().phase() == DirtyPhase::kWriting) changed_.wait(mutex_);
    if (inode.state().clean()) return;
    std::erase(listed_, &inode);
    inode.state_.store(0, std::memory_order_seq_cst);
  }
  bool request_writeback(std::uint64_t) override {
    MutexLock lock(mutex_);
    ++requests;
    wanted_ = true;
    changed_.notify_all();
    return !listed_.empty() || writing_ != 0;
  }

  // Writes the oldest; false: nothing is listed.
  bool write_one(bool ok = true) {
    Inode* inode = nullptr;
    {
      MutexLock lock(mutex_);
      if (listed_.empty()) return false;
      inode = listed_.front();
      listed_.pop_front();
      ++writing_;
      // Clears the class bits with a seq_cst RMW, as begin_write does.
      inode->state_.exchange(DirtyState(DirtyPhase::kWriting, 0, 0).word(), std::memory_order_seq_cst);
    }
    WritebackPages pages;
    cache_->pages().begin_writeback(*inode, pages, pages_per_write);
    if (ok) store_->put(*inode, pages.pages);
    const bool partial = pages.more || !ok;
    cache_->pages().end_writeback(*inode, pages.pages, ok);
    cache_->end_write(*inode);
    MutexLock lock(mutex_);
    --writing_;
    const DirtyState state = inode->state();
    if (partial || state.classes() != 0) {
      inode->state_.store(DirtyState(DirtyPhase::kListed, state.classes() | kDirtyData, 0).word(),
                          std::memory_order_seq_cst);
      listed_.push_back(inode);
    } else {
      inode->state_.store(0, std::memory_order_seq_cst);
    }
    changed_.notify_all();
    return true;
  }
  void write_all() {
    while (write_one()) {
    }
  }
  // A flusher that writes while asked to, until stop().
  void start(bool always) {
    flusher_ = Thread("fake-flusher", [this, always] {
      for (;;) {
        {
          MutexLock lock(mutex_);
          while (!stop_ && (listed_.empty() || !(always || wanted_))) changed_.wait(mutex_);
          if (stop_) return;
        }
        for (int i = 0; i < 64 && write_one(); ++i) {
        }
        MutexLock lock(mutex_);
        wanted_ = false;
      }
    });
  }
  void stop() {
    if (!flusher_.joinable()) return;
    {
      MutexLock lock(mutex_);
      stop_ = true;
      changed_.notify_all();
    }
    flusher_.join();
  }
  std::size_t listed() {
    MutexLock lock(mutex_);
    return listed_.size();
  }

  ShardedCounter dirty, writeback;  // bytes
  std::uint64_t grant_at_most = UINT64_MAX;
  std::uint32_t pages_per_write = UINT32_MAX;
  bool refuse = false;
  int requests = 0;

 private:
  FakeStore* store_;
  InodeCache* cache_ = nullptr;
  Mutex mutex_{fake_class};
  CondVar changed_;
  std::deque<Inode*> listed_;
  int writing_ = 0;
  bool stop_ = false;
  bool wanted_ = false;
  Thread flusher_;
};

struct WorldOptions {
  std::uint64_t budget_bytes = 64ULL << 20;
  std::uint64_t reserve_bytes = 0;
  std::uint32_t stripes = 64;
  std::string_view reclaim = "two-list";
};

// A cache with a fake on each side.
struct World {
  explicit World(const WorldOptions& options = {})
      : budget(options.budget_bytes, 0),
        engine(store),
        arena(PageArena::make(budget, {.max_bytes = std::max<std::uint64_t>(options.budget_bytes, 1U << 20),
                                       .reserve_bytes = options.reserve_bytes,
                                       .huge_pages = false})
                  .value()),
        pages(std::make_unique<PageCache>(
            *arena, engine, PageCacheOptions{.reclaim = options.reclaim, .stripes = options.stripes})),
        inodes(std::make_unique<InodeCache>(
            *pages, store, InodeCacheOptions{.memory_limit_bytes = 1 << 18, .reclaim = options.reclaim})) {
    engine.set_cache(*inodes);
  }
  ~World() {
    engine.stop();
    engine.write_all();
    inodes->check_invariants();
    inodes.reset();
    pages.reset();
    arena->check_invariants();
  }
  InodeHold create(InodeNumber number) { return std::move(inodes->create(number, 0).value()); }
  InodeHold get(InodeNumber number) { return std::move(inodes->get(number).value()); }

  MemoryBudget budget;
  FakeStore store;
  FakeEngine engine;
  std::unique_ptr<PageArena> arena;
  std::unique_ptr<PageCache> pages;
  std::unique_ptr<InodeCache> inodes;
};

inline std::vector<std::byte> bytes_of(std::size_t n, unsigned seed) {
  std::vector<std::byte> data(n);
  for (std::size_t i = 0; i < n; ++i) data[i] = static_cast<std::byte>((i * 31 + seed * 17 + i / 251) & 0xFF);
  return data;
}

}  // namespace tidewheel::inode_test
