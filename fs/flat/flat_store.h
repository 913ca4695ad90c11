// fs/flat/flat_store.h: a store that places each file's pages on a device and nothing else: no names, no
// directories, no log. It stands under the benchmark driver to measure the writeback engine by itself.
// Owns:      the page arena, page cache, inode cache, file index and block allocator, and one writeback
//            context per owner. The device, the engine and the budget are the program's and outlive it.
// Threads:   every method is thread-safe, except open/close of the store itself. A FlatFile belongs to one
//            thread at a time; several may name the same file.
// Locks:     none of its own: see FileIndex, BlockAllocator, BatchPool. Nothing is common to all writers but
//            the engine's and the arena's sharded parts; the allocator is touched once per batch.
// Units:     bytes in the interface; pages and blocks of 4 KiB beneath.
// Errors:    kNoSpace at create() and write(), never later: a block is set aside for every page before it is
//            dirtied, and for every file its place in the index that unmount() saves, so
//            what write() took can be written (unless the image is sparse and its host fills up: that comes
//            as a device error). A failed device write leaves its pages dirty, is tried again, and is told
//            once per handle by fsync(), and by sync().
// Invariant: data first, then index: an index entry names only blocks whose data the device has completed.
//            A page that has a block is overwritten in place, others get one when they are written.
// Limits:    files up to 2^48 - 1 bytes, devices up to 4 PiB, no truncate. Contents survive unmount() and
//            mount(), not a crash: a store that was not unmounted mounts no more, and format() empties it.
//            See docs/flat-store.md.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/counter.h"
#include "fs/block/block_device.h"
#include "fs/flat/batch_pool.h"
#include "fs/flat/block_allocator.h"
#include "fs/flat/file_index.h"
#include "fs/flat/file_key.h"
#include "inode/engine_sink.h"
#include "inode/inode_cache.h"
#include "inode/inode_source.h"
#include "inode/page_arena.h"
#include "inode/page_cache.h"
#include "writeback/engine.h"
#include "writeback/error_sequence.h"
#include "writeback/target.h"

namespace tidewheel {

struct FlatHeader;

struct FlatStoreOptions {
  std::uint64_t memory_limit_bytes = 1ULL << 30;  // pages, inodes, index together (the budget may say less)
  // Writeback contexts of one device. A file begins with owner t % owners, t the thread of its key; when
  // another owner's tasks have dirtied most of it in more than half of its last writes, it goes to that one.
  // One that comes back to memory goes to the owner of the task that writes to it first.
  std::uint32_t owners = 1;
  std::string_view reclaim = "two-list";
  bool huge_pages = true;
  std::uint64_t device_bytes = 0;     // grow the device to this, once it is known to be ours or blank
  std::uint64_t seed = 1;             // tells stores apart; from the run's seed
};

struct FlatStoreStats {
  std::uint64_t user_write_bytes = 0;  // acknowledged by write()
  std::uint64_t user_read_bytes = 0;
  FileIndexStats index;
  std::uint64_t free_blocks = 0;       // not reserved, not in use
  std::uint64_t total_blocks = 0;
  DeviceStats device;
  // Device bytes of data per byte the user wrote; 0 when nothing was written.
  double write_amplification() const {
    return user_write_bytes == 0
               ? 0.0
               : static_cast<double>(device.write_bytes) / static_cast<double>(user_write_bytes);
  }
};

// An open file. Closing is destroying it.
class FlatFile {
 public:
  FlatFile() = default;
  FlatFile(FlatFile&&) noexcept = default;
  FlatFile& operator=(FlatFile&&) noexcept = default;

  explicit operator bool() const { return static_cast<bool>(inode_); }
  std::uint64_t size() const { return inode_->size(); }
  void close() { inode_.reset(); }

 private:
  friend class FlatStore;
  InodeHold inode_;
  ErrorCursor errors_;
};

class FlatStore final : private WritebackTarget, private InodeSource {
 public:
  // Makes the device an empty store. Errors: kNotEmpty when something else is on it, as probe_device() says.
  static Result<std::unique_ptr<FlatStore>> format(BlockDevice& device, WritebackEngine& engine,
                                                   MemoryBudget& budget, const FlatStoreOptions& options);
  // Opens a store that was unmounted. Errors: kNotFound (blank), kNotEmpty, kCorrupt (damaged, or never
  // unmounted), kUnsupported (a null device).
  static Result<std::unique_ptr<FlatStore>> mount(BlockDevice& device, WritebackEngine& engine,
                                                  MemoryBudget& budget, const FlatStoreOptions& options);
  // Writes everything, then the index, and marks the store clean. All files must be closed. An error means
  // that it is still mounted; kBusy: a file is open that was unlinked. A full device has room for the index.
  Result<void> unmount();
  // Without unmount(): what is dirty is dropped. Before the engine stops, with every file closed and no call
  // under way.
  ~FlatStore() override;

