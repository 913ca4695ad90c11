// writeback/node_list.h: the plain list of dirty objects that the ladder and the classic designs use.
// Owns:      nothing.
// Locks:     the shard's (or the ladder's).
// Invariant: the head keeps its address while anything is linked, and the size is not kept: an object
//            leaves in O(1), knowing only its neighbours.
#pragma once
#include "timerwheel/node.h"
#include "timerwheel/stamp_walk.h"

namespace tidewheel {

using NodeList = StampWalk::List;

// Takes a node off whichever NodeList it is on.
inline void unlink_node(WheelNode& node) {
  using Algorithms = NodeList::node_algorithms;
  const auto link = NodeList::value_traits::to_node_ptr(node);
  Algorithms::unlink(link);
  Algorithms::init(link);
}

// A NodeList that is filed at its front and taken from at its back, whose least stamp can be read. Before a
// node leaves, the walk of its lock is told (StampWalk::leaving).
struct StampedNodes {
  NodeList nodes;
  StampOrder order;

  bool empty() const { return nodes.empty(); }
  void push_front(WheelNode& node) {
    nodes.empty() ? order.begin() : order.linked_behind(nodes.front().stamp, node.stamp);
    nodes.push_front(node);
  }
  void push_back(WheelNode& node) {
    nodes.empty() ? order.begin() : order.linked_before(nodes.back().stamp, node.stamp);
    nodes.push_back(node);
  }
  // All of `other`, in front of it what is here.
  void splice_back(StampedNodes& other, StampWalk& walk) {
    if (!other.nodes.empty()) {
      if (!nodes.empty()) other.order.spliced_behind(other.nodes.front().stamp, order, nodes.back().stamp);
      order = other.order;
      nodes.splice(nodes.end(), other.nodes);
    }
    walk.spliced(order, other.order);
  }
  bool look(StampWalk& walk, StampReading& reading) {
    return nodes.empty() || walk.look(reading, order, nodes.end().pointed_node(),
                                      [this] { return nodes.back().stamp; });
  }
};

}  // namespace tidewheel
