// writeback/lists/designs.h: the factories behind the registry in dirty_list.cc.
#pragma once
#include <memory>

#include "writeback/dirty_list.h"

namespace tidewheel {

std::unique_ptr<DirtyList> make_timer_wheel(const DirtyListOptions& options);
std::unique_ptr<DirtyList> make_single_list(const DirtyListOptions& options);
std::unique_ptr<DirtyList> make_tagged_list(const DirtyListOptions& options);
std::unique_ptr<DirtyList> make_syncer_slots(const DirtyListOptions& options);
std::unique_ptr<DirtyList> make_parallel_lists(const DirtyListOptions& options);

}  // namespace tidewheel
