// fs/trans/intent_item.h: what a chain of transactions has begun and must finish, and the word that it has.
//
// An intent is logged with the first transaction of a chain, the done item with the last; recovery finishes
// intents without one. Both in one checkpoint: neither is written.
// Owns:      an intent lives until its checkpoint has ended and its done item has (two references); a done
//            item until its checkpoint has ended, or its transaction without it.
// Threads:   a chain is one thread's; the log's completion beside it.
// Errors:    a chain that can't go on ends in a shutdown; IntentItem::forsake() then stands for the done
//            item.
// Invariant: an intent pins the log's tail until its done item is stable: it has no home, so push() can only
//            answer kPinned.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "fs/format/log_items.h"
#include "fs/item/log_item.h"

namespace tidewheel {

class Ail;

class IntentItem final : public LogItem {
 public:
  // `things`: as they lie in the log behind disk::IntentFormat, `count` of them.
  IntentItem(Ail& ail, disk::LogItemType type, std::uint64_t id, std::uint32_t count,
             std::span<const std::byte> things);

  std::uint64_t id() const { return id_; }
  std::uint32_t count() const { return count_; }
  disk::LogItemType type() const { return type_; }
  // No done item will come: the mount is shutting down, or the transaction that had it never committed.
  void forsake() { drop_reference(); }

  LogSize size() const noexcept override;
  void format(LogVectorWriter& out) noexcept override;
  void pin() noexcept override {}
  void committing(std::uint64_t) noexcept override {}
  void release() noexcept override;  // its transaction was cancelled: gone, with its chain
  void unpin(bool aborted) noexcept override;
  PushResult push(PushScope&) noexcept override { return PushResult::kPinned; }
  void abandon() noexcept override {}  // the chain forsakes it

 private:
  friend class DoneItem;
  ~IntentItem() = default;
  void drop_reference();

  Ail& ail_;
  const disk::LogItemType type_;
  const std::uint64_t id_;
  const std::uint32_t count_;
  const std::vector<std::byte> things_;
  Atomic<std::uint32_t> references_{2};  // acq_rel: the last sees what the other did
};

class DoneItem final : public LogItem {
 public:
  DoneItem(disk::LogItemType type, IntentItem& intent) : type_(type), intent_(intent) {}

  LogItem* intent() noexcept override { return &intent_; }
  LogSize size() const noexcept override { return {1, sizeof(disk::DoneFormat)}; }
  void format(LogVectorWriter& out) noexcept override;
  void pin() noexcept override {}
  void committing(std::uint64_t) noexcept override {}
  void release() noexcept override { end(); }
  Lsn committed(Lsn) noexcept override { return kNeverLsn; }
  void unpin(bool) noexcept override { end(); }
  PushResult push(PushScope&) noexcept override { return PushResult::kPinned; }

 private:
  ~DoneItem() = default;
  void end();

  const disk::LogItemType type_;
  IntentItem& intent_;
};

}  // namespace tidewheel
