#include "fs/log/cil.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/thread.h"
#include "fs/format/log_format.h"

namespace tidewheel {
namespace {

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

Cil::Cil(const RecordCosts& costs, const CilLimits& limits, std::uint64_t first_sequence)
    : costs_(costs),
      soft_bytes_(static_cast<std::int64_t>(limits.soft_bytes)),
      count_step_(soft_bytes_ / 64),
      soft_memory_(static_cast<std::int64_t>(limits.soft_memory_bytes)),
      memory_step_(soft_memory_ / 64),
      open_sequence_(first_sequence) {}

Cil::~Cil() {
  TW_ASSERT(!used_.load(std::memory_order_relaxed), "the CIL ends with items in it");
  for (Shard& shard : shards_) {
    MutexLock hold(shard.lock);
    shard.spare_entries.clear_and_dispose([](CilEntry* entry) { delete entry; });
    for (LogImage*& first : shard.spare_images) {
      while (first != nullptr) {
        const LogImage::Owned image(std::exchange(first, first->next));
      }
    }
  }
}

// ---- commit ----

void Cil::measure(std::span<LogItem* const> items) {
  for (LogItem* const item : items) {
    const LogItem::LogSize size = item->size();
    item->next_bytes = size.bytes + size.regions * LogVectorWriter::kOpBytes;
  }
}

LogImage::Owned Cil::take_spare_locked(Shard& shard, std::uint32_t bytes) {
  const std::uint32_t number = LogImage::class_of(bytes);
  if (number >= LogImage::kClasses || shard.spare_images[number] == nullptr) return nullptr;
  LogImage* const image = shard.spare_images[number];
  shard.spare_images[number] = image->next;
  shard.spare_bytes -= image->memory_bytes();
  return LogImage::Owned(image);
}

bool Cil::equip_locked(Shard& shard, std::span<LogItem* const> items, std::uint64_t sequence) {
  bool equipped = true;
  for (LogItem* const item : items) {
    const LogItem* const intent = item->intent();
    if (intent != nullptr && intent->checkpoint == sequence) continue;
    const bool has_place = item->checkpoint == sequence;
    if (!has_place && item->next_entry == nullptr) {
      item->lacks_entry = shard.spare_entries.empty();
      if (!item->lacks_entry) {
        item->next_entry.reset(&shard.spare_entries.front());
        shard.spare_entries.pop_front();
        shard.spare_bytes -= static_cast<std::int64_t>(sizeof(CilEntry));
      }
    }
    const bool has_image = has_place && item->entry->image->capacity >= item->next_bytes;
    if (!has_image && item->next_image == nullptr) {
      item->next_image = take_spare_locked(shard, item->next_bytes);
      item->lacks_image = item->next_image == nullptr;
    }
    equipped = equipped && !item->lacks_entry && !item->lacks_image;
  }
  return equipped;
}

// What an item has been given it keeps, so that the next look finds it. Where the checkpoint was closed
// meanwhile others may lack something then; not more often than there are items.
void Cil::allocate(std::span<LogItem* const> items, CilStats& counted) {
  for (LogItem* const item : items) {
    if (item->lacks_entry) {
      item->lacks_entry = false;
      item->next_entry = std::make_unique<CilEntry>();
      ++counted.new_entries;
    }
    if (item->lacks_image) {
      item->lacks_image = false;
      item->next_image = LogImage::make(item->next_bytes);
      ++counted.new_images;
    }
  }
}

void Cil::enter_one_locked(Shard& shard, LogItem& item, std::uint64_t sequence, Entered& entered) {
  CilEntry* const entry = item.next_entry.release();
  entry->item = &item;
  entry->image = std::move(item.next_image);
  entry->shard = static_cast<std::uint8_t>(&shard - shards_.data());
  entry->whiteout = false;
  shard.entries.push_back(*entry);
  item.entry = entry;
  item.checkpoint = sequence;
  item.pin();
  entered.memory += static_cast<std::int64_t>(sizeof(CilEntry)) + entry->image->memory_bytes();
}

// Nobody else looks at the place: the item's object is locked, and the checkpoint is open.
void Cil::relog_locked(Shard& shard, LogItem& item, Entered& entered) {
  CilEntry& entry = *item.entry;
  entered.bytes -= entry.image->used;
  ++entered.stats.relogs;
  if (entry.image->capacity >= item.next_bytes) return;
  entered.memory += std::int64_t{item.next_image->memory_bytes()} - entry.image->memory_bytes();
  entry.image.swap(item.next_image);
  LogImage* const outgrown = item.next_image.release();
  const std::uint32_t number = LogImage::class_of(outgrown->capacity);
  if (number < LogImage::kClasses && shard.spare_bytes < memory_step_) {
    outgrown->next = std::exchange(shard.spare_images[number], outgrown);
    shard.spare_bytes += outgrown->memory_bytes();
  } else {
    outgrown->next = std::exchange(entered.outgrown, outgrown);
  }
}

void Cil::enter_locked(Shard& shard, std::span<LogItem* const> items, std::uint64_t sequence,
                       Entered& entered) {
  // After everything that was committed before: an intent stands before what says that it is done.
  std::uint64_t order = next_order_.fetch_add(items.size(), std::memory_order_relaxed);
  for (LogItem* const item : items) {
    LogItem* const intent = item->intent();
    if (intent != nullptr && intent->checkpoint == sequence) {
      // Both would be in this checkpoint: recovery needs to know of neither.
      intent->entry->whiteout = true;
      entered.bytes -= intent->entry->image->used;
      ++entered.stats.whiteouts;
      continue;
    }
    if (item->checkpoint == sequence) {
      relog_locked(shard, *item, entered);
    } else {
      enter_one_locked(shard, *item, sequence, entered);
    }
    item->entry->order = order++;
    LogImage& image = *item->entry->image;
    LogVectorWriter writer(image);
    item->format(writer);
    entered.bytes += image.used;
    entered.stats.operation_bytes += image.used;
    ++entered.stats.items;
  }
}

std::int64_t Cil::account_locked(Shard& shard, const Entered& entered) {
  shard.bytes += entered.bytes;
  shard.memory += entered.memory;
  shard.stats.commits += 1;
  shard.stats.items += entered.stats.items;
  shard.stats.relogs += entered.stats.relogs;
  shard.stats.whiteouts += entered.stats.whiteouts;
  shard.stats.operation_bytes += entered.stats.operation_bytes;
  shard.stats.new_images += entered.stats.new_images;
  shard.stats.new_entries += entered.stats.new_entries;
  const std::int64_t uncounted = shard.bytes - shard.counted_bytes;
  if (uncounted >= count_step_ || uncounted <= -count_step_) {
    shard.counted_bytes = shard.bytes;
    bytes_.fetch_add(uncounted, std::memory_order_relaxed);
  }
  const std::int64_t uncounted_open = shard.memory - shard.counted_open;
  if (uncounted_open >= memory_step_) {
    shard.counted_open = shard.memory;
    open_memory_.fetch_add(uncounted_open, std::memory_order_relaxed);
  }
  const std::int64_t uncounted_memory = shard.memory + shard.spare_bytes - shard.counted_all;
  if (uncounted_memory >= memory_step_ || uncounted_memory <= -memory_step_) {
    shard.counted_all += uncounted_memory;
    memory_bytes_.fetch_add(uncounted_memory, std::memory_order_relaxed);
  }
  if (!used_.load(std::memory_order_relaxed)) used_.store(true, std::memory_order_relaxed);
  // What was granted once stays: a checkpoint that shrinks gives back when it is written.
  const auto bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(shard.bytes, 0));
  const auto needed = static_cast<std::int64_t>(costs_.most_bytes(bytes));
  const std::int64_t more = std::max<std::int64_t>(needed - shard.granted_bytes, 0);
  shard.granted_bytes += more;
  return more;
}

Cil::Committed Cil::commit(std::span<LogItem* const> items, LogTicket& ticket) noexcept {
  measure(items);
  Committed committed;
  Entered entered;
  Shard& shard = shards_[(current_cpu() * 4 + thread_number()) % kShards];
  for (;;) {
    MutexLock hold(shard.lock);
    committed.sequence = open_sequence_.load(std::memory_order_relaxed);
    if (!equip_locked(shard, items, committed.sequence)) {
      hold.unlock();
      allocate(items, entered.stats);
      continue;
    }
    enter_locked(shard, items, committed.sequence, entered);
    ticket.available_bytes -= account_locked(shard, entered);
    TW_ASSERT(ticket.available_bytes >= 0, "a transaction logs more than it reserved");
    // Before the checkpoint is given up: it must not be written, and its items unpinned, while they look
    // locked.
    for (LogItem* const item : items) {
      const bool whited_out = item->checkpoint != committed.sequence;
      if (whited_out) {
        item->release();
      } else {
        item->committing(committed.sequence);
      }
    }
    break;
  }
  while (entered.outgrown != nullptr) {
    const LogImage::Owned image(std::exchange(entered.outgrown, entered.outgrown->next));
  }
  committed.fill = fill();
  return committed;
}

Cil::Fill Cil::fill() const {
  const std::int64_t bytes = bytes_.load(std::memory_order_relaxed);
  const std::int64_t memory = open_memory_.load(std::memory_order_relaxed);
  if (bytes < soft_bytes_ && memory < soft_memory_) return Fill::kLow;
  return bytes >= 2 * soft_bytes_ || memory >= 2 * soft_memory_ ? Fill::kHard : Fill::kSoft;
}

// ---- the switch ----

// Not analysed, as close() is not: clang knows no set of locks. By trying, since the rank stack knows no set
// of one rank either: it is one thread that ever has two of them, so nothing is waited for in a circle, and a
// commit keeps its shard for a microsecond.
void Cil::lock_every_shard() TW_NO_THREAD_SAFETY_ANALYSIS {
  for (Shard& shard : shards_) {
    while (!shard.lock.try_lock()) yield_thread();
  }
}

std::unique_ptr<Checkpoint> Cil::close() TW_NO_THREAD_SAFETY_ANALYSIS {
  auto closed = std::make_unique<Checkpoint>();
  Entries all;
  lock_every_shard();
  const bool used = used_.load(std::memory_order_relaxed);
  if (used) {
    closed->sequence = open_sequence_.load(std::memory_order_relaxed);
    for (Shard& shard : shards_) {
      all.splice(all.end(), shard.entries);
      closed->granted_bytes += shard.granted_bytes;
      closed->memory_bytes += shard.memory;
      shard.bytes = shard.counted_bytes = shard.granted_bytes = 0;
      shard.counted_all -= shard.memory;  // it is counted on, or is not yet
      shard.memory = shard.counted_open = 0;
    }
    writing_memory_.fetch_add(closed->memory_bytes, std::memory_order_relaxed);
    bytes_.store(0, std::memory_order_relaxed);
    open_memory_.store(0, std::memory_order_relaxed);
    used_.store(false, std::memory_order_relaxed);
    open_sequence_.store(closed->sequence + 1, std::memory_order_release);
  }
  for (Shard& shard : shards_) shard.lock.unlock();
  if (!used) return nullptr;
  while (!all.empty()) {
    CilEntry& entry = all.front();
    all.pop_front();
    closed->entries.emplace_back(&entry);
  }
  std::sort(closed->entries.begin(), closed->entries.end(),
            [](const auto& a, const auto& b) { return a->order < b->order; });
  return closed;
}

// Spare memory is at most what one checkpoint at its soft limit takes.
std::int64_t Cil::spare_room() const {
  std::int64_t spare = 0;
  for (const Shard& shard : shards_) {
    MutexLock hold(shard.lock);
    spare += shard.spare_bytes;
  }
  return std::max<std::int64_t>(soft_memory_ - spare, 0);
}

// Chains are made before the shard's lock is taken, and hung in under it: it is held for one step per class.
void Cil::written(Checkpoint& checkpoint) {
  struct Chain {
    LogImage* first = nullptr;
    LogImage* last = nullptr;
  };
  std::array<std::array<Chain, LogImage::kClasses>, kShards> chains{};
  std::array<std::int64_t, kShards> kept{};
  std::int64_t room = spare_room();
  std::int64_t freed = 0;
  std::int64_t all = 0;
  for (const auto& entry : checkpoint.entries) {
    LogImage::Owned image = std::move(entry->image);
    const std::int64_t bytes = image->memory_bytes();
    all += bytes;
    const std::uint32_t number = LogImage::class_of(image->capacity);
    if (number >= LogImage::kClasses || bytes > room) {
      freed += bytes;
      continue;
    }
    room -= bytes;
    kept[entry->shard] += bytes;
    Chain& chain = chains[entry->shard][number];
    image->next = chain.first;
    if (chain.last == nullptr) chain.last = image.get();
    chain.first = image.release();
  }
  for (std::uint32_t i = 0; i < kShards; ++i) {
    if (kept[i] == 0) continue;
    Shard& shard = shards_[i];
    MutexLock hold(shard.lock);
    give_spare_locked(shard, kept[i]);
    for (std::uint32_t number = 0; number < LogImage::kClasses; ++number) {
      const Chain& chain = chains[i][number];
      if (chain.first == nullptr) continue;
      chain.last->next = std::exchange(shard.spare_images[number], chain.first);
    }
  }
  checkpoint.memory_bytes -= all;
  writing_memory_.fetch_sub(all, std::memory_order_relaxed);
  memory_bytes_.fetch_sub(freed, std::memory_order_relaxed);
}

void Cil::drop_spare() {
  for (Shard& shard : shards_) {
    std::array<LogImage*, LogImage::kClasses> images{};
    Entries entries;
    std::int64_t bytes = 0;
    {
      MutexLock hold(shard.lock);
      images.swap(shard.spare_images);
      entries.swap(shard.spare_entries);
      bytes = std::exchange(shard.spare_bytes, 0);
      shard.counted_all -= bytes;
    }
    memory_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    entries.clear_and_dispose([](CilEntry* entry) { delete entry; });
    for (LogImage* first : images) {
      while (first != nullptr) {
        const LogImage::Owned image(std::exchange(first, first->next));
      }
    }
  }
}

void Cil::ended(Checkpoint& checkpoint) {
  constexpr auto kEntryBytes = static_cast<std::int64_t>(sizeof(CilEntry));
  std::array<Entries, kShards> kept;
  std::array<std::int64_t, kShards> bytes{};
  std::int64_t room = spare_room();
  std::int64_t freed = checkpoint.memory_bytes;
  for (auto& entry : checkpoint.entries) {
    entry->image.reset();  // of one that was never laid out
    if (kEntryBytes > room) continue;
    room -= kEntryBytes;
    freed -= kEntryBytes;
    bytes[entry->shard] += kEntryBytes;
    kept[entry->shard].push_back(*entry);
    static_cast<void>(entry.release());
  }
  checkpoint.entries.clear();
  for (std::uint32_t i = 0; i < kShards; ++i) {
    if (bytes[i] == 0) continue;
    Shard& shard = shards_[i];
    MutexLock hold(shard.lock);
    shard.spare_entries.splice(shard.spare_entries.end(), kept[i]);
    give_spare_locked(shard, bytes[i]);
  }
  writing_memory_.fetch_sub(std::exchange(checkpoint.memory_bytes, 0), std::memory_order_relaxed);
  memory_bytes_.fetch_sub(freed, std::memory_order_relaxed);
}

// ---- where it stands ----

std::uint64_t Cil::used_sequence() const {
  const std::uint64_t open = open_sequence_.load(std::memory_order_relaxed);
  return used_.load(std::memory_order_relaxed) ? open : open - 1;
}

std::uint64_t Cil::last_used_sequence() const {
  MutexLock hold(shards_[0].lock);  // a share of the open checkpoint, as a commit's
  return used_sequence();
}

std::uint64_t Cil::settled_sequence() TW_NO_THREAD_SAFETY_ANALYSIS {
  lock_every_shard();
  const std::uint64_t sequence = used_sequence();
  for (Shard& shard : shards_) shard.lock.unlock();
  return sequence;
}

std::int64_t Cil::exact_memory_bytes() const {
  std::int64_t bytes = writing_memory_.load(std::memory_order_relaxed);
  for (const Shard& shard : shards_) {
    MutexLock hold(shard.lock);
    bytes += shard.memory + shard.spare_bytes;
  }
  return bytes;
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
    total.new_images += shard.stats.new_images;
    total.new_entries += shard.stats.new_entries;
  }
  return total;
}

}  // namespace tidewheel
