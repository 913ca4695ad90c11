#include "inode/lab/cache_model.h"

#include <algorithm>
#include <cstddef>
#include <list>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/assert.h"
#include "base/config.h"

namespace tidewheel::lab {

namespace {

struct Entry {
  std::uint64_t page = 0;
  bool referenced = false;
  bool active = false;  // two-list
};
using Queue = std::list<Entry>;  // the front is newest

class QueueModel : public CacheModel {
 public:
  explicit QueueModel(std::uint64_t capacity) : capacity_(capacity) {}
  bool access(std::uint64_t page) final {
    const auto found = where_.find(page);
    if (found != where_.end()) {
      hit(found->second);
      return true;
    }
    if (where_.size() == capacity_) evict();
    queue_.push_front({page, false, false});
    where_[page] = queue_.begin();
    return false;
  }

 protected:
  virtual void hit(Queue::iterator at) = 0;
  virtual void evict() = 0;
  void drop(Queue& from, Queue::iterator at) {
    where_.erase(at->page);
    from.erase(at);
  }
  Queue queue_;

 private:
  const std::uint64_t capacity_;
  std::unordered_map<std::uint64_t, Queue::iterator> where_;
};

class Fifo final : public QueueModel {
  using QueueModel::QueueModel;
  void hit(Queue::iterator) override {}
  void evict() override { drop(queue_, std::prev(queue_.end())); }
};

class Lru final : public QueueModel {
  using QueueModel::QueueModel;
  void hit(Queue::iterator at) override { queue_.splice(queue_.begin(), queue_, at); }
  void evict() override { drop(queue_, std::prev(queue_.end())); }
};

class SieveModel final : public QueueModel {
  using QueueModel::QueueModel;
  void hit(Queue::iterator at) override { at->referenced = true; }
  void evict() override {
    auto at = has_hand_ ? hand_ : std::prev(queue_.end());
    while (at->referenced) {
      at->referenced = false;
      at = at == queue_.begin() ? std::prev(queue_.end()) : std::prev(at);
    }
    has_hand_ = at != queue_.begin();
    if (has_hand_) hand_ = std::prev(at);
    drop(queue_, at);
  }
  Queue::iterator hand_;
  bool has_hand_ = false;  // without: at the oldest
};

class TwoListModel final : public QueueModel {
  using QueueModel::QueueModel;
  void hit(Queue::iterator at) override { at->referenced = true; }
  void evict() override {
    for (;;) {
      while (active_.size() > queue_.size()) {
        const auto last = std::prev(active_.end());
        Queue& to = last->referenced ? active_ : queue_;
        last->referenced = false;
        last->active = &to == &active_;
        to.splice(to.begin(), active_, last);
      }
      const auto last = std::prev(queue_.end());
      if (!last->referenced) return drop(queue_, last);
      last->referenced = false;
      last->active = true;
      active_.splice(active_.begin(), queue_, last);
    }
  }
  Queue active_;
};

// Beside the one queue that the others have: a second one, and pages that are remembered.
class S3FifoModel final : public CacheModel {
 public:
  explicit S3FifoModel(std::uint64_t capacity)
      : capacity_(capacity), small_most_(std::max<std::uint64_t>(capacity / 10, 1)) {}
  bool access(std::uint64_t page) override {
    if (const auto found = where_.find(page); found != where_.end()) {
      found->second->uses = std::min(found->second->uses + 1, 3);
      return true;
    }
    if (where_.size() == capacity_) evict();
    std::list<Used>& to = remembered_.erase(page) != 0 ? main_ : small_;
    to.push_front({page, 0});
    where_[page] = to.begin();
    return false;
  }

