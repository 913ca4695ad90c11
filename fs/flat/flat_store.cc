// The files of a store: creating, writing, reading, deleting. Writeback is in flat_writeback.cc, opening
// and closing of the store in flat_mount.cc.
#include "fs/flat/flat_store.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace tidewheel {

FlatFile FlatStore::open_held(InodeHold inode) const {
  FlatFile file;
  file.errors_ = ErrorSequence::sample(inode->write_errors);
  file.inode_ = std::move(inode);
  return file;
}

Result<FlatFile> FlatStore::create(FileKey key, TaskThrottle* task) {
  const std::uint16_t id = context_id(key);
  // Before anything is held: room for one more dirty object, so that a flood of empty files waits too.
  auto grant = engine_.balance_dirty_pages(*engine_.context(id), 0, task);
  if (!grant) return Unexpected(grant.error());
  Result<void> begun = index_->begin_create(key);
  if (!begun && begun.error().code == Reason::kNoSpace && settle_space()) begun = index_->begin_create(key);
  TW_TRY(begun);
  auto inode = inodes_->create(key.value, id);
  index_->end_create(key, inode.has_value());
  if (!inode) return Unexpected(inode.error());
  engine_.mark_dirty(**inode, kDirtyMetadata, engine_.clock().now(), &*grant);
  return open_held(std::move(inode).value());
}

Result<FlatFile> FlatStore::open(FileKey key) {
  // The index first: a number that it does not have must not be asked of the cache, which would tell the
  // one who is just creating it that it exists.
  TW_TRY(index_->size_of(key));
  auto inode = inodes_->get(key.value);
  if (!inode) return Unexpected(inode.error());
  return open_held(std::move(inode).value());
}

Result<std::uint64_t> FlatStore::stat(FileKey key) {
  TW_TRY(index_->size_of(key));
  auto inode = inodes_->get(key.value);
  if (!inode) return Unexpected(inode.error());
  return (*inode)->size();
}

Result<std::uint64_t> FlatStore::write(FlatFile& file, std::uint64_t offset,
                                       std::span<const std::byte> data, TaskThrottle* task) {
  if (offset > FileIndex::kMaxFileBytes || data.size() > FileIndex::kMaxFileBytes - offset) {
    return TW_FAIL(kFileTooLarge);
  }
  if (task != nullptr && contexts_.size() > 1) give_to(*file.inode_, *task);
  const Instant now = engine_.clock().now();
  std::uint64_t written = 0;
  while (written < data.size()) {
    const auto piece = write_piece(*file.inode_, offset + written, data.subspan(written), now, task);
    if (!piece && written == 0) return piece;
    if (!piece) break;
    written += *piece;
  }
  user_write_bytes_.add(static_cast<std::int64_t>(written));
  return written;
}

// Who dirties a file first since it came to memory has it: its votes of before are gone, and where files
// leave memory again and again no majority would ever be found.
void FlatStore::give_to(Inode& inode, const TaskThrottle& task) {
  if (task.owner() == kNoContext || !inode.owner_vote.nobodys() || !inode.state().clean()) return;
  if (WritebackContext* his = engine_.context(task.owner())) engine_.switch_owner(inode, *his);
}

// Before it is said that there is no space: a page that is written needs fewer words of the saved index than
// one that is not. False: that would set nothing free.
bool FlatStore::settle_space() {
  if (!FileIndex::worth_writing(engine_.dirty_and_writeback_bytes())) return false;
  // An error is told by fsync and sync to those who wrote; here it only means that nothing was set free.
  return sync().has_value();
}

// Some bytes from the start of `data`; at least one, or an error.
Result<std::uint64_t> FlatStore::write_piece(Inode& inode, std::uint64_t offset,
                                             std::span<const std::byte> data, Instant now,
                                             TaskThrottle* task) {
  const std::uint64_t first_page = offset / kPageBytes;
  const std::uint64_t end_page = (offset + data.size() + kPageBytes - 1) / kPageBytes;
  auto pages = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(end_page - first_page, WriteReservation::kMaxPages));
  WriteReservation reservation;
  for (bool settled = false;;) {
    const Result<void> reserved = index_->begin_write(inode, first_page, pages, reservation);
    if (reserved) break;
    if (reserved.error().code != Reason::kNoSpace) return Unexpected(reserved.error());
    if (!settled) {
      settled = true;
      if (settle_space()) continue;
    }
    // On a device that is nearly full, what still fits is written.
    if (pages == 1) return Unexpected(reserved.error());
    pages /= 2;
  }
  const std::uint64_t piece_end = std::min(offset + data.size(), (first_page + pages) * kPageBytes);
  const auto written = pages_->write(inode, offset, data.first(piece_end - offset), now, task);
  const std::uint64_t bytes = written ? *written : 0;
  index_->end_write(inode, reservation,
                    bytes == 0 ? first_page : (offset + bytes + kPageBytes - 1) / kPageBytes);
  return written;
}

