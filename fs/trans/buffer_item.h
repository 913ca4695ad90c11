// fs/trans/buffer_item.h: the log item of a metadata buffer: which of its chunks are not at home yet.
// Owns:      itself, by references: one while it hangs on its buffer, one per pin. A hold on the buffer for
//            as long as it lives.
// Threads:   see LogItem. What the buffer's lock guards is named; references are atomic.
// Locks:     the buffer's own; the AIL's.
// Units:     chunks of disk::kDirtyChunkBytes.
// Invariant: (1) the bitmap grows until the buffer has been written home: an image relogged at a later LSN
//            must hold all that an earlier one held, since the tail passes that; (2) a stale buffer stays
//            locked until the checkpoint that says so is stable: nobody may use its block for anything else
//            before; (3) nothing that was changed and not logged is ever written.
#pragma once
#include <array>
#include <cstdint>

#include "base/atomic.h"
#include "fs/buf/buffer.h"
#include "fs/format/log_items.h"
#include "fs/item/log_item.h"

namespace tidewheel {

class Journal;

class BufferItem final : public LogItem, public BufferClient {
 public:
  // The buffer's item, or a new one hung on it. The buffer is locked.
  static BufferItem& of(Journal& journal, Buffer& buffer);

  Buffer& buffer() { return buffer_; }

  // ---- under the buffer's lock: the transaction ----
  void mark_dirty(std::uint32_t first_byte, std::uint32_t last_byte);
  void mark_new() { flags_on_disk_ |= disk::kBufferNew; }
  void mark_inodes() { flags_on_disk_ |= disk::kBufferInode; }
  void mark_stale();
  // Until it is logged or written. What of it is in the log already stays logged.
  void mark_ordered();
  // Whoever wanted to make the buffer new has not: it is to be read, unless the log has an image of it.
  void forget_content() {
    if (!logged_) buffer_.mark_stale();
  }
  // The lock outlives the next commit.
  void set_kept(bool kept) { kept_ = kept; }
  // Where its transaction has it.
  void set_place(std::uint32_t place) { place_ = place; }
  std::uint32_t place() const { return place_; }
  bool stale() const { return (flags_on_disk_ & disk::kBufferCancel) != 0; }
  bool ordered() const { return ordered_; }

  // ---- LogItem ----
  std::uint64_t sort_key() const noexcept override { return buffer_.address().value; }
  LogSize size() const noexcept override;
  void format(LogVectorWriter& out) noexcept override;
  void pin() noexcept override;
  void committing(std::uint64_t checkpoint) noexcept override;
  void release() noexcept override;
  Lsn committed(Lsn start_lsn) noexcept override;
  void unpin(bool aborted) noexcept override;
  PushResult push(PushScope& scope) noexcept override;
  void abandon() noexcept override;

  // ---- BufferClient ----
  void written(Buffer& buffer) override;
  void write_failed(Buffer& buffer, Error error, bool retry) override;

  // The journal's, at its end.
  void let_go_of_aborted();

 private:
  static constexpr std::uint32_t kWords = disk::kMaxDirtyWords;
  BufferItem(Journal& journal, Buffer& buffer);
  ~BufferItem() = default;

  std::uint32_t chunks() const { return buffer_.length_bytes() / disk::kDirtyChunkBytes; }
  // The first chunk from this one on that is dirty, or clean; chunks(): none.
  std::uint32_t next_chunk(std::uint32_t from, bool dirty) const;
  // The run of dirty chunks that begins at or after `from`. False: none.
  bool next_run(std::uint32_t from, std::uint32_t& first, std::uint32_t& count) const;
  void detach();  // from its buffer, which is locked, or which nobody else can reach any more
  void drop_reference();

  Journal& journal_;
  Buffer& buffer_;
  // The last to go frees it; acq_rel: sees what the others did.
  Atomic<std::uint32_t> references_{1};
  Atomic<std::uint32_t> pins_{0};
  // The checkpoint with its last pin says that the block was freed. Set after that pin was taken, so that who
  // ends an earlier checkpoint and sees it does not take its own pin for the last: release and acquire.
  Atomic<bool> stale_logged_{false};
  bool noted_aborted_ = false;     // the log's: items are told by one thread at a time

  // ---- under the buffer's lock ----
  std::array<std::uint32_t, kWords> dirty_{};
  std::uint32_t place_ = 0;
  std::uint16_t flags_on_disk_ = 0;
  bool ordered_ = false;
  bool kept_ = false;
  bool logged_ = false;  // since it was last at home
};

}  // namespace tidewheel
