// writeback/target.h: what the engine needs of whatever is written back. Knows no inodes, no devices.
// Threads:   every method may be called by several flushers at once (on different objects).
// Locks:     called with none of the engine's locks held.
#pragma once
#include <cstdint>

#include "base/result.h"
#include "writeback/batch.h"

namespace tidewheel {

struct WriteEstimate {
  std::uint64_t sort_key = 0;  // batches are sorted by it (AG, directory, inode number)
  std::uint64_t bytes = 0;     // dirty bytes now; a hint that bounds batches
};

struct SwitchHold {
  std::uint64_t bytes = 0;  // of the object, accounted as dirty
  void* lock = nullptr;     // the target's own
};

class WritebackTarget {
 public:
  virtual ~WritebackTarget() = default;

  // The object is claimed and its batch not published: it cannot be freed during the call.
  virtual WriteEstimate estimate(const DirtyObject& object) const = 0;

  // Writes what is dirty in each slot. Each object is in phase kWriting and its class bits have been
  // cleared, so read the dirty tags now, not earlier. Calls account_writeback_started() for the bytes it
  // takes before it returns (background work stops by that count). Starts the I/O and may return
  // before it is done; may block for device queue space. batch.complete() is called exactly once, also
  // when everything failed, with every slot's outcome set.
  virtual void write_batch(Batch& batch) = 0;

  // On a flusher, after complete() and before the objects leave kWriting: clear writeback tags, release
  // pages, settle the byte accounting. Objects of failed slots get their dirty tags back here; those of
  // slots given up lose their dirt here. For fsync: on the thread that called it.
  virtual void end_batch(Batch& batch) = 0;

  // Asked after each failed write of an object, before end_batch: true drops what could not be written
  // (the error is still reported to every handle). attempts counts failures since the last success, but
  // not beyond the ladder's steps (8 with the default back-off).
  virtual bool give_up(const DirtyObject& object, Error error, std::uint32_t attempts) {
    (void)object, (void)error, (void)attempts;
    return false;
  }

  // Around a change of owner, on the thread that makes it, with the engine's locks of rank kContext held:
  // from begin_switch until end_switch none of the object's bytes is accounted. Take there the short lock, of
  // a rank up to kMapping, under which you account for it; who re-files no objects beside writers needs none.
  // The object may be gone at end_switch: the lock must not be part of it.
  virtual SwitchHold begin_switch(const DirtyObject& object) { return {estimate(object).bytes, nullptr}; }
  virtual void end_switch(const SwitchHold& hold) { (void)hold; }

  // Makes all writes that completed before the call durable. sync and fsync end with it.
  virtual Result<void> flush() = 0;
};

}  // namespace tidewheel
