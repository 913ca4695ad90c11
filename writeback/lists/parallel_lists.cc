// writeback/lists/parallel_lists.cc: `parallel-lists`: n classic lists, objects spread by hash, n flushers
// each draining its own.
// Faults: those of single-list, each within a list; and n fixed at the start: locality is lost (neighbours go
// to different flushers, so a batch holds 1/n of a directory), a flusher with an empty list helps nobody.
// Where it differs from its original (2025's proposals for Linux): as single-list.
#include <algorithm>

#include "writeback/lists/classic_list.h"
#include "writeback/lists/designs.h"

namespace tidewheel {

namespace {

std::uint32_t list_count(const DirtyListOptions& options) {
  return std::clamp<std::uint32_t>(options.shards != 0 ? options.shards : options.flushers, 1,
                                   kMaxListShards);
}

class ParallelLists final : public ClassicList {
 public:
  explicit ParallelLists(const DirtyListOptions& options) : ClassicList(list_count(options), options) {}
  std::string_view name() const override { return "parallel-lists"; }

 private:
  std::uint32_t pick_shard(const DirtyObject& object) const override {
    return object.hash() % shard_count();  // not by address: runs would differ
  }
  bool serves(std::uint32_t flusher, std::uint32_t flushers, std::uint32_t index) const override {
    return flushers <= 1 || index % flushers == flusher % flushers;
  }
};

}  // namespace

std::unique_ptr<DirtyList> make_parallel_lists(const DirtyListOptions& options) {
  return std::make_unique<ParallelLists>(options);
}

}  // namespace tidewheel
