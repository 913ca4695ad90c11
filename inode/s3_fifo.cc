// inode/s3_fifo.cc: `s3-fifo`: a small queue (a tenth of what is listed) that everything enters, a main queue
// for what was used at least twice while it was in the small one, and a ghost: what left the small queue of
// late. What the ghost knows enters the main queue at once. Both are first in, first out; in the main one an
// item goes around again once for each use, of which three count.
//
//   enter --> small --used twice or more--> main --used: around again, one use less--+
//     |         |                             ^ |                                    |
//     |      evicted --> ghost --enters again-+ +--unused: evicted        <----------+
//
// Source:   Yang, Zhang, Qiu, Yue, Rashmi, "FIFO queues are all you need for cache eviction" (SOSP 2023);
//           inode/lab/cache_model.h has the same without shards and locks.
// Locks:    a hit takes none: three stores to the item at most between two looks, none from then on. The
//           ghost is the policy's, not a shard's (an item that comes back may come to another shard): it is
//           read and written without a lock: a load of up to 4 words when an item enters, an addition and a
//           store to shared lines when one leaves the small queue for good.
// Memory:   nothing per item (its identity and count lie in what was padding); the ghost has words of 8 bytes
//           for 2 to 4 times nine tenths of what is listed, so 16 to 32 bytes per item, plus as much again of
//           outgrown tables, which stay until the end: below 2% of pages of 4 KiB, outside the budget.
// Where it differs from its original: a tenth of what is listed in the shard now, not of a capacity (here
// nobody knows one); a ghost of buckets, in which a few entries are lost early, and all each time it grows.
#include <memory>
#include <new>

#include "inode/reclaim_order.h"
#include "inode/reclaim_policies.h"

namespace tidewheel {

namespace {

// Remembers identities by 32 bits of hash; every word is a hint, so that what threads overwrite of each other
// costs a hit ratio nothing that could be measured. 0 is nobody's identity.
class Ghost {
 public:
  Ghost() { grow(nullptr, kFirstBuckets); }
  ~Ghost() {
    Table* table = table_.load(std::memory_order_relaxed);
    while (table != nullptr) delete std::exchange(table, table->outgrown.release());
  }
  Ghost(const Ghost&) = delete;
  Ghost& operator=(const Ghost&) = delete;

  // Whether it left within the window; it is forgotten then.
  bool take(std::uint32_t identity) {
    Table* table = table_.load(std::memory_order_acquire);  // pairs with the exchange in grow()
    if (identity == 0 || table == nullptr) return false;
    const std::uint32_t now = evictions_.load(std::memory_order_relaxed);
    for (Word& word : table->bucket_of(identity)) {
      const std::uint64_t entry = word.load(std::memory_order_relaxed);
      if (identity_of(entry) != identity) continue;
      word.store(0, std::memory_order_relaxed);
      return now - time_of(entry) <= window_.load(std::memory_order_relaxed);
    }
    return false;
  }

  // `change`: by how much the caller's shard is longer than when it called last.
  void add(std::uint32_t identity, std::int64_t change) {
    const auto window = static_cast<std::uint64_t>(
        items_.fetch_add(change, std::memory_order_relaxed) + change) * 9 / 10;
    window_.store(static_cast<std::uint32_t>(window), std::memory_order_relaxed);
    Table* table = table_.load(std::memory_order_acquire);
    if (table != nullptr && window * 2 > table->words()) table = grow(table, table->buckets * 2);
    if (identity == 0 || table == nullptr) return;
    const std::uint32_t now = evictions_.fetch_add(1, std::memory_order_relaxed) + 1;
    Word* oldest = nullptr;
    std::uint32_t oldest_age = 0;
    for (Word& word : table->bucket_of(identity)) {
      const std::uint64_t entry = word.load(std::memory_order_relaxed);
      const std::uint32_t age = identity_of(entry) == 0 ? UINT32_MAX : now - time_of(entry);
      if (oldest != nullptr && age <= oldest_age) continue;
      oldest = &word;
      oldest_age = age;
    }
    oldest->store(std::uint64_t{identity} << 32 | now, std::memory_order_relaxed);
  }

