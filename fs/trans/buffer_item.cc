#include "fs/trans/buffer_item.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/assert.h"
#include "fs/item/log_image.h"
#include "fs/trans/journal.h"

namespace tidewheel {

BufferItem& BufferItem::of(Journal& journal, Buffer& buffer) {
  if (buffer.client() != nullptr) return *static_cast<BufferItem*>(buffer.client());
  return *new BufferItem(journal, buffer);
}

BufferItem::BufferItem(Journal& journal, Buffer& buffer) : journal_(journal), buffer_(buffer) {
  TW_ASSERT(buffer.length_bytes() <= disk::kMaxBufferBytes, "a buffer is longer than its item can say");
  buffer_.hold();
  buffer_.set_client(this);
}

void BufferItem::drop_reference() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  Buffer& buffer = buffer_;
  delete this;
  buffer.release();
}

void BufferItem::detach() {
  buffer_.set_client(nullptr);
  drop_reference();
}

// ---- the transaction ----

void BufferItem::mark_dirty(std::uint32_t first_byte, std::uint32_t last_byte) {
  TW_ASSERT(first_byte <= last_byte, "a range of a buffer is backwards");
  TW_ASSERT(last_byte < buffer_.length_bytes(), "a range goes beyond its buffer");
  TW_ASSERT(!stale(), "a freed buffer is logged");
  if (ordered_) {
    // What it was made from will lie before the tail once this item has moved, and it may not be home by
    // then: from now on all of it is in the log.
    ordered_ = false;
    mark_new();
    first_byte = 0;
    last_byte = buffer_.length_bytes() - 1;
  }
  for (std::uint32_t chunk = first_byte >> disk::kDirtyChunkLog; chunk <= last_byte >> disk::kDirtyChunkLog;
       ++chunk) {
    dirty_[chunk / 32] |= 1U << chunk % 32;
  }
}

void BufferItem::mark_stale() {
  flags_on_disk_ = static_cast<std::uint16_t>((flags_on_disk_ & ~disk::kBufferNew) | disk::kBufferCancel);
  dirty_.fill(0);
  ordered_ = false;  // that it was freed is logged
  buffer_.mark_stale();
}

void BufferItem::mark_ordered() {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  if (next_run(0, first, count)) {
    // The tail passes what the log holds of it when this item moves.
    mark_dirty(0, buffer_.length_bytes() - 1);
    return;
  }
  ordered_ = true;
}

std::uint32_t BufferItem::next_chunk(std::uint32_t from, bool dirty) const {
  while (from < chunks()) {
    const std::uint32_t word = dirty ? dirty_[from / 32] : ~dirty_[from / 32];
    const std::uint32_t rest = word >> from % 32;
    if (rest != 0) return std::min(from + static_cast<std::uint32_t>(std::countr_zero(rest)), chunks());
    from = (from / 32 + 1) * 32;
  }
  return chunks();
}

bool BufferItem::next_run(std::uint32_t from, std::uint32_t& first, std::uint32_t& count) const {
  first = next_chunk(from, true);
  count = next_chunk(first, false) - first;
  return count != 0;
}

LogItem::LogSize BufferItem::size() const noexcept {
  if (ordered_) return {};
  LogSize size{1, sizeof(disk::BufferItemFormat)};
  if (stale()) return size;
  size.bytes += (chunks() + 31) / 32 * 4;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  for (std::uint32_t at = 0; next_run(at, first, count); at = first + count) {
    ++size.regions;
    size.bytes += count * disk::kDirtyChunkBytes;
  }
  return size;
}

void BufferItem::format(LogVectorWriter& out) noexcept {
  if (ordered_) return;
  const LogSize all = size();
  const std::uint32_t words = stale() ? 0 : (chunks() + 31) / 32;
  const std::span<std::byte> head = out.begin_region(sizeof(disk::BufferItemFormat) + words * 4);
  auto& format = *reinterpret_cast<disk::BufferItemFormat*>(head.data());
  format = disk::BufferItemFormat{};
  format.item.type = static_cast<std::uint16_t>(disk::LogItemType::kBuffer);
  format.item.regions = static_cast<std::uint16_t>(all.regions);
  format.flags = flags_on_disk_;
  format.dirty_words = static_cast<std::uint16_t>(words);
  format.length_blocks = buffer_.length_blocks();
  format.block_type = static_cast<std::uint32_t>(buffer_.type());
  format.address = buffer_.address().value;
  for (std::uint32_t i = 0; i < words; ++i) {
    const disk::Le32 word(dirty_[i]);
    std::memcpy(head.data() + sizeof format + i * 4, &word, sizeof word);
  }
  out.end_region(static_cast<std::uint32_t>(head.size()));
  if (stale()) return;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  for (std::uint32_t at = 0; next_run(at, first, count); at = first + count) {
    out.region(buffer_.bytes().subspan(std::size_t{first} * disk::kDirtyChunkBytes,
                                       std::size_t{count} * disk::kDirtyChunkBytes));
  }
}

