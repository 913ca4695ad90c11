// inode/engine_sink.h: the page cache's link to the writeback engine.
// Threads:   thread-safe. An inode's context must be set before it is first dirtied.
#pragma once
#include "inode/dirty_sink.h"

namespace tidewheel {

class EngineSink final : public DirtySink {
 public:
  explicit EngineSink(WritebackEngine& engine) : engine_(engine) {}

  Result<DirtyTicket> balance_dirty_pages(Inode& inode, std::uint64_t bytes, TaskThrottle* task) override;
  void mark_dirty(Inode& inode, std::uint32_t classes, Instant now, DirtyTicket* ticket) override;
  void account_dirtied(Inode& inode, std::uint64_t bytes, DirtyTicket* ticket) override;
  void account_writeback_started(Inode& inode, std::uint64_t bytes) override;
  void account_cleaned(Inode& inode, std::uint64_t bytes) override;
  void account_redirtied(Inode& inode, std::uint64_t bytes) override;
  void account_cancelled(Inode& inode, std::uint64_t bytes) override;
  void cancel(Inode& inode) override;
  bool request_writeback(std::uint64_t bytes) override;

 private:
  WritebackContext& context_of(const Inode& inode) const;
  WritebackEngine& engine_;
};

}  // namespace tidewheel
