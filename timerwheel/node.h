// timerwheel/node.h: what an element carries to be on a time bucket: a hook and a stamp.
// Owns:      nothing. The element outlives its listing.
// Locks:     both members belong to the shard lock of the list the element is on.
// Units:     stamp = nanoseconds of the caller's clock (dirtied_when).
// Invariant: hook linked exactly while the element is on a bucket; the stamp never changes while linked.
#pragma once
#include <boost/intrusive/list_hook.hpp>
#include <boost/intrusive/options.hpp>

#include "base/time.h"

namespace tidewheel {

struct WheelNode {
  using Hook = boost::intrusive::list_member_hook<
      boost::intrusive::link_mode<boost::intrusive::safe_link>>;
  Hook hook;
  Instant stamp;
};
// 16 + 8: with a 16-bit context and a shard beside it, what an element carries stays at 32 bytes.
static_assert(sizeof(WheelNode) == 24);

}  // namespace tidewheel