  // ---- files ----
  // kExists, kNoSpace, kNoMemory; may wait while too much is dirty. `task`: as for write().
  Result<FlatFile> create(FileKey key, TaskThrottle* task = nullptr);
  Result<FlatFile> open(FileKey key);    // kNotFound
  // All of `data`, or an error when nothing could be written; fewer bytes when an error came after some.
  // May wait while too much is dirty. Extends the file; a gap reads as zeros and takes no space.
  // `task`: the writer's state for the throttle, if it keeps one.
  Result<std::uint64_t> write(FlatFile& file, std::uint64_t offset, std::span<const std::byte> data,
                              TaskThrottle* task = nullptr);
  Result<std::uint64_t> read(FlatFile& file, std::uint64_t offset, std::span<std::byte> into);
  // The file is on stable storage when this returns well. Errors since this handle last heard of any.
  Result<void> fsync(FlatFile& file);
  Result<std::uint64_t> stat(FileKey key);  // its size
  // Not found any more; its dirt is dropped and its space free when the last handle is closed.
  Result<void> unlink(FileKey key);

  // ---- the store ----
  Result<void> sync();
  // Of one owner: costs what is dirty of his, whatever others have.
  Result<void> sync_owner(std::uint32_t owner) { return engine_.sync(*contexts_[owner]); }
  // For a writer of that owner (0 to owners() - 1). With one owner there is nobody to vote for.
  TaskThrottle make_task(std::uint32_t owner = 0) {
    return contexts_.size() > 1 ? engine_.make_task(context_ids_[owner]) : engine_.make_task();
  }
  std::uint32_t owner_of(const FlatFile& file) const;
  // Drops clean inodes and pages, so that reads come from the device. Call sync() first.
  void drop_caches();
  FlatStoreStats stats() const;
  PageCacheStats page_stats() const { return pages_->stats(); }
  InodeCacheStats inode_stats() const { return inodes_->stats(); }
  PageArenaStats arena_stats() const { return arena_->stats(); }
  std::uint32_t owners() const { return static_cast<std::uint32_t>(contexts_.size()); }
  WritebackContext& context(std::uint32_t owner) const { return *contexts_[owner]; }
  // At rest: all dirt written or dropped.
  void check_invariants() const;

 private:
  FlatStore(BlockDevice& device, WritebackEngine& engine, MemoryBudget& budget,
            const FlatStoreOptions& options);
  static Result<std::unique_ptr<FlatStore>> make(BlockDevice& device, WritebackEngine& engine,
                                                 MemoryBudget& budget, const FlatStoreOptions& options);
  Result<void> load_index(const FlatHeader& header);
  Result<void> save_index(FlatHeader& header, std::vector<BlockExtent>& extents);
  void abandon();
  std::uint16_t context_id(FileKey key) const { return context_ids_[key.thread() % context_ids_.size()]; }
  FlatFile open_held(InodeHold inode) const;
  void give_to(Inode& inode, const TaskThrottle& task);
  bool settle_space();
  Result<std::uint64_t> write_piece(Inode& inode, std::uint64_t offset, std::span<const std::byte> data,
                                    Instant now, TaskThrottle* task);

  // WritebackTarget
  WriteEstimate estimate(const DirtyObject& object) const override;
  void write_batch(Batch& batch) override;
  void end_batch(Batch& batch) override;
  bool give_up(const DirtyObject& object, Error error, std::uint32_t attempts) override;
  SwitchHold begin_switch(const DirtyObject& object) override;
  void end_switch(const SwitchHold& hold) override;
  Result<void> flush() override;
  void gather(BatchInFlight& io, Batch& batch);
  void place(BatchInFlight& io, Batch& batch);

  // InodeSource
  Result<void> load(Inode& inode) override;
  Result<void> read_pages(Inode& inode, std::uint64_t first_index, std::span<Page* const> pages) override;
  void truncate(Inode& inode, std::uint64_t new_size) override;
  void evict(Inode& inode) override;
  void inactivate(Inode& inode) override;

  // ---- constant after construction ----
  BlockDevice& device_;
  WritebackEngine& engine_;
  MemoryBudget& budget_;
  const FlatStoreOptions options_;
  const std::uint64_t device_blocks_;
  std::vector<WritebackContext*> contexts_;
  std::vector<std::uint16_t> context_ids_;

  BlockAllocator allocator_;
  BatchPool batches_;
  EngineSink sink_;
  std::unique_ptr<PageArena> arena_;
  std::unique_ptr<PageCache> pages_;
  std::unique_ptr<InodeCache> inodes_;
  std::unique_ptr<FileIndex> index_;
  bool mounted_ = false;
  // Writes that fail are given up from here on. Release in abandon() pairs with acquire in give_up()
  // and flush().
  Atomic<bool> giving_up_{false};

  ShardedCounter user_write_bytes_, user_read_bytes_;
};

}  // namespace tidewheel
