// fs/flat/batch_pool.h: batches of the flat store while they are being written: pages, blocks, requests.
// Owns:      its BatchInFlight objects and their vectors, which keep their memory from batch to batch.
// Threads:   take() and put() from any thread. A BatchInFlight is filled by one flusher, then only its
//            requests' completions touch it, and after the last of them the flusher that ends the batch.
// Locks:     lock_ (rank kStore), once per batch each.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "base/sync.h"
#include "fs/block/block_device.h"
#include "fs/flat/file_extents.h"
#include "inode/page_cache.h"
#include "writeback/batch.h"

namespace tidewheel {

struct BatchInFlight {
  // The part of one slot: ranges in the arrays below.
  struct Part {
    std::uint64_t size = 0;  // how much of the file is on the device once this part is
    std::size_t first_page = 0, pages = 0;
    std::size_t first_fresh = 0, fresh = 0;
  };
  // Pages of one slot that lie together on the device and in the file.
  struct Piece {
    std::uint64_t block = 0;
    std::size_t first_page = 0, pages = 0;  // in `pages`
    std::uint32_t slot = 0;
  };
  struct Io {
    IoRequest request;
    BatchInFlight* batch = nullptr;
    std::size_t first_piece = 0, last_piece = 0;  // the outer ones perhaps in part
    std::size_t first_segment = 0, segments = 0;
    Result<void> result;  // the completion's, read after the last one
  };

  Batch* batch = nullptr;
  WritebackPages pages;             // of all slots, slot by slot, ascending
  std::vector<Part> parts;          // one per slot
  std::vector<Piece> pieces;        // first in file order, then sorted by block
  std::vector<FileExtent> fresh;    // newly placed, slot by slot, ascending
  std::vector<FileExtent> mapped;   // of the slot at hand
  std::vector<BlockExtent> blocks;  // from the allocator
  std::vector<IoSegment> segments;
  std::vector<Io> ios;
  // Requests under way, and one for who submits them. Whoever takes it to 0 completes the batch: acq_rel,
  // so that it sees every result.
  Atomic<std::uint32_t> pending{0};

  void clear();
  // Groups the sorted pieces into requests of at most kMaxIoBytes and their segments.
  void build_ios();
  void submit(BlockDevice& device);
  // 4 MiB: past that the measured devices gain nothing; 1,024 pages are also the most segments that the
  // kernel takes at once.
  static constexpr std::uint64_t kMaxIoBytes = 4ULL << 20;

 private:
  static void request_done(IoRequest& request, Result<void> result);
  void drop_one();
};

class BatchPool {
 public:
  BatchPool();
  BatchInFlight& take() TW_EXCLUDES(lock_);
  void put(BatchInFlight& batch) TW_EXCLUDES(lock_);

 private:
  Mutex lock_ TW_ACQUIRED_AFTER(kRankContext) TW_ACQUIRED_BEFORE(kRankInodeHash);
  std::vector<std::unique_ptr<BatchInFlight>> all_ TW_GUARDED_BY(lock_);
  std::vector<BatchInFlight*> free_ TW_GUARDED_BY(lock_);
};

}  // namespace tidewheel
