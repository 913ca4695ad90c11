// writeback/completion_shares.h: which part of all that is written lately each device writes: a proportion
// that floats, with a half-life of three seconds.
// Owns:      the sum over all devices; each device owns its own part.
// Threads:   add() and share() from any thread.
// Locks:     lock_ (kStatistics): one short hold per completed batch, none per write.
// Units:     bytes; shares in parts of 2^16.
// Invariant: what was written k periods ago counts for 1 / 2^k. A period in which nothing is written
//            anywhere doesn't count: shares stay as they are through an idle night.
// Source:    "floating proportions" (published with Linux 2.6.24 and 3.5), as described there.
#pragma once
#include <cstdint>

#include "base/sync.h"
#include "base/time.h"

namespace tidewheel {

class CompletionShares {
 public:
  static constexpr Duration kPeriod = seconds(3);
  static constexpr std::uint64_t kWhole = 1 << 16;

  // One device's part.
  struct Part {
    std::uint64_t bytes = 0;
    std::uint64_t period = 0;  // to which it has been aged
  };

  CompletionShares();
  void join(Part& part);
  void leave(Part& part);
  void add(Part& part, std::uint64_t bytes, Instant now);
  // Of kWhole. Before anything has been written all devices have equal shares.
  std::uint64_t share(Part& part, Instant now);

 private:
  void age(Instant now) TW_REQUIRES(lock_);
  void age(Part& part) TW_REQUIRES(lock_);

  Mutex lock_ TW_ACQUIRED_AFTER(kRankStatistics);
  std::uint64_t bytes_ TW_GUARDED_BY(lock_) = 0;
  std::uint64_t period_ TW_GUARDED_BY(lock_) = 0;
  Instant period_began_ TW_GUARDED_BY(lock_) = Instant::min();
  bool wrote_ TW_GUARDED_BY(lock_) = false;  // in this period
  std::uint32_t parts_ TW_GUARDED_BY(lock_) = 0;
};

}  // namespace tidewheel
