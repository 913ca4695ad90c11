#include "writeback/dirty_allowance.h"

namespace tidewheel {

// Raises the shared word by `wanted`, or by `least` when that is all there is room for.
bool DirtyAllowance::raise(std::int64_t least, std::int64_t wanted, std::int64_t& got) {
  std::int64_t now = charged_.load(std::memory_order_seq_cst);
  for (;;) {
    if (now > limit_ - least) return false;
    got = now <= limit_ - wanted ? wanted : least;
    if (charged_.compare_exchange(now, now + got, std::memory_order_seq_cst)) return true;
  }
}

bool DirtyAllowance::take(std::uint64_t bytes) {
  const auto need = static_cast<std::int64_t>(bytes);
  Atomic<std::int64_t>& credit = local_credit();
  std::int64_t have = credit.load(std::memory_order_seq_cst);
  while (have >= need) {
    if (credit.compare_exchange(have, have - need, std::memory_order_seq_cst)) return true;
  }
  std::int64_t got = 0;
  if (!raise(need, need + chunk_, got)) return false;
  if (got > need) credit.fetch_add(got - need, std::memory_order_seq_cst);
  return true;
}

std::int64_t DirtyAllowance::gather_credit() {
  std::int64_t gathered = 0;
  for (Shard& shard : shards_) {
    if (shard.credit.load(std::memory_order_seq_cst) > 0) {
      gathered += shard.credit.exchange(0, std::memory_order_seq_cst);
    }
  }
  return gathered;
}

bool DirtyAllowance::take_thoroughly(std::uint64_t bytes) {
  const auto need = static_cast<std::int64_t>(bytes);
  const std::int64_t gathered = gather_credit();
  if (gathered != 0) charged_.fetch_sub(gathered, std::memory_order_seq_cst);
  std::int64_t got = 0;
  return raise(need, need, got);
}

void DirtyAllowance::take_over(std::uint64_t bytes) {
  charged_.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_seq_cst);
}

void DirtyAllowance::give_back(std::uint64_t bytes) {
  const auto n = static_cast<std::int64_t>(bytes);
  if (n >= chunk_) {
    charged_.fetch_sub(n, std::memory_order_seq_cst);
    return;
  }
  Atomic<std::int64_t>& credit = local_credit();
  if (credit.fetch_add(n, std::memory_order_seq_cst) + n <= 2 * chunk_) return;
  const std::int64_t all = credit.exchange(0, std::memory_order_seq_cst);
  if (all != 0) charged_.fetch_sub(all, std::memory_order_seq_cst);
}

std::uint64_t DirtyAllowance::in_use() const {
  std::int64_t total = charged_.load(std::memory_order_seq_cst);
  for (const Shard& shard : shards_) total -= shard.credit.load(std::memory_order_seq_cst);
  return total < 0 ? 0 : static_cast<std::uint64_t>(total);
}

}  // namespace tidewheel
