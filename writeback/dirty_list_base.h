// writeback/dirty_list_base.h: what all designs share: the protocol of the state word, the retry ladder, the
// rings of timestamps, the counts. A design adds its lists: where an object is filed, how it leaves, what a
// work takes.
// Owns:      the shards (a design derives ListShard to put its lists beside the lock) and the ladder.
// Threads:   as DirtyList.
// Locks:     ListShard::lock (rank kListShard), one at a time; the ladder's is taken inside it by a failed
//            write. ShardHold is the only way in, and counts the elements looked at while it is held.
// Invariant: an object in phase kListed is linked, by the design, in the shard that its state names.
// To add a design: derive, implement the hooks, one row in dirty_list.cc (docs/dirty-lists.md). One list in
// an order of its own needs less: dirty_order.h.
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "base/counter.h"
#include "base/sync.h"
#include "writeback/dirty_list.h"
#include "writeback/lazy_ring.h"
#include "writeback/retry_ladder.h"

namespace tidewheel {

struct alignas(kCacheLine) ListShard {
  ListShard(LockClass& lock_class, std::uint32_t index_in_list) : lock(lock_class), index(index_in_list) {}
  virtual ~ListShard() = default;

  // Elements linked, moved, tagged, popped or looked at: counted by whoever does it.
  void touch(std::uint64_t n = 1) TW_REQUIRES(lock) { touched_in_hold += n; }

  mutable Mutex lock TW_ACQUIRED_AFTER(kRankListShard) TW_ACQUIRED_BEFORE(kRankRetry);
  const std::uint32_t index;

  Instant last TW_GUARDED_BY(lock) = Instant::min();  // the youngest stamp given out
  std::uint64_t inserts TW_GUARDED_BY(lock) = 0;
  std::uint64_t insert_waits TW_GUARDED_BY(lock) = 0;
  std::uint64_t removals TW_GUARDED_BY(lock) = 0;
  std::uint64_t detached_buckets TW_GUARDED_BY(lock) = 0;
  std::uint64_t elements TW_GUARDED_BY(lock) = 0;
  std::uint64_t max_per_hold TW_GUARDED_BY(lock) = 0;
  std::uint64_t touched_in_hold TW_GUARDED_BY(lock) = 0;
  std::uint64_t promoted TW_GUARDED_BY(lock) = 0;
  // Null: no lazytime. Set before anybody else sees the shard; what it points to is the lock's, but for
  // LazyRing::oldest() and size().
  std::unique_ptr<LazyRing> lazy;

  // Written under the lock, read without by oldest() and listed(): hints that are exact at rest.
  Atomic<std::int64_t> oldest_ns{INT64_MAX};
  Atomic<std::uint64_t> count{0};
};

class TW_SCOPED_CAPABILITY ShardHold {
 public:
  explicit ShardHold(ListShard& shard) TW_ACQUIRE(shard.lock) : shard_(shard) { shard.lock.lock(); }
  struct Locked {};
  ShardHold(ListShard& shard, Locked) TW_REQUIRES(shard.lock) : shard_(shard) {}
  ~ShardHold() TW_RELEASE() {
    close();
    shard_.lock.unlock();
  }
  ShardHold(const ShardHold&) = delete;
  ShardHold& operator=(const ShardHold&) = delete;

 private:
  void close() TW_NO_THREAD_SAFETY_ANALYSIS {  // held through shard_, which the analysis can't equate
    const std::uint64_t touched = shard_.touched_in_hold;
    shard_.touched_in_hold = 0;
    shard_.elements += touched;
    if (touched > shard_.max_per_hold) shard_.max_per_hold = touched;
  }
  ListShard& shard_;
};

// Why an object is being filed.
enum class Filing : std::uint8_t {
  kDirtied,    // clean until now; stamp set
  kRedirtied,  // written, and dirtied meanwhile; stamp set when that happened
  kPartial,    // partly written; stamp kept
  kSkipped,    // busy; stamp kept
  kFailed,     // write failed, and the design files failures itself; stamp kept
  kUnclaimed,  // not begun; stamp kept
  kAdopted,    // from another context; stamp kept; not what an open sync covers
};

// What end_write knows beside the object; null for kDirtied, kUnclaimed and kAdopted.
struct WriteEnd {
  Instant written_stamp;  // the stamp before the write
  WorkKind kind;
  bool clock_set_back = false;  // since the write began: the stamp may be one of the old time
};

class DirtyListBase : public DirtyList, protected ShardPicker {
 public:
  TakeOut cancel(DirtyObject& object) final;
  TakeOut claim_one(DirtyObject& object) final;
  bool begin_write(WriteSlot& slot) final;
  bool unclaim(DirtyObject& object, Instant now) final;
  bool adopt(DirtyObject& object, Instant now) final;
  void close() final;
  EndWrite end_write(const WriteSlot& slot, WorkKind kind, Instant now) final;
  void clock_set_back(Instant now) override {
    set_backs_.fetch_add(1, std::memory_order_relaxed);
    ladder_.clock_set_back(now);
  }

