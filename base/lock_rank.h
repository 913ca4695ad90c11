// base/lock_rank.h: the lock order, outermost first, declared once. docs/lock-order.md explains it.
// Each real lock names its class (LockClass, with a rank) and sits between two sentinels:
//   Mutex lock_ TW_ACQUIRED_AFTER(kRankContext) TW_ACQUIRED_BEFORE(kRankWheelShard){lock_class};
// The sentinels are never defined and never locked; clang finds inversions through them at compile time
// (preset tsa). Debug builds also keep a per-thread rank stack: a lock whose rank is not above every
// held one asserts (two of one rank: only through lock_pair_ordered).
#pragma once
#include <cstdint>

#include "base/thread_annotations.h"

namespace tidewheel {

enum class LockRank : std::uint8_t {
  kNone = 0,         // not checked: test locks
  kBench,            // drivers and programs, above everything
  kFreeze,
  kInodeIo,          // one inode's I/O lock: writers of one file
  kFolio,
  kReservation,
  kInode,
  kEngine,           // engine: table of contexts
  kContext,          // writeback context: work queue, batches in flight, error sequence
  kStore,            // flat store: allocator and index
  kBuffer,           // one metadata buffer's content: held across its reads and writes
  kCilShard,         // a shard of the CIL's items, and a share of the open checkpoint: the switch has all
  kIclog,            // log buffers and the order of checkpoints
  kAil,              // the list of items by LSN
  kGrant,            // those who wait for log space
  kBufferHash,       // a bucket of the buffer cache
  kInodeHash,        // a bucket of the inode cache
  kMapping,          // one mapping's tree and tags
  kListShard,        // a dirty-list shard (wheel shard, or a classic design's list lock)
  kRetry,            // retry ladder
  kLru,              // reclaim lists
  kArena,            // page and object pools
  kDevice,           // block device queue
  kCompletion,       // completion queues: taken by completion threads, nothing below but statistics
  kStatistics,       // leaves: histograms, trace rings, lock-class registries
};

// From here on locks are short: their holder does not sleep (wait on a condition of another lock, sleep,
// join a thread, wait for a device). Debug builds assert it.
inline constexpr LockRank kFirstShortRank = LockRank::kCilShard;

class Mutex;
extern Mutex kRankEngine;
extern Mutex kRankContext TW_ACQUIRED_AFTER(kRankEngine);
extern Mutex kRankStore TW_ACQUIRED_AFTER(kRankContext);
extern Mutex kRankBuffer TW_ACQUIRED_AFTER(kRankStore);
extern Mutex kRankCilShard TW_ACQUIRED_AFTER(kRankBuffer);
extern Mutex kRankIclog TW_ACQUIRED_AFTER(kRankCilShard);
extern Mutex kRankAil TW_ACQUIRED_AFTER(kRankIclog);
extern Mutex kRankGrant TW_ACQUIRED_AFTER(kRankAil);
extern Mutex kRankBufferHash TW_ACQUIRED_AFTER(kRankGrant);
extern Mutex kRankInodeHash TW_ACQUIRED_AFTER(kRankBufferHash);
extern Mutex kRankMapping TW_ACQUIRED_AFTER(kRankInodeHash);
extern Mutex kRankListShard TW_ACQUIRED_AFTER(kRankMapping);
extern Mutex kRankRetry TW_ACQUIRED_AFTER(kRankListShard);
extern Mutex kRankLru TW_ACQUIRED_AFTER(kRankRetry);
extern Mutex kRankArena TW_ACQUIRED_AFTER(kRankLru);
extern Mutex kRankDevice TW_ACQUIRED_AFTER(kRankArena);
extern Mutex kRankCompletion TW_ACQUIRED_AFTER(kRankDevice);
extern Mutex kRankStatistics TW_ACQUIRED_AFTER(kRankCompletion);

}  // namespace tidewheel
