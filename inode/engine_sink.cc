#include "inode/engine_sink.h"

#include <algorithm>

#include "base/assert.h"
#include "inode/inode.h"

namespace tidewheel {

WritebackContext& EngineSink::context_of(const Inode& inode) const {
  WritebackContext* context =
      inode.context() == kNoContext ? nullptr : engine_.context(inode.context());
  TW_ASSERT(context != nullptr, "an inode is dirtied before it has a writeback context");
  return *context;
}

Result<DirtyTicket> EngineSink::balance_dirty_pages(Inode& inode, std::uint64_t bytes, TaskThrottle* task) {
  auto grant = engine_.balance_dirty_pages(context_of(inode), bytes, task);
  if (!grant) return Unexpected(grant.error());
  DirtyTicket ticket;
  ticket.bytes = grant->bytes();
  if (task != nullptr) ticket.owner = task->owner();
  ticket.grant = std::move(*grant);
  return ticket;
}

void EngineSink::mark_dirty(Inode& inode, std::uint32_t classes, Instant now, DirtyTicket* ticket) {
  engine_.mark_dirty(inode, classes, now, ticket == nullptr ? nullptr : &ticket->grant);
}

void EngineSink::account_dirtied(Inode& inode, std::uint64_t bytes, DirtyTicket* ticket) {
  // A page that was not foreseen (a tail zeroed by truncate, a grant smaller than one page) goes beyond.
  const std::uint64_t granted = ticket == nullptr ? 0 : std::min(bytes, ticket->grant.bytes());
  // Where the inode is by now, whichever context the grant was asked for.
  if (granted != 0) engine_.account_dirtied(inode, ticket->grant, granted);
  if (bytes != granted) engine_.account_dirtied(context_of(inode), bytes - granted);
  if (ticket != nullptr && ticket->owner != kNoContext) inode.owner_vote.dirtied_by(ticket->owner);
}

void EngineSink::account_writeback_started(Inode& inode, std::uint64_t bytes) {
  engine_.account_writeback_started(context_of(inode), bytes);
}
void EngineSink::account_cleaned(Inode& inode, std::uint64_t bytes) {
  engine_.account_cleaned(context_of(inode), bytes);
}
void EngineSink::account_redirtied(Inode& inode, std::uint64_t bytes) {
  engine_.account_redirtied(context_of(inode), bytes);
}
void EngineSink::account_cancelled(Inode& inode, std::uint64_t bytes) {
  engine_.account_cancelled(inode, bytes);
}
void EngineSink::cancel(Inode& inode) { engine_.cancel(inode); }

bool EngineSink::request_writeback(std::uint64_t bytes) {
  if (engine_.dirty_and_writeback_bytes() == 0) return false;
  for (std::uint32_t id = 0; id < WritebackEngine::kMaxContexts; ++id) {
    if (WritebackContext* context = engine_.context(static_cast<std::uint16_t>(id))) {
      engine_.reclaim(*context, bytes);
    }
  }
  return true;
}

}  // namespace tidewheel
