#include "fs/flat/file_index.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "fs/flat/index_entry.h"

namespace tidewheel {

namespace {

LockClass index_class("flat-index", LockRank::kStore);

// A shard takes so much at a time while there is plenty: 1,024 blocks.
constexpr std::uint64_t kHandWords = 1024 * FileIndex::kBlockWords;
// Below this nobody takes more than needed, so that little has to be gathered at the end.
constexpr std::int64_t kPlentyWords = 2 * FileIndex::kShards * kHandWords;
// What a page reserves that has no block: the block, and an extent of its own.
constexpr std::uint64_t kPageWords = FileIndex::kBlockWords + FileIndex::kExtentWords;

}  // namespace

FileIndex::Shard::Shard() : mutex(index_class) {}

FileIndex::FileIndex(PageCache& pages, MemoryBudget& budget, std::uint64_t blocks)
    : pages_(pages),
      budget_(budget),
      total_blocks_(blocks),
      shards_(std::make_unique<Shard[]>(kShards)),
      unreserved_words_(static_cast<std::int64_t>(blocks * kBlockWords)) {
  static_assert(sizeof(Entry) == 16 && kRunFiles * sizeof(Entry) == kPageBytes);
  TW_ASSERT(blocks <= kMaxDeviceBlocks, "the device has more blocks than an entry can name");
}

FileIndex::~FileIndex() {
  for (std::uint32_t i = 0; i < kShards; ++i) {
    Shard& shard = shards_[i];
    MutexLock lock(shard.mutex);
    for (Run& run : shard.runs) {
      if (run.page == nullptr) continue;
      for (std::uint32_t n = 0; n < kRunFiles; ++n) {
        Entry& entry = reinterpret_cast<Entry*>(run.page->data)[n];
        if (entry.has(Entry::kTable)) delete entry.table();
      }
      pages_.free_page(*run.page);
    }
  }
  budget_.uncharge(MemoryKind::kIndex, table_bytes_charged_.load(std::memory_order_relaxed));
}

std::uint64_t FileIndex::hash_of(std::uint64_t run_key) {
  std::uint64_t z = run_key * 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 32)) * 0xBF58476D1CE4E5B9ULL;
  return z ^ (z >> 29);
}

FileIndex::Run* FileIndex::find_run_locked(Shard& shard, std::uint64_t run_key) const {
  if (shard.runs.empty()) return nullptr;
  const std::uint64_t mask = shard.runs.size() - 1;
  for (std::uint64_t i = (hash_of(run_key) / kShards) & mask;; i = (i + 1) & mask) {
    Run& run = shard.runs[i];
    if (run.page == nullptr) return nullptr;
    if (run.key == run_key) return &run;
  }
}

FileIndex::Entry* FileIndex::find_locked(Shard& shard, std::uint64_t key) const {
  Run* run = find_run_locked(shard, key / kRunFiles);
  return run == nullptr ? nullptr : &reinterpret_cast<Entry*>(run->page->data)[key % kRunFiles];
}

FileIndex::Run& FileIndex::insert_run_locked(Shard& shard, std::uint64_t run_key, Page& page) {
  if ((shard.runs_used + 1) * 4ULL > shard.runs.size() * 3ULL) {
    std::vector<Run> old(std::max<std::size_t>(8, shard.runs.size() * 2));
    old.swap(shard.runs);
    const std::uint64_t mask = shard.runs.size() - 1;
    for (const Run& run : old) {
      if (run.page == nullptr) continue;
      std::uint64_t i = (hash_of(run.key) / kShards) & mask;
      while (shard.runs[i].page != nullptr) i = (i + 1) & mask;
      shard.runs[i] = run;
    }
  }
  const std::uint64_t mask = shard.runs.size() - 1;
  std::uint64_t i = (hash_of(run_key) / kShards) & mask;
  while (shard.runs[i].page != nullptr) i = (i + 1) & mask;
  shard.runs[i] = {run_key, &page, 0};
  ++shard.runs_used;
  return shard.runs[i];
}

// Later runs of the same chain move up, so that no mark of the deleted one is needed.
void FileIndex::erase_run_locked(Shard& shard, Run& run) {
  const std::uint64_t mask = shard.runs.size() - 1;
  std::uint64_t hole = static_cast<std::uint64_t>(&run - shard.runs.data());
  for (std::uint64_t i = (hole + 1) & mask; shard.runs[i].page != nullptr; i = (i + 1) & mask) {
    const std::uint64_t home = (hash_of(shard.runs[i].key) / kShards) & mask;
    if (((i - home) & mask) >= ((i - hole) & mask)) {
      shard.runs[hole] = shard.runs[i];
      hole = i;
    }
  }
  shard.runs[hole] = {};
  --shard.runs_used;
}

