// base/trace_points.h: the one table of trace points: the field's name and the names of three arguments.
// Note:      a name that exists in the kernel's tracing is spelled as there, so that scripts and habits
//            carry over; each is also a USDT probe tidewheel:NAME.
#pragma once
#include <cstdint>

namespace tidewheel {

//  X(name, first argument, second, third)
#define TW_TRACE_POINTS(X)                                               \
  X(writeback_dirty_inode, object, classes, dirtied_when_ns)             \
  X(writeback_queue, context, kind, bytes)                               \
  X(writeback_queue_io, context, dirtied_before_ns, objects)             \
  X(writeback_start, context, kind, objects)                             \
  X(writeback_single_inode_start, object, classes, dirtied_when_ns)      \
  X(writeback_single_inode, object, outcome, bytes)                      \
  X(writeback_written, context, objects, bytes)                          \
  X(writeback_wait, context, until_ns, queued)                           \
  X(writeback_requeue, object, retry_step, due_ns)                       \
  X(balance_dirty_pages, context, dirty_bytes, pause_ns)                 \
  X(shrink_start, kind, bytes, free_bytes)                               \
  X(shrink_end, kind, bytes, freed_bytes)                                \
  X(block_rq_issue, device, offset_bytes, len_bytes)                     \
  X(block_rq_complete, device, offset_bytes, error)                      \
  X(test_event, first, second, third)

enum class TracePoint : std::uint8_t {
#define TW_TRACE_ENUM(name, a, b, c) name,
  TW_TRACE_POINTS(TW_TRACE_ENUM)
#undef TW_TRACE_ENUM
};

}  // namespace tidewheel
