// inode/page_budget.h: what the page arena asks before memory becomes resident.
// Threads:   thread-safe. Called under arena locks (rank kArena): must not call back.
// Units:     bytes.
#pragma once
#include <cstdint>

#include "base/atomic.h"

namespace tidewheel {

class PageBudget {
 public:
  virtual ~PageBudget() = default;
  // False: the limit does not allow it; nothing is charged.
  virtual bool try_charge(std::uint64_t bytes) = 0;
  virtual void uncharge(std::uint64_t bytes) = 0;
};

// A limit of its own, for programs and tests without other consumers of memory.
class FixedPageBudget final : public PageBudget {
 public:
  explicit FixedPageBudget(std::uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  bool try_charge(std::uint64_t bytes) override {
    // Relaxed: only the sum matters, no data is published through it.
    std::uint64_t used = used_bytes_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_bytes_ || used > limit_bytes_ - bytes) return false;
    } while (!used_bytes_.compare_exchange(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void uncharge(std::uint64_t bytes) override { used_bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  std::uint64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }

 private:
  const std::uint64_t limit_bytes_;
  Atomic<std::uint64_t> used_bytes_{0};
};

}  // namespace tidewheel