Page* FileIndex::release_entry_locked(Shard& shard, std::uint64_t key, Entry& entry) {
  const std::uint64_t words = kFileWords + kExtentWords * entry.extents();
  shard.index_words -= words;
  give_back_locked(shard, words);
  if (entry.has(Entry::kTable)) {
    recharge_locked(shard, entry.table()->memory_bytes(), 0);
    delete entry.table();
  }
  entry = {};
  Run* run = find_run_locked(shard, key / kRunFiles);
  if (--run->used != 0) return nullptr;
  Page* page = run->page;
  erase_run_locked(shard, *run);
  return page;
}

// ---- files ----

Result<void> FileIndex::begin_create(FileKey key) {
  Shard& shard = shard_of(key.value);
  Page* spare = nullptr;
  Result<void> result;
  for (bool gathered = false;;) {
    bool full = false;
    {
      MutexLock lock(shard.mutex);
      Run* run = find_run_locked(shard, key.value / kRunFiles);
      if (run == nullptr && spare != nullptr) {
        run = &insert_run_locked(shard, key.value / kRunFiles, *spare);
        spare = nullptr;
      }
      if (run != nullptr) {
        Entry& entry = reinterpret_cast<Entry*>(run->page->data)[key.value % kRunFiles];
        if (entry.has(Entry::kLive | Entry::kCreating)) {
          result = TW_FAIL(kExists);
        } else if (entry.has(Entry::kUnlinked)) {
          result = TW_FAIL(kBusy);
        } else if (reserve_locked(shard, kFileWords)) {
          shard.index_words += kFileWords;
          entry.set(Entry::kCreating);
          ++run->used;
        } else {
          full = true;
          if (run->used == 0) {
            spare = run->page;
            erase_run_locked(shard, *run);
          }
        }
        if (!full) break;
      }
    }
    if (full) {
      if (gathered) {
        result = TW_FAIL(kNoSpace);
        break;
      }
      gather_hands();
      gathered = true;
    } else {
      spare = pages_.allocate_page();  // may wait for memory
      if (spare == nullptr) return TW_FAIL(kNoMemory);
      std::memset(spare->data, 0, kPageBytes);
    }
  }
  if (spare != nullptr) pages_.free_page(*spare);
  return result;
}

void FileIndex::end_create(FileKey key, bool made) {
  Shard& shard = shard_of(key.value);
  Page* page = nullptr;
  {
    MutexLock lock(shard.mutex);
    Entry* entry = find_locked(shard, key.value);
    TW_ASSERT(entry != nullptr && entry->has(Entry::kCreating), "a file is made that was not begun");
    entry->clear(Entry::kCreating);
    if (made) {
      entry->set(Entry::kLive);
      ++shard.files;
    } else {
      page = release_entry_locked(shard, key.value, *entry);
    }
  }
  if (page != nullptr) pages_.free_page(*page);
}

Result<std::uint64_t> FileIndex::size_of(FileKey key) const {
  Shard& shard = shard_of(key.value);
  MutexLock lock(shard.mutex);
  const Entry* entry = find_locked(shard, key.value);
  if (entry == nullptr || !entry->has(Entry::kLive)) return TW_FAIL(kNotFound);
  return entry->size();
}

Result<void> FileIndex::begin_unlink(FileKey key) {
  Shard& shard = shard_of(key.value);
  MutexLock lock(shard.mutex);
  Entry* entry = find_locked(shard, key.value);
  if (entry == nullptr || !entry->has(Entry::kLive)) return TW_FAIL(kNotFound);
  entry->clear(Entry::kLive);
  entry->set(Entry::kUnlinked);
  --shard.files;
  return {};
}

void FileIndex::keep_error(FileKey key, Reason reason) {
  Shard& shard = shard_of(key.value);
  MutexLock lock(shard.mutex);
  Entry* entry = find_locked(shard, key.value);
  TW_ASSERT(entry != nullptr, "an inode has no entry");
  entry->set_error(reason);
}

Reason FileIndex::take_error(FileKey key) {
  Shard& shard = shard_of(key.value);
  MutexLock lock(shard.mutex);
  Entry* entry = find_locked(shard, key.value);
  if (entry == nullptr) return Reason::kOk;
  const Reason reason = entry->error();
  entry->set_error(Reason::kOk);
  return reason;
}

