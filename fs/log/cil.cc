#include "fs/log/cil.h"

#include <algorithm>

#include "base/assert.h"
#include "base/thread.h"
#include "fs/format/log_format.h"

namespace tidewheel {
namespace {

LockClass context_class{"cil-context", LockRank::kCilContext};
LockClass shard_class{"cil-shard", LockRank::kCilShard};

constexpr std::int64_t kOpBytes = sizeof(disk::LogOp);
// Twice the commit operation: it is not cut, so as much may be left empty before it.
constexpr std::int64_t kStartAndCommitBytes =
    3 * kOpBytes + std::int64_t{sizeof(disk::LogCheckpoint)} + 2 * std::int64_t{sizeof(disk::LogCommit)};

}  // namespace

// Records are filled to the last byte but 12, where no further operation fits; a region that is cut needs one
// more operation; the last record is filled up to the write unit.
std::uint64_t RecordCosts::most_bytes(std::uint64_t operations_bytes) const {
  const std::uint64_t usable = payload_bytes - 2 * kOpBytes;
  const std::uint64_t all = operations_bytes + kStartAndCommitBytes;
  const std::uint64_t records = all / usable + 1;
  return all + records * (header_bytes + 2 * kOpBytes) + disk::kLogWriteUnitBytes;
}

Cil::Shard::Shard() : lock(shard_class) {}

Cil::Cil(const RecordCosts& costs, std::uint64_t soft_bytes, std::uint64_t first_sequence)
    : costs_(costs),
      soft_bytes_(static_cast<std::int64_t>(soft_bytes)),
      count_step_(soft_bytes_ / 64),
      context_lock_(context_class),
      open_sequence_(first_sequence) {}

Cil::~Cil() { TW_ASSERT(!used_.load(std::memory_order_relaxed), "the CIL ends with items in it"); }

// Images and places, before any lock of the CIL: memory that is short is won back by writing, which may need
// the switch.
void Cil::prepare(std::span<LogItem* const> items) {
  for (LogItem* const item : items) {
    const LogItem::LogSize size = item->size();
    const std::uint32_t bytes = size.bytes + size.regions * LogVectorWriter::kOpBytes;
    if (item->shadow == nullptr || item->shadow->capacity < bytes) {
      // Rounded up, so that an item that grows a little does not allocate each time.
      item->shadow = std::make_unique<LogImage>((bytes + 127) / 128 * 128);
    }
    if (item->spare == nullptr) item->spare = std::make_unique<CilEntry>();
    LogVectorWriter writer(*item->shadow);
    item->format(writer);
  }
}

std::int64_t Cil::enter_items(std::span<LogItem* const> items, std::uint64_t sequence, Entries& fresh,
                              CilStats& counted) {
  // After everything that was committed before: an intent stands before what says that it is done.
  std::uint64_t order = next_order_.fetch_add(items.size(), std::memory_order_relaxed);
  std::int64_t grown = 0;
  for (LogItem* const item : items) {
    LogItem* const intent = item->intent();
    if (intent != nullptr && intent->checkpoint == sequence) {
      // Both would be in this checkpoint: recovery needs to know of neither.
      intent->entry->whiteout = true;
      grown -= intent->entry->image->used;
      ++counted.whiteouts;
      continue;
    }
    const std::uint32_t used = item->shadow->used;
    counted.operation_bytes += used;
    ++counted.items;
    if (item->checkpoint == sequence) {
      CilEntry& entry = *item->entry;
      grown += std::int64_t{used} - entry.image->used;
      entry.image.swap(item->shadow);
      entry.order = order++;
      ++counted.relogs;
      continue;
    }
    CilEntry* const entry = item->spare.release();
    entry->item = item;
    entry->order = order++;
    entry->image = std::move(item->shadow);
    fresh.push_back(*entry);
    item->entry = entry;
    item->checkpoint = sequence;
    item->pin();
    grown += used;
  }
  return grown;
}

// Answers the log space that the shard needs from now on.
std::int64_t Cil::enter_shard(Entries& fresh, std::int64_t grown, const CilStats& counted) {
  Shard& shard = shards_[(current_cpu() * 4 + thread_number()) % kShards];
  MutexLock hold(shard.lock);
  shard.entries.splice(shard.entries.end(), fresh);
  shard.bytes += grown;
  shard.stats.commits += 1;
  shard.stats.items += counted.items;
  shard.stats.relogs += counted.relogs;
  shard.stats.whiteouts += counted.whiteouts;
  shard.stats.operation_bytes += counted.operation_bytes;
  const std::int64_t uncounted = shard.bytes - shard.counted_bytes;
  if (uncounted >= count_step_ || uncounted <= -count_step_) {
    shard.counted_bytes = shard.bytes;
    bytes_.fetch_add(uncounted, std::memory_order_relaxed);
  }
  // What was granted once stays: a checkpoint that shrinks gives back when it is written.
  const auto bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(shard.bytes, 0));
  const auto needed = static_cast<std::int64_t>(costs_.most_bytes(bytes));
  const std::int64_t more = std::max<std::int64_t>(needed - shard.granted_bytes, 0);
  shard.granted_bytes += more;
  return more;
}

