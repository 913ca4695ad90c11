// fs/flat/file_index.h: every file of the store, in memory: its size, where its pages lie, and the space
// that is set aside for pages not yet written.
// Owns:      the entries, 16 bytes per file, in runs of 256 consecutive keys; a run is one page of the arena,
//            so the index counts in the memory limit. Extent tables of files with several extents are on the
//            heap and are charged to the budget as far as it allows.
// Threads:   every method is thread-safe. begin_write .. end_write serialise the writers of one file.
// Locks:     kShards shard locks (rank kStore) by run; mapping locks are taken inside. No lock is held while
//            memory is waited for, blocks are allocated, or I/O is done. No lock and no shared line is common
//            to all writers: each shard keeps some reserved-to-be space in hand.
// Units:     pages and blocks of 4 KiB; bytes where named. Space is counted in words of 8 bytes: a block is
//            kBlockWords, a file that the saved index lists kFileWords, each of its extents kExtentWords.
// Errors:    kExists, kNotFound, kBusy (unlinked, and still open somewhere), kNoMemory, kNoSpace.
// Invariant: (1) each page that is dirty or being written has a block: an extent of its file, or one unit of
//            Inode::store_data[1], the file's reserved blocks; so writeback never lacks space.
//            (2) unreserved + in the shards' hands + reserved + in extents + being written + what the saved
//            index needs = all words. So a full device has room for its index: a page that has no extent
//            yet keeps the words of one of its own until it is written.
//            (3) size and extents of an entry describe data that is on the device.
//
//   free --begin_create--> creating --end_create--> live --begin_unlink--> unlinked --erase--> free
//                             +--- not made --> free      (not found; open handles and their dirt live on)
// Source:    docs/flat-store.md
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/memory_budget.h"
#include "base/sync.h"
#include "fs/flat/file_extents.h"
#include "fs/flat/file_key.h"
#include "inode/page_cache.h"

namespace tidewheel {

// Which pages of a write got a reserved block of their own.
struct WriteReservation {
  static constexpr std::uint32_t kMaxPages = 256;
  std::uint64_t first_page = 0;
  std::uint32_t pages = 0;
  std::uint64_t fresh[kMaxPages / 64] = {};

  void set(std::uint32_t i) { fresh[i / 64] |= 1ULL << (i % 64); }
  bool has(std::uint32_t i) const { return ((fresh[i / 64] >> (i % 64)) & 1U) != 0; }
};

struct FileIndexStats {
  std::uint64_t files = 0;
  std::uint64_t run_pages = 0;     // of the arena
  std::uint64_t table_bytes = 0;   // of extent tables
  std::uint64_t bytes() const { return run_pages * kPageBytes + table_bytes; }
};

class FileIndex {
 public:
  static constexpr std::uint32_t kShards = 64;
  static constexpr std::uint32_t kRunFiles = 256;
  // 2^48: what an entry can say. A single extent has at most 2^24 blocks (64 GiB), anywhere in 2^40.
  static constexpr std::uint64_t kMaxFileBytes = (1ULL << 48) - 1;
  static constexpr std::uint64_t kMaxDeviceBlocks = 1ULL << 40;  // 4 PiB
  // What a block of the saved index holds beside the two words that may say where the index goes on.
  static constexpr std::uint64_t kBlockWords = 510;
  static constexpr std::uint64_t kFileWords = 3;    // key, size, number of extents
  static constexpr std::uint64_t kExtentWords = 3;  // page, block, pages

  FileIndex(PageCache& pages, MemoryBudget& budget, std::uint64_t blocks);
  ~FileIndex();  // frees what is left

  // ---- files ----
  Result<void> begin_create(FileKey key);  // kNoSpace: not even for its place in the saved index
  void end_create(FileKey key, bool made);
  Result<std::uint64_t> size_of(FileKey key) const;  // on the device; kNotFound unless live
  bool live(FileKey key) const { return size_of(key).has_value(); }
  Result<void> begin_unlink(FileKey key);
  // A write error that nobody was told survives while the inode is not in memory, not an unmount.
  void keep_error(FileKey key, Reason reason);
  Reason take_error(FileKey key);  // kOk: none
  // The inode is gone, its pages dropped: the key is free again. Its blocks are appended to `blocks`; free
  // them in the allocator, then give_back() their number.
  void erase(Inode& inode, std::vector<BlockExtent>& blocks);

  // ---- writers ----
  // Waits for another writer of the file, then reserves blocks for those of the pages that have none.
  // kNoSpace: nothing is reserved, end_write() must not follow.
  Result<void> begin_write(Inode& inode, std::uint64_t first_page, std::uint32_t pages,
                           WriteReservation& out);
  // Pages before end_page were written; what was reserved for later ones is given back.
  void end_write(Inode& inode, const WriteReservation& reservation, std::uint64_t end_page);

