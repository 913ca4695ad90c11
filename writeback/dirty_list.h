// writeback/dirty_list.h: one context's dirty objects, in the order a design keeps them. Five designs
// stand behind this interface (writeback/lists/), chosen at run time by name.
// Owns:      its shards, rings and buckets; never an object.
// Threads:   mark_dirty, cancel, claim_one and end_write from any thread; a Selection belongs to one
//            flusher (several selections may be open at once).
// Locks:     shard locks (rank kListShard), the ladder's (kRetry): at most 32 elements are looked at per
//            hold by the wheel; the classic designs hold theirs as long as their originals did. No callback
//            runs under one. Re-dirty, begin_write and the end of a write that nothing dirtied again take no
//            lock.
// Errors:    none.
// Invariant: every dirty object is in exactly one place: a list of its shard, the retry ladder, a batch.
//            Unclaimed objects always belong to the list, whoever detached them, so that a sync finds
//            what a background work has detached but not yet claimed.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/sync.h"
#include "base/time.h"
#include "writeback/batch.h"
#include "writeback/dirty_object.h"

namespace tidewheel {

struct DirtyListStats {
  std::uint64_t inserts = 0;        // clean -> listed, and listed again after a write
  std::uint64_t insert_waits = 0;   // of the first: found every shard taken that would do, and waited
  std::uint64_t redirties = 0;      // marked again on the slow path (a new class, or while written)
  std::uint64_t removals = 0;       // taken out by cancel or fsync
  std::uint64_t detached_buckets = 0;
  // Every element linked, moved, tagged, popped or looked at under a shared list lock. (Not by who reads the
  // oldest stamp: at most kMaxClaim per hold in every design.)
  std::uint64_t elements_under_lock = 0;
  std::uint64_t max_elements_per_hold = 0;
  std::uint32_t shards = 0;         // lists with a lock each
  std::uint64_t lazy = 0;           // dirty in their timestamps alone, at this moment
  std::uint64_t promoted = 0;       // of these, in all: became dirty otherwise, and were listed
};

struct DirtyListOptions {
  std::uint32_t shards = 0;     // 0: the design's own choice; a power of two, at most kMaxListShards
  std::uint32_t flushers = 1;   // parallel-lists makes one list per flusher when shards is 0
  Duration slot = {1LL << 27};  // width of a wheel slot
  std::uint32_t slots = 512;    // wheel slots: window = slots * slot
  Duration periodic_interval = seconds(5);  // how often periodic work asks: syncer-slots paces its ring by it
  Duration retry_first = seconds(1);        // back-off after the first failure; doubles with each ...
  Duration retry_longest = seconds(64);     // ... up to this
  LockClass* lock_class = nullptr;          // of the shard locks; null: one class for all lists
  // What is dirty in its timestamps alone waits on a ring of its own until it is this old (0: for ever), a
  // sync comes, or it is dirtied otherwise. Off: it is listed like all else.
  bool lazytime = false;
  Duration lazytime_expire = seconds(12LL * 3600);
  std::uint16_t context = kNoContext;       // whose objects these are: others are not listed, nor taken
};

// What a work wants written.
struct SelectionRequest {
  WorkKind kind = WorkKind::kBackground;
  Instant now;
  Instant dirtied_before;       // periodic: expired if stamped at or before; background: Instant::max()
  // The same for what is dirty in its timestamps alone. Background comes to these when nothing else is left
  // to be claimed, and reclaim takes turns between them and the rest.
  Instant lazy_before = Instant::min();
  std::uint32_t flusher = 0;    // which of `flushers` asks
  std::uint32_t flushers = 1;   // 1: this work covers everything (a sync by one flusher)
};

// One work's view of the list, from select() until it is destroyed. kSync: exactly what was dirty when it
// was made (listed or on the retry ladder), and what comes back from a batch dirty since before then
// (redirtied before it, partly written, skipped, unclaimed; what failed meanwhile waits on the ladder).
// Other kinds: what of the ladder is due at request.now, then the design's order.
// A sync is complete when claim() has answered 0 and, from before that call until after it, no batch of
// anybody held or gave back something that old: the classic designs' other works may take what comes back.
class Selection {
 public:
  virtual ~Selection() = default;  // what was not claimed is still listed, in front
  // Claims up to out.size() objects (phase kListed, kRetry or kLazy -> kClaimed), oldest first as far as the
  // design goes. They are the caller's: they can't be freed until it publishes, unclaims or writes them.
  // 0 = nothing left now.
  virtual std::size_t claim(std::span<DirtyObject*> out) = 0;
  // kSync: no stamp of what it covers is beyond this: the request's `now`, or the youngest stamp given out,
  // where that is later (another thread's reading, or what a list gave to an object that it filed again).
  virtual Instant moment() const = 0;
};

class DirtyList {
 public:
  virtual ~DirtyList() = default;
  virtual std::string_view name() const = 0;

