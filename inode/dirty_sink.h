// inode/dirty_sink.h: what the page cache tells the writeback engine, and asks of it. EngineSink
// (inode/engine_sink.h) passes it on; this floor's tests count instead.
// Threads:   every method is thread-safe.
// Locks:     called with none of inode/'s locks held, but account_dirtied() and account_cancelled(): with the
//            mapping's, under which the pages' tags change with them. So an owner switch, which takes it too
//            (WritebackTarget::begin_switch), finds counted what is tagged, and nothing else.
// Units:     bytes of pages.
#pragma once
#include <cstdint>

#include "base/result.h"
#include "base/time.h"
#include "writeback/engine.h"

namespace tidewheel {

class Inode;

// Leave to make `bytes` dirty; what is not used goes back with it.
struct DirtyTicket {
  std::uint64_t bytes = 0;
  std::uint16_t owner = kNoContext;  // whose task dirties: each page is a vote for it (Inode::owner_vote)
  DirtyGrant grant;
};

class DirtySink {
 public:
  virtual ~DirtySink() = default;

  // Before anything is dirtied or locked; may sleep while too much is dirty. May grant less than asked for
  // (at least one byte); a page more than granted is still accepted by account_dirtied. `task`: the writer's,
  // if it keeps one; it outlives the ticket.
  virtual Result<DirtyTicket> balance_dirty_pages(Inode& inode, std::uint64_t bytes, TaskThrottle* task) = 0;
  // The tags or fields are published already (inode/mapping.h).
  virtual void mark_dirty(Inode& inode, std::uint32_t classes, Instant now, DirtyTicket* ticket) = 0;

  virtual void account_dirtied(Inode& inode, std::uint64_t bytes, DirtyTicket* ticket) = 0;
  virtual void account_writeback_started(Inode& inode, std::uint64_t bytes) = 0;  // dirty -> writeback
  virtual void account_cleaned(Inode& inode, std::uint64_t bytes) = 0;            // writeback -> clean
  virtual void account_redirtied(Inode& inode, std::uint64_t bytes) = 0;          // writeback -> dirty
  virtual void account_cancelled(Inode& inode, std::uint64_t bytes) = 0;          // dirty -> gone

  // The inode is not dirty when this returns; waits while it is being written.
  virtual void cancel(Inode& inode) = 0;
  // Memory is short: write some `bytes` soon. False: nothing is dirty or being written.
  virtual bool request_writeback(std::uint64_t bytes) = 0;
};

}  // namespace tidewheel
