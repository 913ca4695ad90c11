// inode/lab/cache_model.h: caches of a fixed number of pages as a textbook has them, to hold the real reclaim
// policies against; and the real policies in a cache as plain, without page cache, dirt or time.
// Owns:      its entries.
// Threads:   one.
// Units:     pages, by any number that names them.
// Source:    sieve: Zhang and others (NSDI 2024); s3-fifo: Yang and others (SOSP 2023); opt: Belady, "A study
//            of replacement algorithms" (1966).
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "inode/lab/access.h"
#include "inode/reclaim.h"

namespace tidewheel::lab {

class CacheModel {
 public:
  virtual ~CacheModel() = default;
  // True: it was there. It is afterwards, and never more than `capacity` are.
  virtual bool access(std::uint64_t page) = 0;
};

// "sieve", "two-list", "s3-fifo", "lru" or "fifo"; null: none of these, or a capacity of 0.
std::unique_ptr<CacheModel> make_cache_model(std::string_view name, std::uint64_t capacity);

// A registered reclaim policy with `capacity` items, all in one of its shards or spread over all.
class PolicyCache final : public CacheModel {
 public:
  enum class Spread : std::uint8_t { kOneShard, kAllShards };
  PolicyCache(std::unique_ptr<ReclaimPolicy> policy, std::uint64_t capacity, Spread spread);
  ~PolicyCache() override;
  bool access(std::uint64_t page) override;
  std::uint64_t size() const { return items_.size(); }

 private:
  struct Item {
    LruItem lru;  // first: the policy gives it back, and we need the page
    std::uint64_t page = 0;
  };
  const std::unique_ptr<ReclaimPolicy> policy_;
  const std::uint64_t capacity_;
  const Spread spread_;
  std::uint8_t next_shard_ = 0;
  std::unordered_map<std::uint64_t, std::unique_ptr<Item>> items_;
};

// The pages that accesses touch, in order; different files' pages have different numbers.
std::vector<std::uint64_t> pages_of(std::span<const Access> accesses);
double hit_ratio(CacheModel& cache, std::span<const std::uint64_t> pages);
// What no policy can exceed: it evicts what is needed last.
double best_hit_ratio(std::span<const std::uint64_t> pages, std::uint64_t capacity);

}  // namespace tidewheel::lab
