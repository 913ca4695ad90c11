// writeback/lists/single_list.cc: `single-list`: one classic list for the whole context.
// Faults, as its original has them (the conformance suite checks each):
//   - one lock for every writer and flusher; queue_io moves all that expired in one hold, so the longest
//     hold grows with the number of dirty objects;
//   - redirty_tail clobbers stamps: an object that was skipped looks younger than it is and waits a whole
//     expiry more each time (P1, P2);
//   - b_io is shared: a sync writes what background work has queued, dirtied after the sync began or not
//     (P4).
// Where it differs from the original: a failed object goes to the retry ladder (the original marks its pages
// clean and loses them); and what comes back from a batch, dirty since before an open sync, goes to b_more_io
// and so to the sync's next round (the original's sync waits for it in place).
#include "writeback/lists/classic_list.h"
#include "writeback/lists/designs.h"

namespace tidewheel {

namespace {

class SingleList final : public ClassicList {
 public:
  explicit SingleList(const DirtyListOptions& options) : ClassicList(1, options) {}
  std::string_view name() const override { return "single-list"; }

 private:
  std::uint32_t pick_shard(const DirtyObject&) const override { return 0; }
};

}  // namespace

std::unique_ptr<DirtyList> make_single_list(const DirtyListOptions& options) {
  return std::make_unique<SingleList>(options);
}

}  // namespace tidewheel