  Instant oldest() const final;
  Instant oldest_stamp(const std::function<Instant()>& in_batches) const final;
  Instant next_retry() const final { return ladder_.next_due(); }
  Instant oldest_retry() const final { return ladder_.oldest(); }
  Instant oldest_lazy() const final;
  Instant next_lazy() const final;
  bool any_lazy() const final;
  std::uint64_t listed() const final;
  bool any_listed(std::uint32_t flusher, std::uint32_t flushers) const final;
  DirtyListStats stats() const final;
  void check_invariants() const final;

 protected:
  // `shards` are made by the design; their number doesn't change.
  DirtyListBase(std::vector<std::unique_ptr<ListShard>> shards, const DirtyListOptions& options);
  ~DirtyListBase() override;

  Marked mark_dirty_slow(DirtyObject& object, std::uint32_t classes, Instant now) final;

  // ---- what a design adds; each under the shard's lock ----
  // The stamp for what is dirtied at `now`: max(now, last) unless the design has its own way.
  virtual Instant stamp_locked(ListShard& shard, Instant now) TW_REQUIRES(shard.lock);
  // Files an object (phase kListed already). Counts it with touch(), keeps shard.oldest_ns.
  virtual void link_locked(ListShard& shard, DirtyObject& object, Filing why, const WriteEnd* end,
                           Instant now) TW_REQUIRES(shard.lock) = 0;
  // Takes it off wherever link_locked or a selection put it, in O(1). Keeps shard.oldest_ns.
  virtual void unlink_locked(ListShard& shard, DirtyObject& object) TW_REQUIRES(shard.lock) = 0;
  // Whether what becomes dirty may go to any shard: then it goes to the next one that is free when a flusher,
  // or a thread that was preempted, holds the picked one, and a writer hardly ever waits.
  virtual bool any_shard_will_do() const { return false; }
  // Lock-free; by default what the design keeps in shard.oldest_ns.
  virtual Instant oldest_of(const ListShard& shard) const;
  // Lowers reading.least to the least stamp in the shard, where that is less. Looks at up to reading.left
  // elements; false: not done yet, it goes on in another hold (timerwheel/stamp_walk.h). By default
  // oldest_of() is taken for exact, whenever the lock is free.
  virtual bool look_for_oldest_locked(ListShard& shard, StampReading& reading) const
      TW_REQUIRES(shard.lock);
  // A design that moves an object from one list of a shard to another, not by a splice, says so in that hold
  // (a reading may have passed the second and not come to the first).
  void note_came_back(Instant stamp) {
    if (reading_.load(std::memory_order_relaxed)) lower_came_back(stamp);
  }
  // Whether a selection of this flusher covers the shard; all do, unless the design splits the work.
  virtual bool serves(std::uint32_t flusher, std::uint32_t flushers, std::uint32_t shard_index) const {
    (void)flusher, (void)flushers, (void)shard_index;
    return true;
  }
  // Failed objects come back through link_locked(kFailed) and not by the ladder.
  virtual bool files_failures() const { return false; }
  // Walks the shard's lists; calls check_listed() on each element and answers how many there are.
  virtual std::uint64_t check_shard_locked(const ListShard& shard) const TW_REQUIRES(shard.lock) = 0;
  static void check_listed(const ListShard& shard, const WheelNode& node);

  // For a design's selections: counts and moves an object that unlink_locked's own kind of step has just
  // taken off a list: listed -> claimed.
  void claim_locked(ListShard& shard, DirtyObject& object) TW_REQUIRES(shard.lock);

