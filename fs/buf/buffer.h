// fs/buf/buffer.h: one metadata block (or cluster of blocks) in memory.
// Owns:      its bytes. A log item may hang on it (client()).
// Threads:   holds and pins from any thread; everything else under the buffer's lock, which is not bound to a
//            thread: an asynchronous write is started by one and unlocked by the device's.
// Locks:     the buffer lock itself (may be held across I/O; nothing short may be held when waiting for it);
//            inside, for a moment, one of the cache's wait locks (rank kCompletion).
// Units:     blocks of 4 KiB.
// Errors:    error() is that of the last read or write.
// Invariant: (1) a buffer in the table is fully initialised: memory, identity, hooks; (2) it is freed only
//            with no holds, by reclaim or teardown, under its bucket's lock, where alone a hold can be raised
//            from 0; (3) each pin, each request in flight and each place on a delwri queue has a hold of its
//            own; (4) a pinned buffer is not written.
//
//   not done --read--> done <--get_for_overwrite, filled by the caller: set_done()--> done
//      ^                |  \--mark_stale(), or a failed read--> not done
//      |                +-- delwri: on one queue, until it is written or goes stale
#pragma once
#include <boost/intrusive/list_hook.hpp>
#include <boost/intrusive/slist_hook.hpp>
#include <span>
#include <utility>

#include "base/atomic.h"
#include "base/sync.h"
#include "fs/block/block_device.h"
#include "fs/format/verify.h"

namespace tidewheel {

class Buffer;
class BufferCache;
class BufferTarget;
class DelwriQueue;

// What hangs on a buffer and wants to know when it has been written: its log item. Called under the buffer's
// lock, on the device's completion thread: must not block.
class BufferClient {
 public:
  // The device has taken it; a flush makes that last.
  virtual void written(Buffer& buffer) = 0;
  // Not written. `retry`: it stays dirty, and whoever pushes puts it on a queue again; else it is given up
  // and the file system is shutting down.
  virtual void write_failed(Buffer& buffer, Error error, bool retry) = 0;

 protected:
  ~BufferClient() = default;
};

class Buffer {
 public:
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // ---- constant while held ----
  BufferTarget& target() const { return *target_; }
  DeviceAddress address() const { return address_; }
  std::uint32_t length_blocks() const { return length_blocks_; }
  std::uint32_t length_bytes() const { return length_blocks_ * kFsBlockBytes; }

  // ---- the lock ----
  void lock();
  bool try_lock();
  void unlock();  // the caller still has a hold
  bool locked() const { return lock_.load(std::memory_order_relaxed) != kFree; }

  // ---- under the lock ----
  std::span<std::byte> bytes() { return {memory_, length_bytes()}; }
  std::span<const std::byte> bytes() const { return {memory_, length_bytes()}; }
  bool done() const { return done_; }
  // The caller has filled it (a new block, or replay).
  void set_done() {
    done_ = true;
    error_ = {};
  }
  // Its block was freed: what is in it is nobody's, a queue drops it, and it is the first to be reclaimed.
  void mark_stale();
  bool stale() const { return stale_; }
  void set_type(disk::BlockType type, std::uint64_t owner = disk::kAnyOwner) {
    type_ = type;
    owner_ = owner;
  }
  disk::BlockType type() const { return type_; }
  // What the next write stamps; kKeepLsn leaves what is there (new, or inodes that carry their own).
  void set_write_lsn(Lsn lsn) { write_lsn_ = lsn; }
  void set_client(BufferClient* client) { client_ = client; }
  BufferClient* client() const { return client_; }
  bool on_delwri() const { return delwri_; }
  Error error() const { return error_; }
  // Writes in a row that failed.
  std::uint32_t write_failures() const { return write_failures_; }

  // ---- pins: the log has an image of it that is not on the device yet ----
  void pin();    // under the lock; takes a hold
  void unpin();  // from any thread; gives the hold back
  bool pinned() const { return pins_.load(std::memory_order_acquire) != 0; }
  // Sleeps until no pin is left. Nobody else can add one while the caller has the lock.
  void wait_unpinned();

  // ---- holds ----
  // From a hold that the caller has.
  void hold() { holds_.fetch_add(1, std::memory_order_relaxed); }
  // The last thing that the caller does with it.
  void release();
  std::uint32_t holds_for_test() const { return holds_.load(std::memory_order_relaxed); }

 private:
  friend class BufferCache;
  friend class DelwriQueue;
  using HashHook =
      boost::intrusive::slist_member_hook<boost::intrusive::link_mode<boost::intrusive::safe_link>>;
  using ListHook =
      boost::intrusive::list_member_hook<boost::intrusive::link_mode<boost::intrusive::safe_link>>;
  enum class Direction : std::uint8_t { kRead, kWrite };