void BufferItem::pin() noexcept {
  references_.fetch_add(1, std::memory_order_relaxed);
  pins_.fetch_add(1, std::memory_order_relaxed);
  buffer_.pin();
}

void BufferItem::committing(std::uint64_t) noexcept {
  logged_ = true;
  if (stale()) stale_logged_.store(true, std::memory_order_release);
  // A freed block's buffer stays locked: unpin() unlocks it.
  if (kept_ || stale()) return;
  Buffer& buffer = buffer_;
  buffer.unlock();
  buffer.release();
}

void BufferItem::release() noexcept {
  if (kept_) return;
  Buffer& buffer = buffer_;
  // Nothing of it is in the log or on its way home: the next transaction makes a new one.
  if (!logged_) detach();
  buffer.unlock();
  buffer.release();
}

// ---- the log's completion ----

Lsn BufferItem::committed(Lsn start_lsn) noexcept {
  // A freed block has no home to go to. Until the checkpoint that says so is stable it is not free.
  const bool freed = stale_logged_.load(std::memory_order_acquire) &&
                     pins_.load(std::memory_order_relaxed) == 1;
  return freed ? kNeverLsn : start_lsn;
}

void BufferItem::unpin(bool aborted) noexcept {
  const bool freed = stale_logged_.load(std::memory_order_acquire);
  const bool last = pins_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  Buffer& buffer = buffer_;
  if (freed && last) {
    // What an earlier checkpoint had logged of it must not go home any more.
    LogItem* const one[] = {this};
    journal_.ail().remove(one);
    detach();
    buffer.unpin();
    buffer.unlock();
    buffer.release();  // the hold that went with the lock
    drop_reference();
    return;
  }
  if (aborted && !noted_aborted_) {
    noted_aborted_ = true;
    references_.fetch_add(1, std::memory_order_relaxed);
    journal_.note_aborted(*this);
  }
  buffer.unpin();
  drop_reference();
}

// ---- on its way home ----

PushResult BufferItem::push(PushScope&) noexcept {
  if (buffer_.pinned()) return PushResult::kPinned;
  if (!buffer_.try_lock()) return PushResult::kLocked;
  PushResult result = PushResult::kFlushing;
  if (buffer_.pinned()) {  // by a commit between the two looks
    result = PushResult::kPinned;
  } else if (!buffer_.on_delwri()) {
    // Inodes carry LSNs of their own.
    buffer_.set_write_lsn((flags_on_disk_ & disk::kBufferInode) != 0 ? disk::kKeepLsn : lsn);
    set(kFlushing);
    journal_.pushed_.add(buffer_);
    clear(kFailed);  // after the queue has its hold
    result = PushResult::kPushed;
  }
  buffer_.unlock();
  return result;
}

void BufferItem::written(Buffer&) {
  // Locked since before the write began: nobody has changed or relogged it meanwhile.
  LogItem* const one[] = {this};
  journal_.ail().remove(one);
  clear(kFlushing);
  dirty_.fill(0);
  logged_ = false;
  ordered_ = false;
  flags_on_disk_ = 0;
  detach();
}

void BufferItem::write_failed(Buffer&, Error error, bool retry) {
  clear(kFlushing);
  if (retry) {
    set(kFailed);
    return;
  }
  journal_.shut_down(error);
}

// ---- a shutdown's end ----

void BufferItem::abandon() noexcept {
  if (buffer_.client() == this) detach();
}

void BufferItem::let_go_of_aborted() {
  if (buffer_.client() == this) detach();
  drop_reference();
}

}  // namespace tidewheel
