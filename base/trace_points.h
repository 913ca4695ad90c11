// base/trace_points.h: the one table of trace points: the field's name and the names of its arguments.
// Note:      a name that exists in the kernel's tracing is spelled as there, so that scripts and habits
//            carry over; each is also a USDT probe tidewheel:NAME.
#pragma once
#include <cstdint>

namespace tidewheel {

//  X(name, its four arguments: one that a point has no use for is called unused)
#define TW_TRACE_POINTS(X)                                                           \
  X(writeback_dirty_inode, object, classes, dirtied_when_ns, context)                \
  X(writeback_queue, context, kind, bytes, unused)                                   \
  X(writeback_queue_io, context, dirtied_before_ns, objects, kind)                   \
  X(writeback_start, context, kind, objects, batch)                                  \
  X(writeback_single_inode_start, object, classes, dirtied_when_ns, context)         \
  X(writeback_single_inode, object, outcome, bytes, context)                         \
  X(writeback_written, context, objects, bytes, batch)                               \
  X(writeback_wait, context, until_ns, queued, unused)                               \
  X(writeback_sb_inodes_requeue, object, outcome, dirtied_when_ns, context)          \
  X(balance_dirty_pages, context, dirty_bytes, pause_ns, limit_bytes)                \
  X(global_dirty_state, dirty_bytes, writeback_bytes, background_bytes, limit_bytes) \
  X(mm_vmscan_direct_reclaim_begin, bytes, listed_bytes, unused, unused)             \
  X(mm_vmscan_direct_reclaim_end, freed, unused, unused, unused)                     \
  X(mm_shrink_slab_start, shrinker, bytes, charged_bytes, unused)                    \
  X(mm_shrink_slab_end, shrinker, bytes, freed_bytes, unused)                        \
  X(block_rq_issue, device, offset_bytes, len_bytes, flags)                          \
  X(block_rq_complete, device, offset_bytes, len_bytes, flags)                       \
  X(test_event, first, second, third, unused)

enum class TracePoint : std::uint8_t {
#define TW_TRACE_ENUM(name, a, b, c, d) name,
  TW_TRACE_POINTS(TW_TRACE_ENUM)
#undef TW_TRACE_ENUM
};

}  // namespace tidewheel
