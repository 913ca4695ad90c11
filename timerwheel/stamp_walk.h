// timerwheel/stamp_walk.h: the least stamp on lists whose order is not that of stamps, exactly, looking at a
// few elements per hold of their lock.
// Owns:      nothing. Each such list keeps a StampOrder, each lock one StampWalk: the place in a list where
//            a reader who dropped the lock goes on.
// Threads:   all of it belongs to the lock of the lists; one reading at a time per lock.
// Units:     nanoseconds of the caller's clock.
// Invariant: (1) no stamp on a list is below both that of its first element and its order's low(): an element
//            either follows one that was not younger when it was linked, and so on back to the first, or to
//            one that low() has counted; (2) StampWalk points at an element of the list it is on: whoever
//            unlinks says so first (leaving), whoever splices lists says so (spliced); (3) a list that is
//            marked as looked at was never empty since, and the reading's least is not above a stamp it had.
// Cost:      a list that was linked in order: one element looked at. An unlink: one comparison.
#pragma once
#include <algorithm>
#include <boost/intrusive/list.hpp>
#include <cstdint>

#include "base/time.h"
#include "timerwheel/node.h"

namespace tidewheel {

// One reading, over many locks. What a reading is told of lists by and by is right only together with what
// came to them meanwhile: an element that was elsewhere when a list was looked at (DirtyList::oldest_stamp).
struct StampReading {
  std::uint64_t id = 0;           // never 0, another one each time, among all that read these lists
  Instant least = Instant::max();
  std::size_t left = 0;           // elements that may still be looked at in this hold
};

class StampOrder {
 public:
  // It is linked alone.
  void begin() {
    low_ = Instant::max();
    looked_at_ = 0;
  }
  // `stamp` was linked behind the last element's, or before the first one's.
  void linked_behind(Instant last, Instant stamp) {
    if (stamp < last) low_ = std::min(low_, stamp);
  }
  void linked_before(Instant first, Instant stamp) { linked_behind(stamp, first); }
  // All of `other` was spliced behind the last element, `first` being the other's first.
  void spliced_behind(Instant last, const StampOrder& other, Instant first) {
    linked_behind(last, first);
    low_ = std::min(low_, other.low_);
    if (looked_at_ != other.looked_at_) looked_at_ = 0;
  }
  Instant low() const { return low_; }

 private:
  friend class StampWalk;
  Instant low_ = Instant::max();
  std::uint64_t looked_at_ = 0;  // the reading that has taken everything into account that was here then
};

class StampWalk {
 public:
  using List = boost::intrusive::list<
      WheelNode, boost::intrusive::member_hook<WheelNode, WheelNode::Hook, &WheelNode::hook>,
      boost::intrusive::constant_time_size<false>>;
  using Traits = List::value_traits;
  using Link = Traits::node_traits::node;

  // ---- whoever changes the lists ----
  void leaving(WheelNode& node) {
    const Link* link = Traits::to_node_ptr(node);
    if (link != at_) [[likely]] return;
    at_ = link->next_;
    if (at_ == head_) ended();  // now: the list may be empty, and another one, when the reader comes again
  }
  // Elements went from one list to the other; or a list's memory goes. The walk begins that list anew.
  void spliced(const StampOrder& into, const StampOrder& from) {
    if (in_ == &into || in_ == &from) end();
  }
  void forget(const StampOrder& list) { spliced(list, list); }

  // ---- a reading: in each hold go_on(), then look() at every list, then end() ----
  // False: the hold's elements are used up, the reading goes on in another one.
  bool go_on(StampReading& reading) {
    if (reading.id != reading_) end();
    reading_ = reading.id;
    return in_ == nullptr || walk(reading);
  }
  // `head` is that of a list that is not empty, `first()` the stamp of its first element: asked once a
  // reading.
  template <class First>
  bool look(StampReading& reading, StampOrder& order, Link* head, First first) {
    if (order.looked_at_ == reading.id) return true;
    if (reading.left == 0) return false;
    --reading.left;
    const Instant stamp = first();
    if (stamp <= order.low_ || order.low_ >= reading.least) {
      reading.least = std::min(reading.least, stamp);
      order.looked_at_ = reading.id;
      return true;
    }
    reading.least = std::min(reading.least, stamp);  // it may be gone before the walk comes to it
    in_ = &order;
    head_ = head;
    at_ = head->next_;
    return walk(reading);
  }
  void end() {
    at_ = nullptr;
    in_ = nullptr;
  }

 private:
  bool walk(StampReading& reading) {
    for (; at_ != head_; at_ = at_->next_, --reading.left) {
      if (reading.left == 0) return false;
      reading.least = std::min(reading.least, Traits::to_value_ptr(const_cast<Link*>(at_))->stamp);
    }
    ended();
    return true;
  }
  void ended() {
    in_->looked_at_ = reading_;
    end();
  }

  const Link* at_ = nullptr;  // the next to be looked at. Null: no walk
  const Link* head_ = nullptr;
  StampOrder* in_ = nullptr;
  std::uint64_t reading_ = 0;
};

}  // namespace tidewheel
