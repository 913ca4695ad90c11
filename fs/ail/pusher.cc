#include "fs/ail/pusher.h"

#include "base/thread_state.h"

namespace tidewheel {

AilPusher::AilPusher(Ail& ail) : ail_(ail), thread_("ail-pusher", [this] { run(); }) {}

void AilPusher::stop() {
  stopping_.store(true, std::memory_order_release);
  ail_.end_idle();
  if (thread_.joinable()) thread_.join();
}

void AilPusher::run() {
  this_thread_state().frees_log_space = true;
  while (!stopping_.load(std::memory_order_acquire)) {
    const Duration pause = ail_.walk();
    if (pause != Duration{0}) ail_.pause(pause);
  }
}

}  // namespace tidewheel
