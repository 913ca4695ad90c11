// An experiment of one's own: a dirty-list design and a reclaim policy that the library does not know, under
// an access pattern, in virtual time. Prints the timeline as CSV. Links tidewheel::inode.
//   g++ page_cache_experiment.cc $(pkg-config --cflags --libs tidewheel-inode)
//   ./a.out [TRACE] > timeline.csv
#include <tidewheel/inode/lab/experiment.h>
#include <tidewheel/inode/reclaim_order.h>
#include <tidewheel/writeback/dirty_order.h>

#include <cstdio>

using namespace tidewheel;

// A dirty-list design: the file that was dirtied last is written first.
struct NewestFirst : DirtyOrder {
  void file(DirtyObject& object, Filing) override { list.push_front(object.node); }
  DirtyObject* next(Instant before) override {
    for (WheelNode& node : list) {
      if (node.stamp <= before) return &object_of(node);
    }
    return nullptr;
  }
};

// A reclaim policy: first in, first out, whatever was used meanwhile.
struct Fifo : ReclaimOrder {
  LruItem* look() override { return &oldest(); }
};

lab::ExperimentOptions my_options() {
  register_dirty_order<NewestFirst>("newest-first", "what was dirtied last is written first");
  register_reclaim_order<Fifo>("fifo", "first in, first out");
  return {.design = "newest-first", .reclaim = "fifo", .memory_bytes = 8 << 20,
          .expire = seconds(2), .interval = seconds(1)};
}

#ifndef TIDEWHEEL_EXAMPLE_WITHOUT_MAIN
int main(int argc, char** argv) {
  const lab::PatternOptions mixed{.pattern = lab::Pattern::kMixed, .accesses = 50'000, .write_percent = 30};
  const lab::Experiment done =
      lab::run_experiment(my_options(), argc > 1 ? lab::read_trace(argv[1]) : lab::make_pattern(mixed));
  std::fputs(done.to_csv().c_str(), stdout);
  std::fputs(done.error.c_str(), stderr);
  return done.error.empty() ? 0 : 1;
}
#endif
