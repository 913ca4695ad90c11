// fs/ail/pusher.h: the thread that pushes the AIL.
// Owns:      its thread, from construction until stop().
// Threads:   stop() by one; a thread of its own, since on a shared one what it must free could be waited for.
// Locks:     none of its own.
#pragma once
#include "base/atomic.h"
#include "base/thread.h"
#include "fs/ail/ail.h"

namespace tidewheel {

class AilPusher {
 public:
  explicit AilPusher(Ail& ail);
  ~AilPusher() { stop(); }
  // Ends the thread; what is in the AIL stays there. Harmless twice.
  void stop();

 private:
  void run();

  Ail& ail_;
  Atomic<bool> stopping_{false};  // release pairs with acquire in run(); end_idle() then wakes it
  Thread thread_;
};

}  // namespace tidewheel
