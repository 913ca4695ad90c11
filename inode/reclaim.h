// inode/reclaim.h: which pages and inodes leave memory first. Policies stand behind one interface.
// Owns:      nothing; items belong to their cache. Two-list LRU is the default ("two-list"); "sieve" and
//            "s3-fifo" beside it, and what a program registers. How to write one: reclaim_order.h,
//            docs/experiments.md.
// Threads:   every method is thread-safe.
// Locks:     the policy's shard locks (rank kLru): at most kReclaimScan items are looked at per hold.
//            A hit takes none: it sets LruItem::referenced.
// Invariant: an item is freed only while it is on no list and not isolated. remove() of an isolated item
//            dooms it: the reclaimer that isolated it then frees it, after put_back() told so.
//
//   off --insert--> listed --isolate--> isolated --put_back(kKeep)--> listed
//    ^                |                   |  |
//    +----remove------+                   |  +--put_back(kOff)--> off (listed, if insert() came meanwhile)
//    +---------- put_back, doomed --------+
//
// Rejected: dirty pages on the lists. Reclaim would walk over them; they join when they become clean.
#pragma once
#include <boost/intrusive/list_hook.hpp>
#include <boost/intrusive/options.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/atomic.h"

namespace tidewheel {

enum class LruPlace : std::uint8_t { kOff, kInactive, kActive, kIsolated, kIsolatedWanted, kDoomed };

struct LruItem {
  using Hook =
      boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::safe_link>>;
  Hook hook;                            // shard lock
  Atomic<std::uint8_t> referenced{0};   // relaxed: a hint: uses, counted by hits, taken by the policy
  Atomic<std::uint8_t> place_{0};       // LruPlace; written under the shard lock, peeked at without
  std::uint8_t shard = 0;               // constant from construction on
  std::uint8_t note = 0;                // shard lock: the policy's own; 0 in a new use of the memory
  std::uint32_t identity = 0;           // a hash of what it is, for policies that remember; 0: none

  static constexpr std::uint8_t kMostUses = 3;  // counted; two threads at once may count as one
  // Nothing is stored once there are as many: hits on one item don't pull its line between CPUs.
  void touch() {
    const std::uint8_t uses = referenced.load(std::memory_order_relaxed);
    if (uses < kMostUses) referenced.store(static_cast<std::uint8_t>(uses + 1), std::memory_order_relaxed);
  }
  void forget() {  // off every list: the memory is used for something else from here on
    referenced.store(0, std::memory_order_relaxed);
    note = 0;
  }
  LruPlace place() const { return static_cast<LruPlace>(place_.load(std::memory_order_relaxed)); }
  // May be stale at once. True for an item that a reclaimer will look at again without our help.
  bool listed() const { return place() == LruPlace::kInactive || place() == LruPlace::kActive; }
};

inline constexpr std::uint32_t kLruShards = 16;
inline constexpr std::uint32_t kReclaimScan = 32;
// An item that nobody uses is answered at the latest when it is looked at for this time: s3-fifo moves it
// once and takes kMostUses, one by one.
inline constexpr std::uint32_t kMostReclaimLooks = LruItem::kMostUses + 2;

// A hash of two numbers that are an item's identity, never 0.
inline std::uint32_t reclaim_identity(std::uint64_t owner, std::uint64_t index) {
  const std::uint64_t mixed = (owner * 0x9E3779B97F4A7C15ULL ^ index) * 0xBF58476D1CE4E5B9ULL;
  return static_cast<std::uint32_t>(mixed >> 32) | 1U;
}

enum class LruVerdict : std::uint8_t {
  kKeep,     // busy or under I/O: goes back, to be looked at again
  kOff,      // dirty: comes back by insert(), which may have been called already
  kEvicted,  // taken from its cache by the reclaimer, who frees it now
};
enum class LruPutBack : std::uint8_t { kDone, kDoomed };

struct ReclaimCounts {
  std::uint64_t listed = 0;   // on the lists now
  std::uint64_t active = 0;   // of these, protected
  std::uint64_t isolated = 0;  // ever isolated
  std::uint64_t rescued = 0;  // found referenced when their turn came
};

class ReclaimPolicy {
 public:
  virtual ~ReclaimPolicy() = default;  // asserts that its lists are empty
  virtual std::string_view name() const = 0;

  // Items became clean and reclaimable. Nothing happens to those already listed.
  virtual void insert(std::span<LruItem* const> items) = 0;
  // The item is to be freed by the caller. False: a reclaimer has it isolated and will free it instead.
  virtual bool remove(LruItem& item) = 0;
  // Takes up to out.size() items, coldest first. 0: nothing is listed, or all was referenced (ask again:
  // each call clears what it looked at, so at most a few calls return 0 while something is listed).
  virtual std::size_t isolate(std::span<LruItem*> out) = 0;
  virtual LruPutBack put_back(LruItem& item, LruVerdict verdict) = 0;

  virtual ReclaimCounts counts() const = 0;
};

// The registry of policies: two-list (the default), sieve, s3-fifo, and what a program registers.
struct ReclaimPolicyKind {
  std::string name;
  std::string summary;
  std::function<std::unique_ptr<ReclaimPolicy>()> make = nullptr;
};
const std::vector<ReclaimPolicyKind>& reclaim_policies();
std::unique_ptr<ReclaimPolicy> make_reclaim_policy(std::string_view name);  // null: no such policy
// Before threads start. False: the name is taken, or the row is incomplete.
bool register_reclaim_policy(ReclaimPolicyKind kind);

}  // namespace tidewheel