  std::uint32_t shard_count() const { return static_cast<std::uint32_t>(shards_.size()); }
  ListShard& shard(std::uint32_t index) const { return *shards_[index]; }

  // A selection that serves the ladder first and then the design's lists.
  class SelectionBase : public Selection {
   public:
    SelectionBase(DirtyListBase& list, const SelectionRequest& request);
    ~SelectionBase() override;
    std::size_t claim(std::span<DirtyObject*> out) final;
    Instant moment() const final { return moment_; }

   protected:
    virtual std::size_t claim_listed(std::span<DirtyObject*> out) = 0;
    // A sync's moment at this shard, whose youngest stamp may lie beyond the caller's `now`.
    Instant moment_of(const ListShard& shard) TW_REQUIRES(shard.lock) {
      Instant here = std::max(request_.now, shard.last);
      if (shard.lazy != nullptr) here = std::max(here, shard.lazy->moment_of(this));
      moment_ = std::max(moment_, here);
      return here;
    }
    const SelectionRequest request_;

   private:
    std::size_t claim_lazy(std::span<DirtyObject*> out);
    std::size_t claim_lazy_sync(std::span<DirtyObject*> out);
    void end_lazy_sync(ListShard& home);

    DirtyListBase& list_;
    Instant moment_;  // the latest of its shards'
    std::uint32_t first_lazy_ = 0;   // kSync: what the shards before it had for it is claimed
    bool timestamps_first_ = false;  // kReclaim: whose turn it is
    RetryLadder::SyncShare ladder_share_;  // kSync alone
  };

 private:
  Marked list_clean(DirtyObject& object, std::uint32_t classes, Instant now);
  bool promote(DirtyObject& object, DirtyState seen, std::uint32_t classes, Instant now);
  bool file_lazy(ListShard& home, DirtyObject& object, DirtyPhase from, Instant now, bool& waiters)
      TW_REQUIRES(home.lock);
  std::size_t claim_lazy_nodes(ListShard& home, std::span<WheelNode* const> nodes,
                               std::span<DirtyObject*> out) TW_REQUIRES(home.lock);
  ListShard& lock_for_listing(const DirtyObject& object);
  ListShard& lock_another(ListShard& picked);
  template <class Then>
  bool take_listed(DirtyObject& object, DirtyState seen, Then then);
  bool set_waiters(DirtyObject& object, std::uint32_t if_claimed) const;
  EndWrite end_moving(const WriteSlot& slot, Instant now);
  EndWrite adopt_from(DirtyObject& object, DirtyPhase from, Instant now);
  EndWrite relist(DirtyObject& object, Filing why, DirtyPhase from, std::uint32_t classes,
                  const WriteEnd* end, Instant now);
  void lower_came_back(Instant stamp);

  const std::vector<std::unique_ptr<ListShard>> shards_;
  const std::uint16_t context_;
  const bool lazytime_;
  const Duration lazytime_expire_;
  // Relaxed: set, and then every shard lock is taken; read under a shard's lock.
  Atomic<bool> closed_{false};
  mutable RetryLadder ladder_;  // a reading of the oldest stamp leaves its marks there
  ShardedCounter redirties_;
  // Relaxed: raised before a design takes its shards' locks to make due what is listed; who files under one
  // later sees it.
  Atomic<std::uint16_t> set_backs_{0};

  // ---- readings of the oldest stamp (dirty_list_oldest.cc) ----
  mutable Mutex reading_lock_ TW_ACQUIRED_AFTER(kRankContext) TW_ACQUIRED_BEFORE(kRankStore);
  mutable std::uint64_t readings_ TW_GUARDED_BY(reading_lock_) = 0;
  // Relaxed, both: stored before the reader takes the first shard's lock; whoever files something in a shard,
  // or on the ladder, that the reader has been at already took that lock after him. Of what came back the
  // reader learns by the batch that it left (HeldStamp).
  alignas(kCacheLine) mutable Atomic<bool> reading_{false};
  mutable Atomic<std::int64_t> came_back_ns_{INT64_MAX};  // least stamp of what was filed again meanwhile
};

// For designs: the lock class in the options, or the one that lists share.
LockClass& list_lock_class(const DirtyListOptions& options);

}  // namespace tidewheel