  // ---- writeback and reading ----
  // The first extent of the range, or the hole (block 0) it begins with; at most `pages`, at least one page.
  FileExtent find(const Inode& inode, std::uint64_t first_page, std::uint64_t pages) const;
  // Appends the whole range in order, holes with block 0.
  void map(const Inode& inode, std::uint64_t first_page, std::uint64_t pages,
           std::vector<FileExtent>& out) const;
  // `fresh`, sorted, is on the device now: it becomes part of the file and stops being reserved. Then the
  // size is at least `size`.
  void commit(Inode& inode, std::span<const FileExtent> fresh, std::uint64_t size);
  // Pages that will never be written: their reserved blocks are free again. Nobody may be writing the file: a
  // writer that found these pages under writeback counts on their blocks.
  void unreserve(Inode& inode, std::uint64_t pages);
  void give_back(FileKey key, std::uint64_t blocks);
  // Writing what is dirty would set at least one page's space free: pages that lie together need fewer words.
  // `dirty_bytes` are all of the store.
  static bool worth_writing(std::uint64_t dirty_bytes) {
    return dirty_bytes / kPageBytes * kExtentWords >= kBlockWords + kExtentWords;
  }

  // ---- all of it ----
  struct File {
    FileKey key;
    std::uint64_t size = 0;
    std::span<const FileExtent> extents;
  };
  // The live files of one shard, in no order, under its lock.
  void for_each(std::uint32_t shard, const std::function<void(const File&)>& fn) const;
  // From a saved index. The blocks have been taken from the allocator.
  Result<void> restore(const File& file);
  std::uint64_t total_blocks() const { return total_blocks_; }
  // Whole blocks neither reserved nor in use; exact when nobody writes.
  std::uint64_t unreserved_blocks() const { return unreserved_words() / kBlockWords; }
  std::uint64_t unreserved_words() const;
  std::uint64_t index_words() const;  // of a saved index; exact when nobody writes
  FileIndexStats stats() const;
  // At rest.
  void check_invariants() const;

 private:
  struct Entry;
  struct Run {
    std::uint64_t key = 0;  // file key / kRunFiles
    Page* page = nullptr;   // null: an empty slot
    std::uint32_t used = 0;  // entries that are not free
  };
  struct alignas(kCacheLine) Shard {
    Shard();
    mutable Mutex mutex TW_ACQUIRED_AFTER(kRankContext) TW_ACQUIRED_BEFORE(kRankInodeHash);
    CondVar writer_gone;
    std::uint32_t waiters TW_GUARDED_BY(mutex) = 0;
    std::uint32_t runs_used TW_GUARDED_BY(mutex) = 0;
    std::vector<Run> runs TW_GUARDED_BY(mutex);  // open addressing, linear, at most 3/4 full
    std::uint64_t words_in_hand TW_GUARDED_BY(mutex) = 0;
    std::uint64_t files TW_GUARDED_BY(mutex) = 0;        // live
    std::uint64_t index_words TW_GUARDED_BY(mutex) = 0;  // of all entries that are not free
    std::uint64_t table_bytes TW_GUARDED_BY(mutex) = 0;
  };

  static std::uint64_t hash_of(std::uint64_t run_key);
  Shard& shard_of(std::uint64_t key) const { return shards_[hash_of(key / kRunFiles) % kShards]; }
  Run* find_run_locked(Shard& shard, std::uint64_t run_key) const TW_REQUIRES(shard.mutex);
  Entry* find_locked(Shard& shard, std::uint64_t key) const TW_REQUIRES(shard.mutex);
  Run& insert_run_locked(Shard& shard, std::uint64_t run_key, Page& page) TW_REQUIRES(shard.mutex);
  void erase_run_locked(Shard& shard, Run& run) TW_REQUIRES(shard.mutex);
  // The entry stops being used; answers the run's page when that was its last.
  Page* release_entry_locked(Shard& shard, std::uint64_t key, Entry& entry) TW_REQUIRES(shard.mutex);
  void add_extents_locked(Shard& shard, Entry& entry, std::span<const FileExtent> fresh)
      TW_REQUIRES(shard.mutex);
  void recharge_locked(Shard& shard, std::uint64_t before, std::uint64_t after) TW_REQUIRES(shard.mutex);
  bool reserve_locked(Shard& shard, std::uint64_t words) TW_REQUIRES(shard.mutex);
  void give_back_locked(Shard& shard, std::uint64_t words) TW_REQUIRES(shard.mutex);
  void gather_hands();

  PageCache& pages_;
  MemoryBudget& budget_;
  const std::uint64_t total_blocks_;
  const std::unique_ptr<Shard[]> shards_;
  // Words nobody has reserved and no shard has in hand. Relaxed: only the sum matters; the blocks themselves
  // come from the allocator, under its lock.
  alignas(kCacheLine) Atomic<std::int64_t> unreserved_words_;
  Atomic<std::uint64_t> table_bytes_charged_{0};
};

}  // namespace tidewheel
