#include "fs/trans/transaction.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/thread_state.h"

namespace tidewheel {

Result<Transaction> Transaction::begin(Journal& journal, const Reservation& reservation) {
  TW_DASSERT(this_thread_state().transactions == 0, "a thread begins a transaction within a transaction");
  auto ticket = journal.log().reserve(reservation.payload_bytes, reservation.units, reservation.rolls);
  if (!ticket) return Unexpected(ticket.error());
  ++this_thread_state().transactions;
  return Transaction(journal, *ticket);
}

Transaction::Transaction(Transaction&& other) noexcept
    : journal_(std::exchange(other.journal_, nullptr)),
      ticket_(std::exchange(other.ticket_, {})),
      items_(std::move(other.items_)),
      by_address_(std::move(other.by_address_)),
      dirty_(std::exchange(other.dirty_, false)) {
  other.items_.clear();
}

// ---- joining ----

// Its item knows the place, and is this transaction's as long as the buffer is.
Transaction::Joined& Transaction::joined(const Buffer& buffer) {
  const auto* const item = static_cast<const BufferItem*>(buffer.client());
  TW_ASSERT(item != nullptr && item->place() < items_.size() && items_[item->place()].buffer == &buffer,
            "a buffer is changed that has not joined the transaction");
  return items_[item->place()];
}

Buffer* Transaction::find(DeviceAddress address) const {
  if (items_.size() > kFew) {
    const auto found = by_address_.find(address.value);
    return found == by_address_.end() ? nullptr : found->second;
  }
  for (const Joined& joined : items_) {
    if (joined.buffer != nullptr && joined.buffer->address() == address) return joined.buffer;
  }
  return nullptr;
}

Transaction::Joined& Transaction::add(const Joined& joined) {
  Joined& added = items_.emplace_back(joined);
  added.number = static_cast<std::uint32_t>(items_.size() - 1);
  if (added.buffer != nullptr) static_cast<BufferItem*>(added.item)->set_place(added.number);
  if (items_.size() <= kFew) return added;
  const std::size_t not_indexed = items_.size() == kFew + 1 ? 0 : added.number;
  for (std::size_t i = not_indexed; i < items_.size(); ++i) {
    if (items_[i].buffer != nullptr) by_address_.emplace(items_[i].buffer->address().value, items_[i].buffer);
  }
  return added;
}

Buffer* Transaction::join_buffer(LockedBuffer buffer) {
  add({.item = &BufferItem::of(*journal_, *buffer), .buffer = buffer.get()});
  return buffer.detach();  // hold and lock are the item's to give up
}

Result<Buffer*> Transaction::read(DeviceAddress address, std::uint32_t length_blocks, disk::BlockType type,
                                  std::uint64_t owner) {
  if (Buffer* const mine = find(address)) return mine;
  auto buffer = journal_->cache().read(journal_->target(), address, length_blocks, type, owner);
  if (!buffer) return Unexpected(buffer.error());
  return join_buffer(std::move(*buffer));
}

Result<Buffer*> Transaction::make(DeviceAddress address, std::uint32_t length_blocks, disk::BlockType type,
                                  std::uint64_t owner) {
  Buffer* made = find(address);
  if (made == nullptr) {
    auto buffer = journal_->cache().get_for_overwrite(journal_->target(), address, length_blocks);
    if (!buffer) return Unexpected(buffer.error());
    made = join_buffer(std::move(*buffer));
  }
  made->set_type(type, owner);
  joined(*made).made = true;
  return made;
}

void Transaction::join(LogItem& item) { add({.item = &item}); }

// ---- changing ----

Transaction::Joined& Transaction::changed(Buffer& buffer) {
  Joined& one = joined(buffer);
  if (one.made) {
    buffer.set_done();
    static_cast<BufferItem*>(one.item)->mark_new();
  }
  one.dirty = dirty_ = true;
  return one;
}

void Transaction::log(Buffer& buffer, std::uint32_t first_byte, std::uint32_t last_byte) {
  static_cast<BufferItem*>(changed(buffer).item)->mark_dirty(first_byte, last_byte);
}

void Transaction::log(LogItem& item) {
  const auto found =
      std::find_if(items_.begin(), items_.end(), [&](const Joined& one) { return one.item == &item; });
  TW_ASSERT(found != items_.end(), "an item is logged that has not joined the transaction");
  found->dirty = dirty_ = true;
}

void Transaction::invalidate(Buffer& buffer) {
  Joined& one = joined(buffer);
  TW_ASSERT(!one.kept, "a buffer is freed that is to stay locked");
  static_cast<BufferItem*>(one.item)->mark_stale();
  one.dirty = dirty_ = true;
}

void Transaction::order(Buffer& buffer) {
  static_cast<BufferItem*>(changed(buffer).item)->mark_ordered();
}

void Transaction::keep(Buffer& buffer) {
  Joined& one = joined(buffer);
  TW_ASSERT(!static_cast<BufferItem*>(one.item)->stale(), "a freed buffer's lock is the log's to give up");
  one.kept = true;
  static_cast<BufferItem*>(one.item)->set_kept(true);
}

IntentItem& Transaction::log_intent(disk::LogItemType type, std::uint64_t id, std::uint32_t count,
                                    std::span<const std::byte> things) {
  auto* const intent = new IntentItem(journal_->ail(), type, id, count, things);
  add({.item = intent, .dirty = true});
  dirty_ = true;
  return *intent;
}

void Transaction::log_done(disk::LogItemType type, IntentItem& intent) {
  add({.item = new DoneItem(type, intent), .dirty = true});
  dirty_ = true;
}

// ---- ending ----

void Transaction::release(const Joined& one) {
  // To have been made, and not a byte of it logged: nobody knows what its memory holds.
  if (one.made && !one.dirty) static_cast<BufferItem*>(one.item)->forget_content();
  one.item->release();
}

Result<std::uint64_t> Transaction::commit_items(bool keep) {
  if (!keep) {
    for (Joined& one : items_) {
      if (one.kept) static_cast<BufferItem*>(one.item)->set_kept(one.kept = false);
    }
  }
  for (Joined& one : items_) one.sort_key = one.item->sort_key();
  // Not std::stable_sort: that allocates.
  std::sort(items_.begin(), items_.end(), [](const Joined& a, const Joined& b) {
    return a.sort_key != b.sort_key ? a.sort_key < b.sort_key : a.number < b.number;
  });
  boost::container::small_vector<LogItem*, kFew> logged;
  for (const Joined& one : items_) {
    if (!one.dirty) continue;
    one.item->precommit();
    logged.push_back(one.item);
  }
  // From here on what was not kept is no longer this thread's.
  for (const Joined& one : items_) {
    if (!one.dirty && !one.kept) release(one);
  }
  boost::container::small_vector<Joined, kFew> kept;
  for (const Joined& one : items_) {
    if (one.kept) kept.push_back(one);
  }
  items_.clear();
  by_address_.clear();
  for (Joined& one : kept) {
    one.dirty = false;
    add(one);
  }
  dirty_ = false;
  return logged.empty() ? 0 : journal_->log().commit(std::span(logged.data(), logged.size()), ticket_);
}

Result<std::uint64_t> Transaction::commit() {
  TW_ASSERT(journal_ != nullptr, "a transaction commits that has ended");
  if (dirty_ && journal_->is_shut_down()) {
    cancel();
    return TW_FAIL(kShutDown);
  }
  const Result<std::uint64_t> sequence = commit_items(false);
  end();
  return sequence;
}

Result<std::uint64_t> Transaction::roll() {
  TW_ASSERT(journal_ != nullptr, "a transaction rolls that has ended");
  if (journal_->is_shut_down()) {
    cancel();
    return TW_FAIL(kShutDown);
  }
  const Result<std::uint64_t> sequence = commit_items(true);
  if (const Result<void> more = journal_->log().roll(ticket_); !more) {
    cancel();
    return Unexpected(more.error());
  }
  return sequence;
}

void Transaction::cancel() {
  if (journal_ == nullptr) return;
  // Before anything is unlocked: nobody may see, let alone log or write, what can't be taken back. Also where
  // the log is dead already: whoever has found that may not have come to the buffers yet.
  if (dirty_) journal_->shut_down(Error{Reason::kShutDown, 0, 0});
  for (const Joined& one : items_) {
    if (one.kept) static_cast<BufferItem*>(one.item)->set_kept(false);
    release(one);
  }
  items_.clear();
  by_address_.clear();
  dirty_ = false;
  end();
}

void Transaction::end() {
  journal_->log().end(ticket_);
  journal_ = nullptr;
  --this_thread_state().transactions;
}

}  // namespace tidewheel
