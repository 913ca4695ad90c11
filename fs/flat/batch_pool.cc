#include "fs/flat/batch_pool.h"

#include <algorithm>

#include "base/assert.h"

namespace tidewheel {

namespace {

LockClass pool_class("flat-batches", LockRank::kStore);

}  // namespace

BatchPool::BatchPool() : lock_(pool_class) {}

BatchInFlight& BatchPool::take() {
  MutexLock lock(lock_);
  if (free_.empty()) {
    all_.push_back(std::make_unique<BatchInFlight>());
    return *all_.back();
  }
  BatchInFlight& batch = *free_.back();
  free_.pop_back();
  return batch;
}

void BatchPool::put(BatchInFlight& batch) {
  MutexLock lock(lock_);
  free_.push_back(&batch);
}

void BatchInFlight::clear() {
  batch = nullptr;
  pages.clear();
  parts.clear();
  pieces.clear();
  fresh.clear();
  mapped.clear();
  blocks.clear();
  segments.clear();
  ios.clear();
}

void BatchInFlight::build_ios() {
  // By place on the device: what is overwritten joins its neighbours. Pieces of one slot stay in order
  // where they are neighbours, since blocks and pages ascend together within an extent.
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.block < b.block; });
  constexpr std::uint64_t kMaxIoPages = kMaxIoBytes / kBlockBytes;
  std::uint64_t end_block = 0, io_pages = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    TW_DASSERT(i == 0 || piece.block >= pieces[i - 1].block + pieces[i - 1].pages, "two pages share a block");
    for (std::size_t done = 0; done < piece.pages;) {
      if (ios.empty() || piece.block + done != end_block || io_pages == kMaxIoPages) {
        Io& io = ios.emplace_back();
        io.batch = this;
        io.first_piece = i;
        io.first_segment = segments.size();
        io.request.op = IoOp::kWrite;
        io.request.cause = IoCause::kData;
        io.request.offset_bytes = (piece.block + done) * kBlockBytes;
        io_pages = 0;
      }
      Io& io = ios.back();
      io.last_piece = i;
      const std::size_t end = done + std::min<std::uint64_t>(piece.pages - done, kMaxIoPages - io_pages);
      io_pages += end - done;
      end_block = piece.block + end;
      for (; done < end; ++done) {
        std::byte* data = pages.pages[piece.first_page + done]->data;
        if (io.segments != 0) {
          IoSegment& last = segments.back();
          if (static_cast<std::byte*>(last.data) + last.len_bytes == data) {
            last.len_bytes += kBlockBytes;
            continue;
          }
        }
        segments.push_back({data, kBlockBytes});
        ++io.segments;
      }
    }
  }
  for (Io& io : ios) {
    io.request.segments = {segments.data() + io.first_segment, io.segments};
    io.request.done = request_done;
    io.request.owner = &io;
  }
}

void BatchInFlight::submit(BlockDevice& device) {
  pending.store(static_cast<std::uint32_t>(ios.size()) + 1, std::memory_order_relaxed);
  for (Io& io : ios) device.submit(io.request);
  drop_one();
}

void BatchInFlight::request_done(IoRequest& request, Result<void> result) {
  Io& io = *static_cast<Io*>(request.owner);
  io.result = result;
  io.batch->drop_one();
}

void BatchInFlight::drop_one() {
  if (pending.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  for (const Io& io : ios) {
    if (io.result) continue;
    for (std::size_t p = io.first_piece; p <= io.last_piece; ++p) {
      WriteSlot& slot = batch->slots()[pieces[p].slot];
      slot.outcome = WriteOutcome::kFailed;
      slot.error = io.result.error();
    }
  }
  batch->complete();
}

}  // namespace tidewheel