 private:
  struct Used {
    std::uint64_t page = 0;
    int uses = 0;
  };
  void evict() {
    for (;;) {
      if (!small_.empty() && (main_.empty() || small_.size() >= small_most_)) {
        const auto last = std::prev(small_.end());
        if (last->uses < 2) return forget(last);
        last->uses = 0;
        main_.splice(main_.begin(), small_, last);
      } else {
        const auto last = std::prev(main_.end());
        if (last->uses == 0) {
          where_.erase(last->page);
          main_.erase(last);
          return;
        }
        --last->uses;
        main_.splice(main_.begin(), main_, last);
      }
    }
  }
  void forget(std::list<Used>::iterator at) {
    where_.erase(at->page);
    remembered_.insert(at->page);
    left_.push_back(at->page);
    if (left_.size() > capacity_ - small_most_) {
      remembered_.erase(left_.front());
      left_.pop_front();
    }
    small_.erase(at);
  }
  const std::uint64_t capacity_;
  const std::uint64_t small_most_;
  std::list<Used> small_, main_;  // the fronts are newest
  std::unordered_map<std::uint64_t, std::list<Used>::iterator> where_;
  std::list<std::uint64_t> left_;  // the ghost, oldest first
  std::unordered_set<std::uint64_t> remembered_;
};

}  // namespace

std::unique_ptr<CacheModel> make_cache_model(std::string_view name, std::uint64_t capacity) {
  if (capacity == 0) return nullptr;
  if (name == "sieve") return std::make_unique<SieveModel>(capacity);
  if (name == "two-list") return std::make_unique<TwoListModel>(capacity);
  if (name == "s3-fifo") return std::make_unique<S3FifoModel>(capacity);
  if (name == "lru") return std::make_unique<Lru>(capacity);
  if (name == "fifo") return std::make_unique<Fifo>(capacity);
  return nullptr;
}

// ---- the real policy ----

PolicyCache::PolicyCache(std::unique_ptr<ReclaimPolicy> policy, std::uint64_t capacity, Spread spread)
    : policy_(std::move(policy)), capacity_(capacity), spread_(spread) {
  TW_ASSERT(policy_ != nullptr && capacity_ != 0, "a cache with no policy, or no room");
}

PolicyCache::~PolicyCache() {
  for (auto& [page, item] : items_) policy_->remove(item->lru);
}

bool PolicyCache::access(std::uint64_t page) {
  if (const auto found = items_.find(page); found != items_.end()) {
    found->second->lru.touch();
    return true;
  }
  while (items_.size() >= capacity_) {
    LruItem* victim = nullptr;
    if (policy_->isolate(std::span(&victim, 1)) == 0) continue;  // cleared what it looked at
    policy_->put_back(*victim, LruVerdict::kEvicted);
    static_assert(offsetof(Item, lru) == 0);
    items_.erase(reinterpret_cast<Item*>(victim)->page);
  }
  auto item = std::make_unique<Item>();
  item->page = page;
  item->lru.identity = reclaim_identity(page, 0);
  if (spread_ == Spread::kAllShards) item->lru.shard = static_cast<std::uint8_t>(next_shard_++ % kLruShards);
  LruItem* listed = &item->lru;
  items_[page] = std::move(item);
  policy_->insert(std::span(&listed, 1));
  return false;
}

// ---- patterns ----

std::vector<std::uint64_t> pages_of(std::span<const Access> accesses) {
  std::vector<std::uint64_t> pages;
  std::unordered_map<std::uint64_t, std::unordered_map<std::uint64_t, std::uint64_t>> numbers;
  std::uint64_t next = 0;
  for (const Access& a : accesses) {
    auto& of_file = numbers[a.inode];
    for (std::uint64_t index = a.offset / kPageBytes; index * kPageBytes < a.offset + a.length; ++index) {
      const auto [at, fresh] = of_file.try_emplace(index, next);
      if (fresh) ++next;
      pages.push_back(at->second);
    }
  }
  return pages;
}

double hit_ratio(CacheModel& cache, std::span<const std::uint64_t> pages) {
  std::uint64_t hits = 0;
  for (const std::uint64_t page : pages) hits += cache.access(page) ? 1 : 0;
  return pages.empty() ? 0 : static_cast<double>(hits) / static_cast<double>(pages.size());
}

double best_hit_ratio(std::span<const std::uint64_t> pages, std::uint64_t capacity) {
  // When each access's page is needed next.
  constexpr std::size_t kNever = SIZE_MAX;
  std::vector<std::size_t> next(pages.size(), kNever);
  std::unordered_map<std::uint64_t, std::size_t> seen;
  for (std::size_t i = pages.size(); i-- > 0;) {
    if (const auto later = seen.find(pages[i]); later != seen.end()) next[i] = later->second;
    seen[pages[i]] = i;
  }
  std::set<std::pair<std::size_t, std::uint64_t>> by_next;  // of what is cached
  std::unordered_map<std::uint64_t, std::size_t> cached;
  std::uint64_t hits = 0;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    if (const auto there = cached.find(pages[i]); there != cached.end()) {
      ++hits;
      by_next.erase({there->second, pages[i]});
    } else if (cached.size() == capacity) {
      const auto last = std::prev(by_next.end());
      cached.erase(last->second);
      by_next.erase(last);
    }
    cached[pages[i]] = next[i];
    by_next.insert({next[i], pages[i]});
  }
  return pages.empty() ? 0 : static_cast<double>(hits) / static_cast<double>(pages.size());
}

}  // namespace tidewheel::lab
