// fs/recovery/checkpoint_walk.h: what was committed, checkpoint by checkpoint, from tail to head.
// Owns:      the checkpoints whose commit operation has not been met yet.
// Threads:   one owner.
// Errors:    kCorrupt: operations that no log writes, although the CRC over them is right (detail: the
//            record's sector). A checkpoint without its commit operation is none, and no error: a crash cut
//            it off.
// Invariant: (1) the visitor sees checkpoints in the order of their commit operations, which is that of their
//            sequences, one after the other; (2) memory is taken for one checkpoint, not for the log; lengths
//            are those that a record with a right CRC has room for.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "fs/format/log_items.h"
#include "fs/recovery/log_reader.h"

namespace tidewheel {

// One item as a checkpoint holds it. Valid while its checkpoint is visited.
struct RecoveredItem {
  disk::LogItemType type{};
  Lsn lsn;                                            // its checkpoint's start
  std::span<const std::span<const std::byte>> regions;  // the first begins with a LogItemHeader
};

struct RecoveredCheckpoint {
  std::uint64_t sequence = 0;
  Lsn start;
  std::span<const RecoveredItem> items;  // in the order of their commits
};

class CheckpointVisitor {
 public:
  virtual Result<void> committed(const RecoveredCheckpoint& checkpoint) = 0;

 protected:
  ~CheckpointVisitor() = default;
};

class CheckpointWalk {
 public:
  explicit CheckpointWalk(LogReader& reader) : reader_(reader) {}
  Result<void> run(Lsn tail, Lsn head, CheckpointVisitor& visitor);

  std::uint64_t last_sequence() const { return last_sequence_; }  // of those committed; 0: none
  std::uint32_t uncommitted() const { return static_cast<std::uint32_t>(open_.size()); }
  std::uint64_t newest_sequence() const { return newest_sequence_; }  // of all, those cut off included

 private:
  struct Region {
    std::size_t at = 0, bytes = 0;
  };
  struct Open {
    std::uint64_t sequence = 0;
    Lsn start;
    std::uint32_t item_count = 0;
    bool continues = false;         // its last region goes on
    std::vector<std::byte> bytes;
    std::vector<Region> regions;
  };

  bool take(const LogOperation& operation, Lsn at);
  bool begin(const LogOperation& operation, Lsn at);
  bool add_region(Open& open, const LogOperation& operation);
  bool find_items(const Open& open);
  Result<void> commit(const LogOperation& operation, Lsn at, CheckpointVisitor& visitor);

  LogReader& reader_;
  std::map<std::uint32_t, Open> open_;
  std::uint64_t last_sequence_ = 0;
  std::uint64_t newest_sequence_ = 0;
  // Of the checkpoint being visited.
  std::vector<std::span<const std::byte>> regions_;
  std::vector<RecoveredItem> items_;
};

}  // namespace tidewheel