 private:
  using Word = Atomic<std::uint64_t>;  // identity:32 | when it left, in evictions:32; relaxed: a hint
  static constexpr std::uint64_t kWays = 4;
  static constexpr std::uint64_t kFirstBuckets = 1024;  // 32 KiB
  struct Table {
    std::uint64_t buckets = 0;  // a power of two
    std::unique_ptr<Word[]> all;
    std::unique_ptr<Table> outgrown;
    std::uint64_t words() const { return buckets * kWays; }
    std::span<Word> bucket_of(std::uint32_t identity) {
      return {&all[(identity & (buckets - 1)) * kWays], kWays};
    }
  };
  static std::uint32_t identity_of(std::uint64_t entry) { return static_cast<std::uint32_t>(entry >> 32); }
  static std::uint32_t time_of(std::uint64_t entry) { return static_cast<std::uint32_t>(entry); }

  // Answers the table in force. Without memory the old one stays, and remembers less than the window.
  Table* grow(Table* seen, std::uint64_t buckets) {
    std::unique_ptr<Table> larger(new (std::nothrow) Table);
    if (larger == nullptr) return seen;
    larger->all.reset(new (std::nothrow) Word[buckets * kWays]());
    if (larger->all == nullptr) return seen;
    larger->buckets = buckets;
    // Others may be using the old one: it stays, behind the new one.
    larger->outgrown.reset(seen);
    Table* expected = seen;
    if (table_.compare_exchange(expected, larger.get(), std::memory_order_acq_rel)) return larger.release();
    larger->outgrown.release();
    return expected;  // another shard's was first
  }

  Atomic<Table*> table_{nullptr};
  Atomic<std::uint32_t> evictions_{0};
  Atomic<std::uint32_t> window_{0};
  Atomic<std::int64_t> items_{0};  // of all shards, as each last told
};

class S3Fifo final : public ReclaimOrder {
 public:
  explicit S3Fifo(std::shared_ptr<Ghost> ghost) : ghost_(std::move(ghost)) {}

  // What had been in main (it was busy, or dirty, when its turn came) goes there again.
  void enter(LruItem& item) override {
    if (item.note != kMain && !ghost_->take(item.identity)) return make_newest(item, LruPlace::kInactive);
    item.note = kMain;
    make_newest(item, LruPlace::kActive);
  }
  LruItem* look() override {
    if (inactive() != 0 && (active() == 0 || inactive() * kSmallPart >= listed())) {
      LruItem& item = oldest();
      if (item.referenced.load(std::memory_order_relaxed) < 2) return &item;
      item.referenced.store(0, std::memory_order_relaxed);
      item.note = kMain;
      count_rescued();
      make_newest(item, LruPlace::kActive);
      return nullptr;
    }
    LruItem& item = oldest_active();
    const std::uint8_t uses = item.referenced.load(std::memory_order_relaxed);
    if (uses == 0) return &item;
    item.referenced.store(static_cast<std::uint8_t>(uses - 1), std::memory_order_relaxed);
    count_rescued();
    make_newest(item, LruPlace::kActive);
    return nullptr;
  }
  void evicted(LruItem& item) override {
    const bool was_main = std::exchange(item.note, 0) == kMain;
    if (was_main) return;
    const auto length = static_cast<std::int64_t>(listed());
    ghost_->add(item.identity, length - told_);
    told_ = length;
  }

 private:
  static constexpr std::uint8_t kMain = 1;  // LruItem::note
  static constexpr std::uint64_t kSmallPart = 10;
  const std::shared_ptr<Ghost> ghost_;
  std::int64_t told_ = 0;  // listed(), as the ghost knows it
};

}  // namespace

std::unique_ptr<ReclaimPolicy> make_s3_fifo() {
  const auto ghost = std::make_shared<Ghost>();
  return make_sharded_reclaim("s3-fifo", [ghost] { return std::make_unique<S3Fifo>(ghost); });
}

}  // namespace tidewheel
