#include "writeback/dirty_list.h"

#include "writeback/lists/designs.h"

namespace tidewheel {

namespace {

// One row per design; the first is the default.
std::vector<DirtyListDesign>& registry() {
  static std::vector<DirtyListDesign> designs = {
      {"timer-wheel", "time buckets in shards, detached by pointer", make_timer_wheel},
      {"single-list", "dirty, io and more-io under one lock; redirty at tail clobbers stamps",
       make_single_list},
      {"tagged-list", "one list, tagged by a walk under its lock", make_tagged_list},
      {"syncer-slots", "a ring of 32 one-second slots under one lock, last in first out", make_syncer_slots},
      {"parallel-lists", "n single-lists by object hash, n flushers", make_parallel_lists},
  };
  return designs;
}

}  // namespace

const std::vector<DirtyListDesign>& dirty_list_designs() { return registry(); }

const DirtyListDesign* find_dirty_list_design(std::string_view name) {
  for (const DirtyListDesign& design : registry()) {
    if (design.name == name) return &design;
  }
  return nullptr;
}

bool register_dirty_list_design(DirtyListDesign design) {
  if (design.make == nullptr || find_dirty_list_design(design.name) != nullptr) return false;
  registry().push_back(std::move(design));
  return true;
}

}  // namespace tidewheel