  Buffer() = default;
  ~Buffer() = default;

  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kLocked = 1;
  static constexpr std::uint32_t kLockedWithWaiters = 2;

  // ---- what a look-up and a release touch, side by side: 64 bytes. Not aligned: an aligned allocation takes
  // five times as long as a plain one here, and a miss pays for it ----
  // Constant from before it is in the table.
  BufferTarget* target_ = nullptr;
  DeviceAddress address_;
  std::uint32_t length_blocks_ = 0;
  std::uint32_t hash_ = 0;
  HashHook hash_hook_;  // under the bucket's lock
  BufferCache* cache_ = nullptr;
  std::byte* memory_ = nullptr;
  // Raised from 0 only under the bucket's lock. Release here pairs with acquire in reclaim.
  Atomic<std::uint32_t> holds_{0};
  Atomic<std::uint8_t> referenced_{0};  // relaxed: a hint from hits to reclaim
  bool cached_ = true;                  // constant as the above

  Atomic<std::uint32_t> lock_{kFree};   // acquire in lock() pairs with release in unlock()
  // seq_cst with pin_waiters_: the last unpin lowers pins_ and then reads the waiters; a waiter counts itself
  // and then reads pins_.
  Atomic<std::uint32_t> pins_{0};
  Atomic<std::uint32_t> pin_waiters_{0};
  CondVar changed_;  // under the wait lock: the lock is free, unpinned, or I/O is over

  // ---- under the LRU shard's lock ----
  ListHook lru_hook_;

  // ---- under the buffer's lock ----
  bool done_ = false;
  bool stale_ = false;
  bool write_alone_ = false;  // a write that it shared with neighbours failed: whose fault is not known
  bool delwri_ = false;   // to be written by the queue that it is on
  bool queued_ = false;   // linked by delwri_hook_, whose links its neighbours' owner changes as well
  bool io_sync_ = false;  // somebody waits for the request
  bool io_over_ = false;  // under the wait lock
  Direction direction_ = Direction::kRead;
  disk::BlockType type_ = disk::BlockType::kMock;
  std::uint32_t write_failures_ = 0;
  std::uint64_t owner_ = disk::kAnyOwner;
  Lsn write_lsn_ = disk::kKeepLsn;
  Error error_{};
  BufferClient* client_ = nullptr;
  ListHook delwri_hook_;  // linked and unlinked by the queue's thread, with the buffer locked
  IoSegment segment_;
  IoRequest request_;
};

// A hold.
class BufferHold {
 public:
  BufferHold() = default;
  // Takes over a hold that the caller has.
  explicit BufferHold(Buffer* held) : buffer_(held) {}
  BufferHold(BufferHold&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}
  BufferHold& operator=(BufferHold&& other) noexcept {
    if (this != &other) {
      reset();
      buffer_ = std::exchange(other.buffer_, nullptr);
    }
    return *this;
  }
  ~BufferHold() { reset(); }
  void reset() {
    if (buffer_ != nullptr) std::exchange(buffer_, nullptr)->release();
  }
  explicit operator bool() const { return buffer_ != nullptr; }
  Buffer& operator*() const { return *buffer_; }
  Buffer* operator->() const { return buffer_; }
  Buffer* get() const { return buffer_; }
  // The hold is the caller's from now on.
  Buffer* detach() { return std::exchange(buffer_, nullptr); }

 private:
  Buffer* buffer_ = nullptr;
};

// A hold and the lock.
class LockedBuffer {
 public:
  LockedBuffer() = default;
  explicit LockedBuffer(Buffer* held_and_locked) : buffer_(held_and_locked) {}
  LockedBuffer(LockedBuffer&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}
  LockedBuffer& operator=(LockedBuffer&& other) noexcept {
    if (this != &other) {
      reset();
      buffer_ = std::exchange(other.buffer_, nullptr);
    }
    return *this;
  }
  ~LockedBuffer() { reset(); }
  void reset() {
    if (buffer_ == nullptr) return;
    Buffer* const buffer = std::exchange(buffer_, nullptr);
    buffer->unlock();
    buffer->release();
  }
  explicit operator bool() const { return buffer_ != nullptr; }
  Buffer& operator*() const { return *buffer_; }
  Buffer* operator->() const { return buffer_; }
  Buffer* get() const { return buffer_; }
  // Hold and lock are the caller's from now on.
  Buffer* detach() { return std::exchange(buffer_, nullptr); }
  BufferHold unlock() {
    buffer_->unlock();
    return BufferHold(std::exchange(buffer_, nullptr));
  }

 private:
  Buffer* buffer_ = nullptr;
};

}  // namespace tidewheel