  // ---- writers ----
  // Marks classes dirty. clean -> listed with stamp max(now, the shard's last); listed, retry, claimed:
  // bits only; writing: bits, and the stamp if it had none. Timestamps alone, with lazytime: clean -> lazy;
  // lazy, dirtied otherwise -> listed with a stamp of its own (what is to be written then is written with
  // it).
  enum class Marked : std::uint8_t {
    kAlready,    // it was dirty, and has the classes now
    kListed,     // it became listed
    kLazy,       // it became dirty, and is on the ring of timestamps
    kPromoted,   // it was on that ring, and is listed now
    kElsewhere,  // nothing was done: another context's by now, or clean and the list closed: look again
  };
  Marked mark(DirtyObject& object, std::uint32_t classes, Instant now) {
    if (object.covers(classes)) return Marked::kAlready;
    return mark_dirty_slow(object, classes, now);
  }
  bool mark_dirty(DirtyObject& object, std::uint32_t classes, Instant now) {
    const Marked marked = mark(object, classes, now);
    return marked == Marked::kListed || marked == Marked::kLazy;
  }

  // ---- taking one object ----
  enum class TakeOut : std::uint8_t {
    kClean,      // it was clean
    kTaken,      // it is out
    kInBatch,    // a flusher has it: the waiters bit is set
    kElsewhere,  // it belongs to another context by now
  };
  // listed, lazy or retry -> clean, unlinked (kTaken); else kInBatch: claimed, it leaves its batch, clean,
  // before any I/O (begin_write); being written, that is waited for. To wait: under a mutex of the engine,
  // sleep until state().has_waiters() is false, and ask again; begin_write, unclaim and end_write say when
  // they have cleared the bit, and the engine then takes that mutex and wakes all.
  virtual TakeOut cancel(DirtyObject& object) = 0;
  // fsync: listed, lazy or retry -> claimed, as if by a Selection (kTaken); in a batch: as cancel (kInBatch).
  virtual TakeOut claim_one(DirtyObject& object) = 0;

  // ---- flushers ----
  virtual std::unique_ptr<Selection> select(const SelectionRequest& request) = 0;
  // claimed -> writing: notes slot.stamp, clears the class bits with a seq_cst RMW and notes them in
  // slot.classes. False: cancel() has asked for it since it was claimed; it is clean, drop its slot, wake who
  // waits for it. It may be gone.
  [[nodiscard]] virtual bool begin_write(WriteSlot& slot) = 0;
  // claimed -> listed again with the stamp kept: the batch is full or its work has ended. True: somebody
  // waits for it.
  virtual bool unclaim(DirtyObject& object, Instant now) = 0;
  // Lists here, stamp kept, what the caller has claimed from another context's list: one step in the wheel.
  // It joins no sync that is open here. True: somebody waits for it (wake them where it was claimed).
  virtual bool adopt(DirtyObject& object, Instant now) = 0;
  // From now on what is clean is not listed here any more (a context that is being retired). What is dirty
  // still comes back here from its batches. Holds every shard lock once: who has begun to list has ended.
  virtual void close() = 0;
  // writing -> clean, listed or retry, by outcome and by what was dirtied meanwhile; kind is the batch's
  // (the classic designs file what a sync wrote differently). kWritten and kGivenUp: clean, or listed with
  // the new stamp when dirtied meanwhile; the others: still dirty, slot.classes are set again and the stamp
  // is kept. Once this returns the object may be gone. With slot.heir what was written goes to that list:
  // clean, with its context; dirtied meanwhile, listed there.
  struct EndWrite {
    bool waiters = false;  // somebody waits for this object: wake them
    bool clean = false;    // it is dirty no more
    // It was not written and nothing keeps a selection from taking it again at once (skipped; failed, where
    // the design has no back-off): the engine paces a work that meets nothing else.
    bool comes_at_once = false;
    bool moved = false;  // it is listed in slot.heir
    bool lazy = false;   // it is on a ring of timestamps
  };
  virtual EndWrite end_write(const WriteSlot& slot, WorkKind kind, Instant now) = 0;

