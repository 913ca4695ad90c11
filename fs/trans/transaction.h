// fs/trans/transaction.h: a change of several objects that happens as a whole or not at all.
//
//   auto t = Transaction::begin(journal, {.payload_bytes = ..., .units = 2, .rolls = true});
//   Buffer* b = t->read(address, 1, type);       joined and locked
//   change b->bytes(); t->log(*b, first, last);
//   t->commit();                                 or roll() and go on, or cancel() while nothing is dirty
//
// Owns:      its ticket; the locks and holds of what has joined, until it ends.
// Threads:   one. A thread has one transaction at a time: a second could wait for the space of the first
//            (asserted in debug builds).
// Locks:     begin() and roll() may sleep for log space: begin() with no buffer and no inode locked, roll()
//            with none that is not relogged by the next commit. Joining may sleep for a buffer.
// Units:     bytes of log for reservations (disk::transaction_sizes()).
// Errors:    begin(), roll(), commit(): kShutDown; read(): the cache's. After an error of read() the
//            transaction goes on; the caller cancels it. From log() on it is dirty: then it commits, or the
//            mount shuts down, before anything is unlocked, for its changes can't be taken back.
// Invariant: commit() cannot fail for want of space: the reservation covered it. A transaction of up to kFew
//            items allocates nothing itself (images: fs/log/cil.h; a clean buffer's item: buffer_item.h).
#pragma once
#include <cstdint>
#include <unordered_map>

#include <boost/container/small_vector.hpp>

#include "fs/trans/buffer_item.h"
#include "fs/trans/intent_item.h"
#include "fs/trans/journal.h"

namespace tidewheel {

struct Reservation {
  std::uint32_t payload_bytes = 0;  // the most that one commit logs
  std::uint32_t units = 1;          // commits that it has space for without waiting
  bool rolls = false;
};

class Transaction {
 public:
  static Result<Transaction> begin(Journal& journal, const Reservation& reservation);
  Transaction(Transaction&& other) noexcept;
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction() { cancel(); }

  // ---- joining: what has joined already is answered again ----
  Result<Buffer*> read(DeviceAddress address, std::uint32_t length_blocks, disk::BlockType type,
                       std::uint64_t owner = disk::kAnyOwner);
  // Content as it happens to be: for a caller that makes the block new. Replayed without reading.
  Result<Buffer*> make(DeviceAddress address, std::uint32_t length_blocks, disk::BlockType type,
                       std::uint64_t owner = disk::kAnyOwner);
  // An item of another kind; its object is locked, and unlocked by committing() or release().
  void join(LogItem& item);

  // ---- changing ----
  void log(Buffer& buffer, std::uint32_t first_byte, std::uint32_t last_byte);
  void log_all(Buffer& buffer) { log(buffer, 0, buffer.length_bytes() - 1); }
  void log(LogItem& item);  // that has joined
  // The block is free once this has committed and is stable; until then its buffer stays locked.
  void invalidate(Buffer& buffer);
  // Goes with this checkpoint, and home by the AIL, without anything of it being logged: what it holds can be
  // made again from something that is logged here. Whoever changes it before it is home logs all of it, by
  // log(), and one that is logged and not home stays so: a reservation counts it as a whole block.
  void order(Buffer& buffer);
  // Stays locked and joined over roll().
  void keep(Buffer& buffer);
  // Intents and done items belong to the log from the commit on.
  IntentItem& log_intent(disk::LogItemType type, std::uint64_t id, std::uint32_t count,
                         std::span<const std::byte> things);
  void log_done(disk::LogItemType type, IntentItem& intent);

  // ---- ending ----
  // Answers the checkpoint's sequence for Log::force(); 0: nothing was dirty.
  Result<std::uint64_t> commit();
  // Commits, and goes on as a new transaction with what was kept; may wait for log space. An error has ended
  // it; what was kept is unlocked.
  Result<std::uint64_t> roll();
  // Nothing dirty: as if it had never been. Dirty: the mount shuts down first. Harmless after the end.
  void cancel();
  bool dirty() const { return dirty_; }

 private:
  struct Joined {
    LogItem* item = nullptr;
    Buffer* buffer = nullptr;    // null: another kind
    std::uint64_t sort_key = 0;  // at the commit
    std::uint32_t number = 0;    // in the order of joining
    bool dirty = false;
    bool kept = false;
    bool made = false;  // make(): its content counts from the first log() or order() on
  };
  // More than these are found through an index, and take memory.
  static constexpr std::size_t kFew = 16;

  Transaction(Journal& journal, const LogTicket& ticket) : journal_(&journal), ticket_(ticket) {}
  Joined& joined(const Buffer& buffer);
  Joined& changed(Buffer& buffer);
  static void release(const Joined& one);
  Buffer* find(DeviceAddress address) const;
  Joined& add(const Joined& joined);
  Buffer* join_buffer(LockedBuffer buffer);
  Result<std::uint64_t> commit_items(bool keep);
  void end();

  Journal* journal_;  // null: ended
  LogTicket ticket_;
  boost::container::small_vector<Joined, kFew> items_;
  std::unordered_map<std::uint64_t, Buffer*> by_address_;  // all, once there are more than kFew items
  bool dirty_ = false;
};

}  // namespace tidewheel
