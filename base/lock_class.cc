#include "base/lock_class.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "base/clock.h"
#include "base/thread_state.h"

namespace tidewheel {

namespace {

struct ClassTable {
  std::mutex mutex;
  std::vector<LockClass*> classes;
};
ClassTable& class_table() {
  static ClassTable* const table = new ClassTable;  // outlives every lock, also static ones
  return *table;
}

}  // namespace

void LockClass::add_lock(std::atomic<std::uint64_t>& acquisitions, std::uint32_t& index) {
  if (counting_ == LockCounting::kClassOnly && class_only_listed_.load(std::memory_order_relaxed)) return;
  bool first = false;
  {
    const std::lock_guard guard(mutex_);
    first = !listed_;
    listed_ = true;
    if (counting_ == LockCounting::kPerLock) {
      if (locks_ == nullptr) locks_ = new std::vector<Entry>;
      index = static_cast<std::uint32_t>(locks_->size());
      locks_->push_back(Entry{&acquisitions, &index});
    } else {
      class_only_listed_.store(true, std::memory_order_relaxed);
    }
  }
  if (!first) return;
  ClassTable& table = class_table();
  const std::lock_guard guard(table.mutex);
  table.classes.push_back(this);
}

void LockClass::remove_lock(std::atomic<std::uint64_t>& acquisitions, std::uint32_t& index) {
  const std::uint64_t count = acquisitions.load(std::memory_order_relaxed);
  if (counting_ == LockCounting::kClassOnly) {
    class_only_acquisitions_.fetch_add(count % kHoldSampling, std::memory_order_relaxed);
    return;
  }
  const std::lock_guard guard(mutex_);
  ended_acquisitions_ += count;
  Entry& gap = (*locks_)[index];
  gap = locks_->back();
  *gap.index = index;
  locks_->pop_back();
}

std::uint64_t LockClass::start_hold_sample() {
  if (counting_ == LockCounting::kClassOnly) {
    class_only_acquisitions_.fetch_add(kHoldSampling, std::memory_order_relaxed);
  }
  return sim::active() ? 0 : read_tsc() | 1;
}

void LockClass::end_hold_sample(std::uint64_t start_ticks) {
  const std::uint64_t end = read_tsc();
  const std::uint64_t ticks = end > start_ticks ? end - start_ticks : 0;
  hold_ticks_.fetch_add(ticks, std::memory_order_relaxed);
  holds_[HoldBuckets::index(ticks)].fetch_add(1, std::memory_order_relaxed);
}

std::uint64_t LockClass::acquisitions_locked() const {
  std::uint64_t sum = ended_acquisitions_ + class_only_acquisitions_.load(std::memory_order_relaxed);
  if (locks_ != nullptr) {
    for (const Entry& entry : *locks_) sum += entry.acquisitions->load(std::memory_order_relaxed);
  }
  return sum;
}

LockClassStats LockClass::stats() const {
  LockClassStats stats{.name = name_};
  {
    const std::lock_guard guard(mutex_);
    stats.acquisitions = acquisitions_locked() - reset_acquisitions_;
  }
  stats.contended = contended_.load(std::memory_order_relaxed);
  stats.wait_ns_total = wait_ns_.load(std::memory_order_relaxed);
  const double ns_per_tick = 1.0 / tsc_ticks_per_ns();
  const auto to_ns = [&](std::uint64_t ticks) {
    return static_cast<std::uint64_t>(std::llround(static_cast<double>(ticks) * ns_per_tick));
  };
  std::array<std::uint64_t, HoldBuckets::kBuckets> holds;
  for (std::size_t i = 0; i < holds.size(); ++i) {
    holds[i] = holds_[i].load(std::memory_order_relaxed);
    stats.hold_samples += holds[i];
  }
  stats.hold_ns_total = to_ns(hold_ticks_.load(std::memory_order_relaxed));
  const std::uint64_t wanted = stats.hold_samples - stats.hold_samples / 100;
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < holds.size() && seen < wanted; ++i) {
    seen += holds[i];
    if (seen >= wanted) stats.hold_ns_p99 = to_ns(HoldBuckets::upper(i));
  }
  return stats;
}

void LockClass::reset() {
  {
    const std::lock_guard guard(mutex_);
    reset_acquisitions_ = acquisitions_locked();
  }
  contended_.store(0, std::memory_order_relaxed);
  wait_ns_.store(0, std::memory_order_relaxed);
  hold_ticks_.store(0, std::memory_order_relaxed);
  for (auto& bucket : holds_) bucket.store(0, std::memory_order_relaxed);
}

std::vector<LockClassStats> lock_statistics() {
  std::vector<LockClass*> classes;
  {
    ClassTable& table = class_table();
    const std::lock_guard guard(table.mutex);
    classes = table.classes;
  }
  std::vector<LockClassStats> all;
  all.reserve(classes.size());
  for (const LockClass* lock_class : classes) all.push_back(lock_class->stats());
  std::sort(all.begin(), all.end(), [](const LockClassStats& a, const LockClassStats& b) {
    return std::string_view(a.name) < std::string_view(b.name);
  });
  std::vector<LockClassStats> merged;
  for (const LockClassStats& stats : all) {
    if (merged.empty() || std::string_view(merged.back().name) != stats.name) {
      merged.push_back(stats);
      continue;
    }
    LockClassStats& into = merged.back();
    into.acquisitions += stats.acquisitions;
    into.contended += stats.contended;
    into.wait_ns_total += stats.wait_ns_total;
    into.hold_ns_total += stats.hold_ns_total;
    into.hold_samples += stats.hold_samples;
    into.hold_ns_p99 = std::max(into.hold_ns_p99, stats.hold_ns_p99);
  }
  return merged;
}

void reset_lock_statistics() {
  ClassTable& table = class_table();
  const std::lock_guard guard(table.mutex);
  for (LockClass* lock_class : table.classes) lock_class->reset();
}

}  // namespace tidewheel
