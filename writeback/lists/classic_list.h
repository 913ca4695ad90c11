// writeback/lists/classic_list.h: the classic dirty list: b_dirty, b_io and b_more_io under one lock.
// Shared by single-list (one of it) and parallel-lists (several); the faults are theirs, see there.
// Owns:      the three lists of each shard.
// Locks:     ListShard::lock. queue_io() moves everything that expired, one by one, in one hold; a flusher
//            then takes one object per hold.
// Invariant: b_dirty is sorted by stamp, youngest at the front; b_io and b_more_io are consumed from the
//            back.
// Source:    the public descriptions of Linux's writeback lists; docs/dirty-lists.md#single-list.
//
//   mark_dirty --> b_dirty --queue_io (expired)--> b_io --claim--> batch
//                    ^                               ^                | written and redirtied: redirty_tail
//                    +---------- redirty_tail -------|----------------+
//                              b_more_io --queue_io--+  <-requeue_io--+ partly written
#pragma once
#include "writeback/dirty_list_base.h"
#include "writeback/node_list.h"

namespace tidewheel {

struct ClassicShard : ListShard {
  using ListShard::ListShard;
  NodeList b_dirty TW_GUARDED_BY(lock);
  StampedNodes b_io TW_GUARDED_BY(lock);
  StampedNodes b_more_io TW_GUARDED_BY(lock);
  StampWalk walk TW_GUARDED_BY(lock);  // of these two
  std::vector<Instant> open_syncs TW_GUARDED_BY(lock);  // their moments, sorted
};

class ClassicList : public DirtyListBase {
 public:
  std::unique_ptr<Selection> select(const SelectionRequest& request) override;

 protected:
  ClassicList(std::uint32_t lists, const DirtyListOptions& options);

  void link_locked(ListShard& shard, DirtyObject& object, Filing why, const WriteEnd* end,
                   Instant now) override;
  void unlink_locked(ListShard& shard, DirtyObject& object) override;
  bool look_for_oldest_locked(ListShard& shard, StampReading& reading) const override;
  std::uint64_t check_shard_locked(const ListShard& shard) const override;

 private:
  class ClassicSelection;
  ClassicShard& list(std::uint32_t index) const { return static_cast<ClassicShard&>(shard(index)); }
  // To the youngest end; the stamp becomes `now` if it is older than the youngest's.
  void redirty_tail_locked(ClassicShard& home, DirtyObject& object, Instant now) TW_REQUIRES(home.lock);
  // b_more_io first, then what of b_dirty was stamped at or before the cut-off, one by one.
  static void queue_io_locked(ClassicShard& home, Instant dirtied_before) TW_REQUIRES(home.lock);
  DirtyObject* pop_locked(ClassicShard& home, Instant dirtied_before) TW_REQUIRES(home.lock);
  static void publish_oldest_locked(ClassicShard& home) TW_REQUIRES(home.lock);
  static void note_older_locked(ClassicShard& home, const WheelNode& node) TW_REQUIRES(home.lock);
};

}  // namespace tidewheel
