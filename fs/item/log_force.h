// fs/item/log_force.h: what the AIL asks of the log, and nothing else.
// Threads:   the AIL's pusher, with no lock held.
#pragma once
#include <cstdint>

namespace tidewheel {

enum class ForceMode : std::uint8_t {
  kStart,  // the open checkpoint is pushed; returns without waiting for it
  kWait,   // returns when everything committed before the call is on stable storage, or the log is shut down
};

class LogForcer {
 public:
  virtual void force(ForceMode mode) = 0;

 protected:
  ~LogForcer() = default;
};

}  // namespace tidewheel