Cil::Committed Cil::commit(std::span<LogItem* const> items, LogTicket& ticket) noexcept {
  prepare(items);
  Committed committed;
  Entries fresh;
  CilStats counted;
  {
    ReaderLock context(context_lock_);
    committed.sequence = open_sequence_.load(std::memory_order_relaxed);
    const std::int64_t grown = enter_items(items, committed.sequence, fresh, counted);
    const std::int64_t more = enter_shard(fresh, grown, counted);
    ticket.available_bytes -= more;
    TW_ASSERT(ticket.available_bytes >= 0, "a transaction logs more than it reserved");
    if (!used_.load(std::memory_order_relaxed)) used_.store(true, std::memory_order_relaxed);
    // Before the context is given up: its checkpoint must not be written, and its items unpinned, while they
    // look locked.
    for (LogItem* const item : items) {
      LogItem* const intent = item->intent();
      if (intent != nullptr && item->checkpoint != committed.sequence) {
        item->release();
      } else {
        item->committing(committed.sequence);
      }
    }
  }
  const std::int64_t bytes = bytes_.load(std::memory_order_relaxed);
  if (bytes >= 2 * soft_bytes_) {
    committed.fill = Fill::kHard;
  } else if (bytes >= soft_bytes_) {
    committed.fill = Fill::kSoft;
  }
  return committed;
}

std::unique_ptr<Checkpoint> Cil::close() {
  auto closed = std::make_unique<Checkpoint>();
  Entries all;
  {
    WriterLock context(context_lock_);
    if (!used_.load(std::memory_order_relaxed)) return nullptr;
    closed->sequence = open_sequence_.load(std::memory_order_relaxed);
    for (Shard& shard : shards_) {
      MutexLock hold(shard.lock);
      all.splice(all.end(), shard.entries);
      closed->granted_bytes += shard.granted_bytes;
      shard.bytes = shard.counted_bytes = shard.granted_bytes = 0;
    }
    bytes_.store(0, std::memory_order_relaxed);
    used_.store(false, std::memory_order_relaxed);
    open_sequence_.store(closed->sequence + 1, std::memory_order_release);
  }
  while (!all.empty()) {
    CilEntry& entry = all.front();
    all.pop_front();
    closed->entries.emplace_back(&entry);
  }
  std::sort(closed->entries.begin(), closed->entries.end(),
            [](const auto& a, const auto& b) { return a->order < b->order; });
  return closed;
}

std::uint64_t Cil::used_sequence() const {
  const std::uint64_t open = open_sequence_.load(std::memory_order_relaxed);
  return used_.load(std::memory_order_relaxed) ? open : open - 1;
}

std::uint64_t Cil::last_used_sequence() const {
  ReaderLock context(context_lock_);
  return used_sequence();
}

std::uint64_t Cil::settled_sequence() const {
  WriterLock context(context_lock_);
  return used_sequence();
}

CilStats Cil::stats() const {
  CilStats total;
  for (const Shard& shard : shards_) {
    MutexLock hold(shard.lock);
    total.commits += shard.stats.commits;
    total.items += shard.stats.items;
    total.relogs += shard.stats.relogs;
    total.whiteouts += shard.stats.whiteouts;
    total.operation_bytes += shard.stats.operation_bytes;
  }
  return total;
}

}  // namespace tidewheel
