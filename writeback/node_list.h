// writeback/node_list.h: the plain list of dirty objects that the ladder and the classic designs use.
// Owns:      nothing.
// Locks:     the shard's (or the ladder's).
// Invariant: the head keeps its address while anything is linked, and the size is not kept: an object
//            leaves in O(1), knowing only its neighbours.
#pragma once
#include <boost/intrusive/list.hpp>

#include "timerwheel/node.h"

namespace tidewheel {

using NodeList = boost::intrusive::list<
    WheelNode, boost::intrusive::member_hook<WheelNode, WheelNode::Hook, &WheelNode::hook>,
    boost::intrusive::constant_time_size<false>>;

// Takes a node off whichever NodeList it is on.
inline void unlink_node(WheelNode& node) {
  using Algorithms = NodeList::node_algorithms;
  const auto link = NodeList::value_traits::to_node_ptr(node);
  Algorithms::unlink(link);
  Algorithms::init(link);
}

}  // namespace tidewheel
