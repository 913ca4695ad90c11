// writeback/dirty_order.h: a dirty-list design of one list, as plain sequential code: where an object is
// filed and which one goes next. The library makes a design of it: the lock, the protocol of the state word,
// the retry ladder, batches, syncs, owners and the counts are DirtyListBase's.
// Owns:      nothing; an object belongs to the program.
// Threads:   an order is called by one thread at a time, under the list's lock (rank kListShard). It takes no
//            lock and keeps no pointer to an object that has left.
// Invariant: an object is on `list` from file() until leave(). Its stamp doesn't change meanwhile.
// Cost:      one lock for all writers and flushers, and what file(), next() and oldest() walk is walked
//            under it: for questions, not for speed. What needs more derives DirtyListBase.
// To add a design: derive, register_dirty_order() before threads start
// (tests/examples/page_cache_experiment.cc does so from outside the library).
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "writeback/dirty_list_base.h"
#include "writeback/node_list.h"

namespace tidewheel {

class DirtyOrder {
 public:
  virtual ~DirtyOrder() = default;

  // Puts object.node on the list: `why` says whether it was clean until now, or comes back from a batch.
  virtual void file(DirtyObject& object, Filing why) = 0;
  // Which goes next of those stamped at or before `before`; null: there is none. It must find one where there
  // is one: a sync ends by this answer. It stays listed: the library calls leave().
  virtual DirtyObject* next(Instant before) = 0;
  // Taken, cancelled, or re-filed elsewhere.
  virtual void leave(DirtyObject& object) { unlink_node(object.node); }
  // The least stamp on the list, which is not empty. Asked when what had it leaves; a design that knows where
  // it is needs no walk.
  virtual Instant oldest() const;

  NodeList list;  // nodes; object_of(node) is the object
};

using DirtyOrderFactory = std::function<std::unique_ptr<DirtyOrder>()>;
std::unique_ptr<DirtyList> make_ordered_list(std::string name, const DirtyOrderFactory& make_order,
                                             const DirtyListOptions& options);

// Before threads start. False: the name is taken.
template <class Order>
bool register_dirty_order(const std::string& name, std::string summary) {
  const DirtyOrderFactory make_order = [] { return std::make_unique<Order>(); };
  return register_dirty_list_design({name, std::move(summary), [name, make_order](const DirtyListOptions& o) {
                                       return make_ordered_list(name, make_order, o);
                                     }});
}

}  // namespace tidewheel
