// An experiment of one's own: a dirty-list design and a reclaim policy that the library does not know, under
// an access pattern, in virtual time. Prints the timeline as CSV. Links tidewheel::inode. Outside the tree:
//   g++ page_cache_experiment.cc $(pkg-config --cflags --libs tidewheel-inode)
//   ./a.out [TRACE] > timeline.csv
#include <tidewheel/inode/lab/experiment.h>
#include <tidewheel/inode/reclaim_base.h>
#include <tidewheel/writeback/dirty_list_base.h>
#include <tidewheel/writeback/node_list.h>

#include <cstdio>

using namespace tidewheel;

// ---- a dirty-list design: one list, sorted by stamp where objects come back; the oldest goes first ----
struct OneList : ListShard {
  using ListShard::ListShard;
  NodeList nodes TW_GUARDED_BY(lock);  // oldest at the back
};
class OldestFirst final : public DirtyListBase {
 public:
  explicit OldestFirst(const DirtyListOptions& o) : DirtyListBase(make_one(o), o) {}
  std::string_view name() const override { return "oldest-first"; }
  std::unique_ptr<Selection> select(const SelectionRequest& r) override {
    return std::make_unique<Oldest>(*this, r);
  }

 private:
  static std::vector<std::unique_ptr<ListShard>> make_one(const DirtyListOptions& o) {
    std::vector<std::unique_ptr<ListShard>> shards;
    shards.push_back(std::make_unique<OneList>(list_lock_class(o), 0));
    return shards;
  }
  std::uint32_t pick_shard(const DirtyObject&) const override { return 0; }
  static NodeList& list(ListShard& s) TW_REQUIRES(s.lock) { return static_cast<OneList&>(s).nodes; }
  static void note_oldest(ListShard& s) TW_REQUIRES(s.lock) {
    s.oldest_ns.store(list(s).empty() ? INT64_MAX : list(s).back().stamp.ns, std::memory_order_relaxed);
  }
  void link_locked(ListShard& s, DirtyObject& object, Filing, const WriteEnd*, Instant) override {
    s.touch();
    auto at = list(s).begin();
    while (at != list(s).end() && at->stamp > object.node.stamp) ++at;
    list(s).insert(at, object.node);
    note_oldest(s);
  }
  void unlink_locked(ListShard& s, DirtyObject& object) override {
    unlink_node(object.node);
    note_oldest(s);
  }
  std::uint64_t check_shard_locked(const ListShard& s) const override {
    return static_cast<const OneList&>(s).nodes.size();
  }
  class Oldest final : public SelectionBase {
   public:
    Oldest(OldestFirst& list, const SelectionRequest& r)
        : SelectionBase(list, r), list_(list), home_(list.shard(0)) {
      ShardHold hold(home_);
      before_ = r.kind == WorkKind::kSync ? moment_of(home_) : r.dirtied_before;
    }

   private:
    std::size_t claim_listed(std::span<DirtyObject*> out) override {
      ShardHold hold(home_);
      std::size_t n = 0;
      for (; n < out.size() && !list(home_).empty() && list(home_).back().stamp <= before_; ++n) {
        out[n] = &object_of(list(home_).back());
        unlink_node(out[n]->node);
        list_.claim_locked(home_, *out[n]);
      }
      note_oldest(home_);
      return n;
    }
    OldestFirst& list_;
    ListShard& home_;
    Instant before_;
  };
};

// ---- a reclaim policy: first in, first out, whatever was used meanwhile ----
LockClass fifo_class{"fifo", LockRank::kLru};
struct FifoShard : ReclaimShard {
  using ReclaimShard::ReclaimShard;
  LruList queue TW_GUARDED_BY(mutex);
};
class Fifo final : public ReclaimPolicyBase {
 public:
  Fifo() : ReclaimPolicyBase(make_shards<FifoShard>(fifo_class)) {}
  std::string_view name() const override { return "fifo"; }

 private:
  static LruList& queue(ReclaimShard& s) TW_REQUIRES(s.mutex) { return static_cast<FifoShard&>(s).queue; }
  void link_locked(ReclaimShard& s, LruItem& item) override { queue(s).push_front(item); }
  void unlink_locked(ReclaimShard& s, LruItem& item) override { queue(s).erase(queue(s).iterator_to(item)); }
  std::size_t take_locked(ReclaimShard& s, std::span<LruItem*> out) override {
    std::size_t n = 0;
    for (; n < out.size() && n < kReclaimScan && !queue(s).empty(); ++n) {
      out[n] = &queue(s).back();
      queue(s).pop_back();
    }
    return n;
  }
};

// ---- the experiment ----
lab::ExperimentOptions my_options() {
  static const bool registered =
      register_dirty_list_design({"oldest-first", "one sorted list",
                                  [](const DirtyListOptions& o) -> std::unique_ptr<DirtyList> {
                                    return std::make_unique<OldestFirst>(o);
                                  }}) &&
      register_reclaim_policy({"fifo", "first in, first out",
                               []() -> std::unique_ptr<ReclaimPolicy> { return std::make_unique<Fifo>(); }});
  lab::ExperimentOptions options;
  if (registered) options.design = "oldest-first", options.reclaim = "fifo";
  options.memory_bytes = 8 << 20;
  options.expire = seconds(2), options.interval = seconds(1);
  return options;
}

#ifndef TIDEWHEEL_EXAMPLE_WITHOUT_MAIN
int main(int argc, char** argv) {
  lab::PatternOptions pattern;
  pattern.pattern = lab::Pattern::kMixed;
  pattern.accesses = 50'000;
  pattern.write_percent = 30;
  const lab::Accesses accesses = argc > 1 ? lab::read_trace(argv[1]) : lab::make_pattern(pattern);
  const lab::Experiment done = lab::run_experiment(my_options(), accesses.list);
  std::fputs(done.to_csv().c_str(), stdout);
  const std::string& error = accesses.error.empty() ? done.error : accesses.error;
  if (!error.empty()) std::fprintf(stderr, "page_cache_experiment: %s\n", error.c_str());
  return error.empty() ? 0 : 1;
}
#endif
