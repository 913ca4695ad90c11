// fs/recovery/recovery.h: from what a crash left to what was committed, and to where the log goes on.
//
//   scan      tail and head (log_scan.h); a log that was left cleanly ends here
//   pass 1    which checkpoints are committed, which buffers were cancelled; every item is looked at, and
//             nothing is written unless all of them can be replayed
//   pass 2    committed checkpoints in order, item by item (replay.h)
//   home      everything replayed is written; stale records behind the head are wiped; all of it is flushed
//   tail      then, and not before, a record behind the head says that nothing is left to replay: the commit
//             point of recovery. With open intents it says that only what lies from the first of them on is.
//   intents   are the mount's to finish, through the log that begins at `position`
//
// Idempotent: until the tail has moved a crash leaves the log as it was, and homes that carry the LSNs of
// what was replayed; the next recovery comes to the same bytes. A second recovery writes nothing.
// Threads:   one; nobody else uses the device or the cache's buffers of this target.
// Errors:    those of log_scan.h, checkpoint_walk.h and replay.h, and the device's. After one nothing says
//            that the log is clean: the next mount recovers again.
#pragma once
#include <vector>

#include "fs/log/log.h"
#include "fs/recovery/log_scan.h"
#include "fs/recovery/replay.h"

namespace tidewheel {

struct RecoveryOptions {
  // Mount option norecovery: nothing is written, nothing replayed. The mount must refuse transactions: there
  // is no position that a log could go on from.
  bool scan_only = false;
  std::uint64_t window_bytes = kLogWindowBytes;  // for tests
};

struct Recovery {
  LogPosition position;
  bool was_clean = false;
  std::uint32_t records = 0;             // from tail to head
  std::uint64_t checkpoints = 0;         // replayed
  std::uint32_t cut_off = 0;             // checkpoints without their commit operation
  LogReplay::Counts items;
  std::uint32_t wiped = 0;               // stale records
  std::vector<RecoveredIntent> intents;  // in the order in which they were logged
};

Result<Recovery> recover(LogReader& reader, BlockDevice& device, BufferCache& cache, BufferTarget& target,
                         const ReplayTable& table, const RecoveryOptions& options = {});

}  // namespace tidewheel