Result<std::uint64_t> FlatStore::read(FlatFile& file, std::uint64_t offset, std::span<std::byte> into) {
  const auto bytes = pages_->read(*file.inode_, offset, into);
  if (bytes) user_read_bytes_.add(static_cast<std::int64_t>(*bytes));
  return bytes;
}

Result<void> FlatStore::fsync(FlatFile& file) { return engine_.fsync(*file.inode_, &file.errors_); }

Result<void> FlatStore::unlink(FileKey key) {
  TW_TRY(index_->size_of(key));
  // In memory first: then it is this inode that is unlinked, and a later open finds nothing to load.
  auto inode = inodes_->get(key.value);
  if (!inode) return Unexpected(inode.error());
  TW_TRY(index_->begin_unlink(key));
  inodes_->unlink(**inode);
  return {};
}

// ---- InodeSource ----

Result<void> FlatStore::load(Inode& inode) {
  const FileKey key{inode.number()};
  const auto size = index_->size_of(key);
  if (!size) return Unexpected(size.error());
  inode.set_size(*size);
  inode.set_context(context_id(key));
  inode.owner_vote.came_to_memory();
  if (const Reason error = index_->take_error(key); error != Reason::kOk) {
    ErrorSequence::record(inode.write_errors, error);
  }
  return {};
}

// Nothing is allocated: a miss is part of a read, of which there are many.
Result<void> FlatStore::read_pages(Inode& inode, std::uint64_t first_index, std::span<Page* const> pages) {
  constexpr std::size_t kPiece = 64;
  std::array<IoSegment, kPiece> segments;
  while (!pages.empty()) {
    const FileExtent part = index_->find(inode, first_index, std::min(pages.size(), kPiece));
    const auto some = pages.first(part.pages);
    if (part.block == 0) {
      for (Page* page : some) std::memset(page->data, 0, kPageBytes);
    } else {
      for (std::size_t i = 0; i < some.size(); ++i) segments[i] = {some[i]->data, kPageBytes};
      IoRequest request{.op = IoOp::kRead,
                        .offset_bytes = part.block * kBlockBytes,
                        .segments = std::span(segments.data(), some.size())};
      TW_TRY(device_.submit_and_wait(request));
    }
    first_index += part.pages;
    pages = pages.subspan(part.pages);
  }
  return {};
}

void FlatStore::truncate(Inode&, std::uint64_t) {
  TW_ASSERT(false, "the flat store has no truncate, so nobody may call the page cache's");
}

void FlatStore::evict(Inode& inode) {
  TW_ASSERT(inode.store_data[1] == 0, "a clean inode leaves memory with blocks reserved");
  if (const Reason error = ErrorSequence::untold(inode.write_errors); error != Reason::kOk) {
    index_->keep_error({inode.number()}, error);
  }
}

void FlatStore::inactivate(Inode& inode) {
  const FileKey key{inode.number()};
  std::vector<BlockExtent> blocks;
  index_->erase(inode, blocks);
  if (blocks.empty()) return;
  // The allocator first: a block may be reserved only when it can be had.
  allocator_.free(blocks.data(), blocks.size());
  std::uint64_t total = 0;
  for (const BlockExtent& extent : blocks) total += extent.blocks;
  index_->give_back(key, total);
}

// ---- the store ----

Result<void> FlatStore::sync() {
  // At one moment for all owners: a file that changes its owner meanwhile is in one of them.
  return contexts_.size() == 1 ? engine_.sync(*contexts_.front()) : engine_.sync_all(*this);
}

std::uint32_t FlatStore::owner_of(const FlatFile& file) const {
  const auto found = std::find(context_ids_.begin(), context_ids_.end(), file.inode_->context());
  return static_cast<std::uint32_t>(found - context_ids_.begin());
}

void FlatStore::drop_caches() {
  while (inodes_->evict(UINT64_MAX) != 0) {
  }
  while (pages_->reclaim_pages(UINT64_MAX) != 0) {
  }
}

FlatStoreStats FlatStore::stats() const {
  FlatStoreStats s;
  s.user_write_bytes = static_cast<std::uint64_t>(user_write_bytes_.sum());
  s.user_read_bytes = static_cast<std::uint64_t>(user_read_bytes_.sum());
  s.index = index_->stats();
  s.free_blocks = index_->unreserved_blocks();
  s.total_blocks = index_->total_blocks();
  s.device = device_.stats();
  return s;
}

void FlatStore::check_invariants() const {
  index_->check_invariants();
  allocator_.check_invariants();
  const std::uint64_t index_words = index_->index_words();
  TW_ASSERT(allocator_.free_blocks() == (index_->unreserved_words() + index_words) / FileIndex::kBlockWords,
            "index and allocator disagree at rest");
  inodes_->check_invariants();
}

}  // namespace tidewheel