void FileIndex::erase(Inode& inode, std::vector<BlockExtent>& blocks) {
  Shard& shard = shard_of(inode.number());
  Page* page = nullptr;
  {
    MutexLock lock(shard.mutex);
    Entry* entry = find_locked(shard, inode.number());
    TW_ASSERT(entry != nullptr && entry->has(Entry::kUnlinked), "a file is erased that was not unlinked");
    if (entry->has(Entry::kTable)) {
      for (const FileExtent& extent : entry->table()->all()) blocks.push_back({extent.block, extent.pages});
    } else if (entry->single_blocks() != 0) {
      blocks.push_back({entry->single_block(), entry->single_blocks()});
    }
    give_back_locked(shard, std::exchange(inode.store_data[1], 0) * kPageWords);
    page = release_entry_locked(shard, inode.number(), *entry);
  }
  if (page != nullptr) pages_.free_page(*page);
}

// ---- space ----

bool FileIndex::reserve_locked(Shard& shard, std::uint64_t words) {
  if (shard.words_in_hand < words) {
    std::int64_t left = unreserved_words_.load(std::memory_order_relaxed);
    std::int64_t take;
    do {
      take = static_cast<std::int64_t>(words - shard.words_in_hand);
      if (left < take) return false;
      if (left >= kPlentyWords) take += kHandWords;
    } while (!unreserved_words_.compare_exchange(left, left - take, std::memory_order_relaxed));
    shard.words_in_hand += static_cast<std::uint64_t>(take);
  }
  shard.words_in_hand -= words;
  return true;
}

void FileIndex::give_back_locked(Shard& shard, std::uint64_t words) {
  shard.words_in_hand += words;
  if (shard.words_in_hand <= 2 * kHandWords) return;
  unreserved_words_.fetch_add(static_cast<std::int64_t>(shard.words_in_hand - kHandWords),
                              std::memory_order_relaxed);
  shard.words_in_hand = kHandWords;
}

void FileIndex::give_back(FileKey key, std::uint64_t blocks) {
  Shard& shard = shard_of(key.value);
  MutexLock lock(shard.mutex);
  give_back_locked(shard, blocks * kBlockWords);
}

// Before it is said that there is no space: what other shards have in hand counts.
void FileIndex::gather_hands() {
  for (std::uint32_t i = 0; i < kShards; ++i) {
    MutexLock lock(shards_[i].mutex);
    if (shards_[i].words_in_hand == 0) continue;
    unreserved_words_.fetch_add(static_cast<std::int64_t>(shards_[i].words_in_hand),
                                std::memory_order_relaxed);
    shards_[i].words_in_hand = 0;
  }
}

// ---- writers ----

Result<void> FileIndex::begin_write(Inode& inode, std::uint64_t first_page, std::uint32_t pages,
                                    WriteReservation& out) {
  TW_ASSERT(pages <= WriteReservation::kMaxPages, "a write takes more pages than a reservation holds");
  out = {.first_page = first_page, .pages = pages};
  Shard& shard = shard_of(inode.number());
  bool gathered = false;
  for (;;) {
    {
      MutexLock lock(shard.mutex);
      Entry* entry;
      while ((entry = find_locked(shard, inode.number()))->has(Entry::kWriter)) {
        ++shard.waiters;
        shard.writer_gone.wait(shard.mutex);
        --shard.waiters;
      }
      std::uint64_t need = 0;
      std::fill(std::begin(out.fresh), std::end(out.fresh), 0);
      const bool nothing_there = entry->blockless() && inode.mapping().pages() == 0;
      for (std::uint32_t i = 0; i < pages;) {
        const FileExtent part = nothing_there ? FileExtent{first_page + i, 0, pages - i}
                                              : entry->find(first_page + i, pages - i);
        if (part.block != 0) {
          i += static_cast<std::uint32_t>(part.pages);
          continue;
        }
        // A page that is dirty or being written has its reserved block, and keeps that or gets it as an
        // extent, whatever happens meanwhile. Others get one; nobody else dirties pages of this file now.
        for (const std::uint32_t end = i + static_cast<std::uint32_t>(part.pages); i < end; ++i) {
          if (!nothing_there) {
            MutexLock mapping_lock(inode.mapping().mutex());
            const Page* page = inode.mapping().find_locked(first_page + i);
            if (page != nullptr && (page->tagged(PageTag::kDirty) || page->tagged(PageTag::kWriteback))) {
              continue;
            }
          }
          out.set(i);
          ++need;
        }
      }
      if (need == 0 || reserve_locked(shard, need * kPageWords)) {
        inode.store_data[1] += need;
        entry->set(Entry::kWriter);
        return {};
      }
    }
    if (gathered) return TW_FAIL(kNoSpace);
    gather_hands();
    gathered = true;
  }
}

