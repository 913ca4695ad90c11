// fs/block/recorded_device.h: passes everything to another device and keeps what was written, in order.
// Owns:      the trace: a copy of each write's content and the order in which requests came and ended.
// Threads:   submit() and note() from any thread; they agree on one order of events. The trace is read, or
//            cleared, while no request is in flight.
// Locks:     lock_ (rank kDevice), never held across the device beneath nor across a completion.
// Units:     bytes. A trace takes the memory of everything that was written.
// Errors:    those of the device beneath. Refused requests (check()) move nothing and are not recorded;
//            others that fail are, since any part of them may have been stored.
// Invariant: the order errs on the strict side. A submission is recorded before the device beneath sees the
//            request, and a completion before the caller learns of it: what a caller does because a write
//            is complete stands after that completion in the trace.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/sync.h"
#include "fs/block/block_device.h"

namespace tidewheel {

// What happened to one device, as a list of events. Reads are not in it.
struct IoTrace {
  static constexpr std::uint32_t kNever = UINT32_MAX;

  enum class EventKind : std::uint8_t {
    kSubmitted,
    kCompleted,
    kNote,  // the caller's own: RecordedDevice::note()
  };
  struct Note {
    std::uint64_t what = 0, value = 0;
  };
  struct Event {
    EventKind kind;
    std::uint32_t index;  // into ops; of a note: into notes
  };
  struct Op {
    IoOp op;  // kWrite or kFlush
    IoCause cause;
    bool preflush = false, fua = false;
    bool ok = false;                     // completed, and well
    std::uint32_t submitted = kNever;    // index into events
    std::uint32_t completed = kNever;    // kNever: the trace ends before
    std::uint64_t offset_bytes = 0, len_bytes = 0;
    const std::byte* content = nullptr;  // len_bytes of it, as it was at submission
  };

  std::vector<Event> events;
  std::vector<Op> ops;
  std::vector<Note> notes;

  // A write as a person reads it: "write 3 (log, 4096 bytes at 8192, preflush, fua)".
  std::string describe(std::uint32_t op) const;
};

class RecordedDevice final : public BlockDevice {
 public:
  // The device beneath outlives this one.
  explicit RecordedDevice(BlockDevice& beneath);
  ~RecordedDevice() override;

  const IoTrace& trace() const { return trace_; }
  // Something happened that the owner of the device wants to find in the order of events, as "this was
  // acknowledged".
  void note(std::uint64_t what, std::uint64_t value) TW_EXCLUDES(lock_);
  // Forgets the trace and keeps its memory for the next.
  void clear();

  std::string_view name() const override { return name_; }
  std::uint64_t size_bytes() const override { return beneath_.size_bytes(); }
  std::uint32_t block_bytes() const override { return beneath_.block_bytes(); }
  std::uint32_t memory_alignment() const override { return beneath_.memory_alignment(); }
  void submit(IoRequest& request) override TW_EXCLUDES(lock_);
  DeviceStats stats() const override { return beneath_.stats(); }
  bool keeps_data() const override { return beneath_.keeps_data(); }
  Result<bool> holds_data() override { return beneath_.holds_data(); }

 private:
  struct Pending {
    IoRequest child;  // what the device beneath sees
    IoRequest* parent = nullptr;
    RecordedDevice* device = nullptr;
    std::uint32_t op = 0;
  };
  static void child_done(IoRequest& child, Result<void> result);
  // Memory of that length which stays where it is until clear().
  std::byte* take_memory_locked(std::uint64_t len_bytes) TW_REQUIRES(lock_);

  BlockDevice& beneath_;
  const std::string name_;

  Mutex lock_ TW_ACQUIRED_AFTER(kRankArena) TW_ACQUIRED_BEFORE(kRankCompletion);
  std::deque<Pending> records_ TW_GUARDED_BY(lock_);
  std::vector<Pending*> free_ TW_GUARDED_BY(lock_);
  std::uint32_t in_flight_ TW_GUARDED_BY(lock_) = 0;
  // Pieces of kPieceBytes or, for longer writes, of their length; the first `pieces_used_` hold content.
  static constexpr std::uint64_t kPieceBytes = 64 << 10;
  struct Piece {
    std::unique_ptr<std::byte[]> bytes;
    std::uint64_t len = 0, used = 0;
  };
  std::vector<Piece> pieces_ TW_GUARDED_BY(lock_);
  std::size_t piece_ TW_GUARDED_BY(lock_) = 0;

  IoTrace trace_;  // written under lock_
};

}  // namespace tidewheel
