// writeback/owner.h: re-filing dirty objects from one owner's context to another's, of the same target.
// Owns:      nothing; an OwnerSwitch has one of the context's batches while it steps.
// Threads:   an OwnerSwitch by one thread; several may be at work, beside writers, flushers, syncs, cancels.
// Locks:     the old context's lock_ (kContext) for the filing of one object, inside it the target's
//            begin_switch() lock and one shard lock of the new list. Never two shard locks: what is re-filed
//            is claimed from the old list first, like what is to be written.
// Units:     objects; nanoseconds.
// Errors:    none.
// Invariant: (1) an object is on a list or in a batch that is active, never in between: a sync waits for the
//            batch; (2) an object that a sync was called for stays until that has written it: the sync
//            announces itself under the lock that the filing holds; (3) stamp and retry step are kept
//            (its back-off is not: it is tried again in the new context in its turn); (4) at most two steps
//            per object in the wheel (claimed, filed), and kStep objects per hold of a lock.
// Source:    the cost and the faults of the field's inode switching: docs/deviations.md#owners
//
//   listed in A --claim (A's shard)--> claimed, in an active batch of A --hand_over (A's lock_, B's shard)-->
//   listed in B;  covered by a sync of A: put back in A
#pragma once
#include <cstdint>
#include <memory>

#include "writeback/engine.h"

namespace tidewheel {

// Every object that is dirty in `from` when it is made, in steps: a million of them stop nobody for longer
// than one step takes. What is being written then is not among them (move_to, or a second turn, moves it).
class OwnerSwitch {
 public:
  static constexpr std::size_t kStep = 32;

  OwnerSwitch(WritebackContext& from, WritebackContext& to);
  ~OwnerSwitch();  // what was not moved stays where it was, in front
  // False: nothing is left of what there was.
  bool step();
  std::uint64_t moved() const { return moved_; }
  std::uint64_t put_back() const { return put_back_; }  // a sync has to find them in the old context

 private:
  WritebackContext& from_;
  WritebackContext& to_;
  std::unique_ptr<Selection> selection_;
  std::uint64_t moved_ = 0;
  std::uint64_t put_back_ = 0;
  bool ended_ = false;
};

}  // namespace tidewheel