void FileIndex::end_write(Inode& inode, const WriteReservation& reservation, std::uint64_t end_page) {
  std::uint64_t unused = 0;
  const std::uint64_t written = end_page > reservation.first_page ? end_page - reservation.first_page : 0;
  for (std::uint64_t i = written; i < reservation.pages; ++i) {
    if (reservation.has(static_cast<std::uint32_t>(i))) ++unused;
  }
  Shard& shard = shard_of(inode.number());
  MutexLock lock(shard.mutex);
  Entry* entry = find_locked(shard, inode.number());
  entry->clear(Entry::kWriter);
  if (unused != 0) {
    inode.store_data[1] -= unused;
    give_back_locked(shard, unused * kPageWords);
  }
  if (shard.waiters != 0) shard.writer_gone.notify_all();
}

// ---- writeback and reading ----

FileExtent FileIndex::find(const Inode& inode, std::uint64_t first_page, std::uint64_t pages) const {
  Shard& shard = shard_of(inode.number());
  MutexLock lock(shard.mutex);
  const Entry* entry = find_locked(shard, inode.number());
  TW_ASSERT(entry != nullptr, "an inode has no entry");
  return entry->find(first_page, pages);
}

void FileIndex::map(const Inode& inode, std::uint64_t first_page, std::uint64_t pages,
                    std::vector<FileExtent>& out) const {
  Shard& shard = shard_of(inode.number());
  MutexLock lock(shard.mutex);
  const Entry* entry = find_locked(shard, inode.number());
  TW_ASSERT(entry != nullptr, "an inode has no entry");
  while (pages != 0) {
    const FileExtent part = entry->find(first_page, pages);
    out.push_back(part);
    first_page += part.pages;
    pages -= part.pages;
  }
}

void FileIndex::recharge_locked(Shard& shard, std::uint64_t before, std::uint64_t after) {
  shard.table_bytes += after - before;
  // Refused: the table grows all the same, for the data is written already; the next change tries again.
  if (after > before) {
    if (budget_.try_charge(MemoryKind::kIndex, after - before)) {
      table_bytes_charged_.fetch_add(after - before, std::memory_order_relaxed);
    }
    return;
  }
  std::uint64_t charged = table_bytes_charged_.load(std::memory_order_relaxed);
  std::uint64_t n;
  do {
    n = std::min(charged, before - after);
  } while (!table_bytes_charged_.compare_exchange(charged, charged - n, std::memory_order_relaxed));
  budget_.uncharge(MemoryKind::kIndex, n);
}

void FileIndex::add_extents_locked(Shard& shard, Entry& entry, std::span<const FileExtent> fresh) {
  if (fresh.empty()) return;
  if (!entry.has(Entry::kTable)) {
    while (!fresh.empty() && entry.append_single(fresh.front())) fresh = fresh.subspan(1);
    if (fresh.empty()) return;
    auto table = std::make_unique<FileExtents>();
    if (entry.single_blocks() != 0) {
      const FileExtent single{0, entry.single_block(), entry.single_blocks()};
      table->add({&single, 1});
    }
    entry.set_table(table.release());
    recharge_locked(shard, 0, entry.table()->memory_bytes());
  }
  const std::uint64_t before = entry.table()->memory_bytes();
  entry.table()->add(fresh);
  recharge_locked(shard, before, entry.table()->memory_bytes());
}

void FileIndex::commit(Inode& inode, std::span<const FileExtent> fresh, std::uint64_t size) {
  std::uint64_t pages = 0;
  for (const FileExtent& extent : fresh) pages += extent.pages;
  Shard& shard = shard_of(inode.number());
  MutexLock lock(shard.mutex);
  Entry* entry = find_locked(shard, inode.number());
  TW_ASSERT(entry != nullptr, "an inode has no entry");
  TW_ASSERT(inode.store_data[1] >= pages, "pages were written that had no block reserved");
  inode.store_data[1] -= pages;
  // Each page had the words of an extent of its own; never more are needed.
  const std::uint64_t words_before = kExtentWords * entry->extents();
  add_extents_locked(shard, *entry, fresh);
  const std::uint64_t words_after = kExtentWords * entry->extents();
  shard.index_words += words_after - words_before;
  give_back_locked(shard, words_before + pages * kExtentWords - words_after);
  entry->set_size(std::max(entry->size(), size));
}

void FileIndex::unreserve(Inode& inode, std::uint64_t pages) {
  Shard& shard = shard_of(inode.number());
  MutexLock lock(shard.mutex);
  TW_ASSERT(!find_locked(shard, inode.number())->has(Entry::kWriter),
            "a file is written while its store ends");
  TW_ASSERT(inode.store_data[1] >= pages, "pages are dropped that had no block reserved");
  inode.store_data[1] -= pages;
  give_back_locked(shard, pages * kPageWords);
}

