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
    std::uint64_t hash = object.hash();
    if (hash == 0) {
      // Objects are at least 8 bytes apart; the golden ratio spreads what an allocator puts at even steps.
      hash = ((reinterpret_cast<std::uintptr_t>(&object) >> 3) * 0x9E3779B97F4A7C15ULL) >> 32;
    }
    return static_cast<std::uint32_t>(hash % shard_count());
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