  // The clock was set back to `now`: what was listed before is due at once, where the design can, and the
  // ladder's back-offs count from here. (Until then a design may take what was dirtied for younger than it
  // is.)
  virtual void clock_set_back(Instant now) { (void)now; }

  // ---- what is there ----
  // A hint for arming timers: the stamp of the oldest listed object, or less; Instant::max() when there is
  // none. Objects on the ladder or on the ring of timestamps don't count. Takes no lock.
  virtual Instant oldest() const = 0;
  // The least stamp of all that is listed, on the ladder, or in a batch: of these in_batches() tells, which
  // is called once, when the lists have been read, and may wait (HeldStamp). The ring of timestamps doesn't
  // count. Instant::max(): there is nothing. With L the answer, and stamps as they are when the call returns:
  //   - nothing moves meanwhile: L is the least stamp, exactly;
  //   - something does: L is at or before the stamp of each object that was dirty here from the call on until
  //     it returned, wherever it went meanwhile; and there was a moment of the call when an object that was
  //     dirty here had the stamp L.
  // One reading at a time, others wait. Each shard lock is taken, and held for at most kMaxClaim elements.
  virtual Instant oldest_stamp(const std::function<Instant()>& in_batches) const = 0;
  // When the retry ladder next has something due; Instant::max() when it is empty. Takes no lock.
  virtual Instant next_retry() const = 0;
  // A lower bound of the stamps on the ladder; Instant::max() when it is empty. Takes no lock.
  virtual Instant oldest_retry() const = 0;
  // A lower bound, within one of its slots, of the stamps on the ring of timestamps, and when the oldest of
  // them has its maximum age; Instant::max(): none (ever). Take no lock.
  virtual Instant oldest_lazy() const { return Instant::max(); }
  virtual Instant next_lazy() const { return Instant::max(); }
  // Whether that ring has something. Takes locks as any_listed() does, and for the same.
  virtual bool any_lazy() const { return false; }
  // Objects listed, on the ladder or on that ring; exact when nothing moves.
  virtual std::uint64_t listed() const = 0;
  // Whether something is listed (ladder and timestamps aside) that a select() of this flusher would cover.
  // Takes the lock of every shard concerned once, also of those that look empty: what was listed before the
  // call is seen, and who lists later sees what the caller stored before. A flusher falls asleep by this.
  virtual bool any_listed(std::uint32_t flusher, std::uint32_t flushers) const = 0;
  virtual DirtyListStats stats() const = 0;
  virtual void check_invariants() const = 0;  // walks everything, aborts on a flaw; for tests at rest

 protected:
  virtual Marked mark_dirty_slow(DirtyObject& object, std::uint32_t classes, Instant now) = 0;
};

// The registry of designs: timer-wheel (the default), single-list, tagged-list, syncer-slots,
// parallel-lists, and what a program registers.
using DirtyListFactory = std::function<std::unique_ptr<DirtyList>(const DirtyListOptions&)>;
struct DirtyListDesign {
  std::string name;
  std::string summary;
  DirtyListFactory make = nullptr;
};
const std::vector<DirtyListDesign>& dirty_list_designs();
const DirtyListDesign* find_dirty_list_design(std::string_view name);
// Before threads start. False: the name is taken.
bool register_dirty_list_design(DirtyListDesign design);

}  // namespace tidewheel