// ---- all of it ----

void FileIndex::for_each(std::uint32_t shard_number, const std::function<void(const File&)>& fn) const {
  Shard& shard = shards_[shard_number];
  MutexLock lock(shard.mutex);
  for (const Run& run : shard.runs) {
    if (run.page == nullptr) continue;
    for (std::uint32_t n = 0; n < kRunFiles; ++n) {
      const Entry& entry = reinterpret_cast<const Entry*>(run.page->data)[n];
      if (!entry.has(Entry::kLive)) continue;
      const FileExtent single{0, entry.single_block(), entry.single_blocks()};
      std::span<const FileExtent> extents;
      if (entry.has(Entry::kTable)) {
        extents = entry.table()->all();
      } else if (single.pages != 0) {
        extents = {&single, 1};
      }
      fn({{run.key * kRunFiles + n}, entry.size(), extents});
    }
  }
}

Result<void> FileIndex::restore(const File& file) {
  TW_TRY(begin_create(file.key));
  std::uint64_t blocks = 0;
  for (const FileExtent& extent : file.extents) blocks += extent.pages;
  std::uint64_t blocks_and_extents;
  {
    Shard& shard = shard_of(file.key.value);
    MutexLock lock(shard.mutex);
    Entry* entry = find_locked(shard, file.key.value);
    add_extents_locked(shard, *entry, file.extents);
    entry->set_size(file.size);
    const std::uint64_t words = kExtentWords * entry->extents();
    shard.index_words += words;
    blocks_and_extents = blocks * kBlockWords + words;
  }
  // Not from the hand: the device had room for all of this, or the index does not tell the truth.
  unreserved_words_.fetch_sub(static_cast<std::int64_t>(blocks_and_extents), std::memory_order_relaxed);
  end_create(file.key, true);
  return {};
}

std::uint64_t FileIndex::unreserved_words() const {
  std::int64_t total = 0;
  for (std::uint32_t i = 0; i < kShards; ++i) {
    MutexLock lock(shards_[i].mutex);
    total += static_cast<std::int64_t>(shards_[i].words_in_hand);
  }
  total += unreserved_words_.load(std::memory_order_relaxed);
  return total < 0 ? 0 : static_cast<std::uint64_t>(total);
}

std::uint64_t FileIndex::index_words() const {
  std::uint64_t total = 0;
  for (std::uint32_t i = 0; i < kShards; ++i) {
    MutexLock lock(shards_[i].mutex);
    total += shards_[i].index_words;
  }
  return total;
}

FileIndexStats FileIndex::stats() const {
  FileIndexStats s;
  for (std::uint32_t i = 0; i < kShards; ++i) {
    MutexLock lock(shards_[i].mutex);
    s.files += shards_[i].files;
    s.run_pages += shards_[i].runs_used;
    s.table_bytes += shards_[i].table_bytes;
  }
  return s;
}

void FileIndex::check_invariants() const {
  std::uint64_t blocks = 0, files = 0, words = 0;
  for (std::uint32_t i = 0; i < kShards; ++i) {
    Shard& shard = shards_[i];
    MutexLock lock(shard.mutex);
    std::uint32_t runs = 0;
    for (const Run& run : shard.runs) {
      if (run.page == nullptr) continue;
      ++runs;
      std::uint32_t used = 0;
      for (std::uint32_t n = 0; n < kRunFiles; ++n) {
        const Entry& entry = reinterpret_cast<const Entry*>(run.page->data)[n];
        if (entry.has(Entry::kLive | Entry::kUnlinked | Entry::kCreating)) {
          ++used;
          words += kFileWords + kExtentWords * entry.extents();
        }
        blocks += entry.has(Entry::kTable) ? entry.table()->blocks() : entry.single_blocks();
        files += entry.has(Entry::kLive) ? 1 : 0;
      }
      TW_ASSERT(used == run.used, "a run's count of files is wrong");
      TW_ASSERT(find_run_locked(shard, run.key) == &run, "a run is not found where it lies");
    }
    TW_ASSERT(runs == shard.runs_used, "a shard's count of runs is wrong");
  }
  TW_ASSERT(files == stats().files, "the count of files is wrong");
  TW_ASSERT(words == index_words(), "the count of the saved index's words is wrong");
  TW_ASSERT(blocks * kBlockWords + words + unreserved_words() == total_blocks_ * kBlockWords,
            "space is lost or counted twice");
}

}  // namespace tidewheel
