// The writeback target: places the dirty pages of a batch together, writes them as few large requests, and
// enters them into the index when they are on the device.
#include <algorithm>

#include "fs/flat/flat_store.h"

namespace tidewheel {

// By key: files made together are placed together.
WriteEstimate FlatStore::estimate(const DirtyObject& object) const {
  const Inode& inode = Inode::from(object);
  return {.sort_key = inode.number(), .bytes = inode.mapping().dirty_bytes()};
}

void FlatStore::write_batch(Batch& batch) {
  BatchInFlight& io = batches_.take();
  io.clear();
  io.batch = &batch;
  batch.target_data = &io;
  gather(io, batch);
  place(io, batch);
  io.build_ios();
  batch.io = {.pages = io.pages.pages.size(), .bytes = io.pages.bytes(), .ios = io.ios.size()};
  io.submit(device_);
}

// Dirty pages come under writeback, slot by slot; from here on their memory stands still, and the engine
// counts them as being written.
void FlatStore::gather(BatchInFlight& io, Batch& batch) {
  const bool integrity = batch.kind() == WorkKind::kSync || batch.kind() == WorkKind::kFsync;
  for (WriteSlot& slot : batch.slots()) {
    BatchInFlight::Part& part = io.parts.emplace_back();
    slot.outcome = WriteOutcome::kWritten;
    if (slot.object == nullptr) continue;
    Inode& inode = Inode::from(*slot.object);
    // The size before the pages: whoever extends the file afterwards finds its class bits cleared and marks
    // it dirty again. Under the lock: who extended it before, and found the bits still set, has let go of the
    // lock by now, so its size is seen; a load by itself may answer the size of before.
    if (integrity) {
      part.size = pages_->tag_to_write(inode, io.pages);
    } else {
      MutexLock lock(inode.mapping().mutex());
      part.size = inode.size();
    }
    part.first_page = io.pages.pages.size();
    io.pages.more = false;
    const std::uint64_t most = std::clamp<std::uint64_t>(slot.limit_bytes / kPageBytes, 1, UINT32_MAX);
    if (inode.mapping().dirty_pages() != 0) {
      pages_->begin_writeback(inode, io.pages, static_cast<std::uint32_t>(most),
                              integrity ? PageTag::kToWrite : PageTag::kDirty);
    }
    part.pages = io.pages.pages.size() - part.first_page;
    if (!io.pages.more) continue;
    // Up to there the file is on the device, once this part is.
    part.size = std::min(part.size, io.pages.first_left * kPageBytes);
    slot.outcome = WriteOutcome::kPartial;
    slot.written_bytes = part.pages * kPageBytes;
  }
}

// Finds each page's block. Pages that have none get theirs from one allocation for the whole batch, in the
// order of the slots, so that they follow each other on the device.
void FlatStore::place(BatchInFlight& io, Batch& batch) {
  std::uint64_t wanted = 0;
  for (std::uint32_t i = 0; i < io.parts.size(); ++i) {
    const BatchInFlight::Part& part = io.parts[i];
    if (part.pages == 0) continue;
    const Inode& inode = Inode::from(*batch.slots()[i].object);
    const std::span<Page* const> pages(io.pages.pages.data() + part.first_page, part.pages);
    std::size_t at = part.first_page;
    for_each_run(pages, [&](std::uint64_t first_index, std::span<Page* const> run) {
      io.mapped.clear();
      index_->map(inode, first_index, run.size(), io.mapped);
      for (const FileExtent& extent : io.mapped) {
        io.pieces.push_back({extent.block, at, extent.pages, i});
        if (extent.block == 0) wanted += extent.pages;
        at += extent.pages;
      }
    });
  }
  if (wanted == 0) return;
  allocator_.allocate(wanted, io.blocks);

  std::size_t next = 0;  // extent in io.blocks, eaten from the front
  const std::size_t pieces = io.pieces.size();
  for (std::size_t p = 0; p < pieces; ++p) {
    if (io.pieces[p].block != 0) continue;
    const BatchInFlight::Piece whole = io.pieces[p];
    BatchInFlight::Part& part = io.parts[whole.slot];
    if (part.fresh == 0) part.first_fresh = io.fresh.size();
    for (std::size_t done = 0; done < whole.pages;) {
      BlockExtent& blocks = io.blocks[next];
      const std::uint64_t n = std::min<std::uint64_t>(blocks.blocks, whole.pages - done);
      const BatchInFlight::Piece piece{blocks.block, whole.first_page + done, n, whole.slot};
      // The first part takes the piece's own place; others go to the end, to be sorted by block anyway.
      if (done == 0) {
        io.pieces[p] = piece;
      } else {
        io.pieces.push_back(piece);
      }
      io.fresh.push_back({io.pages.pages[piece.first_page]->index, piece.block, n});
      ++part.fresh;
      blocks.block += n;
      blocks.blocks -= n;
      if (blocks.blocks == 0) ++next;
      done += n;
    }
  }
}

void FlatStore::end_batch(Batch& batch) {
  BatchInFlight& io = *static_cast<BatchInFlight*>(batch.target_data);
  batch.target_data = nullptr;
  io.blocks.clear();
  for (std::size_t i = 0; i < io.parts.size(); ++i) {
    WriteSlot& slot = batch.slots()[i];
    if (slot.object == nullptr) continue;
    const BatchInFlight::Part& part = io.parts[i];
    Inode& inode = Inode::from(*slot.object);
    if (contexts_.size() > 1 && slot.outcome == WriteOutcome::kWritten) {
      slot.move_to = inode.owner_vote.round_ended(inode.context());
    }
    const std::span<Page* const> pages(io.pages.pages.data() + part.first_page, part.pages);
    const std::span<const FileExtent> fresh(io.fresh.data() + part.first_fresh, part.fresh);
    const bool written = slot.outcome == WriteOutcome::kWritten || slot.outcome == WriteOutcome::kPartial;
    if (written) {
      // Data is on the device: now the index, and then the pages may leave memory.
      index_->commit(inode, fresh, part.size);
    } else {
      std::uint64_t fresh_pages = 0;
      for (const FileExtent& extent : fresh) {
        io.blocks.push_back({extent.block, extent.pages});
        fresh_pages += extent.pages;
      }
      // They stay reserved, for another attempt, unless there is none.
      if (slot.outcome == WriteOutcome::kGivenUp && fresh_pages != 0) {
        allocator_.free(io.blocks.data() + io.blocks.size() - fresh.size(), fresh.size());
        io.blocks.resize(io.blocks.size() - fresh.size());
        index_->unreserve(inode, fresh_pages);
      }
    }
    pages_->end_writeback(inode, pages, written || slot.outcome == WriteOutcome::kGivenUp);
    inodes_->end_write(inode);
  }
  if (!io.blocks.empty()) allocator_.free(io.blocks.data(), io.blocks.size());
  batches_.put(io);
}

// The lock under which the page cache accounts for the inode's pages. It is a stripe's, not the inode's.
SwitchHold FlatStore::begin_switch(const DirtyObject& object) TW_NO_THREAD_SAFETY_ANALYSIS {
  const Mapping& mapping = Inode::from(object).mapping();
  Mutex& lock = mapping.mutex();
  lock.lock();
  return {mapping.dirty_bytes(), &lock};
}

void FlatStore::end_switch(const SwitchHold& hold) TW_NO_THREAD_SAFETY_ANALYSIS {
  static_cast<Mutex*>(hold.lock)->unlock();
}

bool FlatStore::give_up(const DirtyObject&, Error, std::uint32_t) {
  return giving_up_.load(std::memory_order_acquire);
}

Result<void> FlatStore::flush() {
  // Of an abandoned store nothing needs to be durable, and the device may be what failed.
  if (giving_up_.load(std::memory_order_acquire)) return {};
  return device_.flush();
}

}  // namespace tidewheel
