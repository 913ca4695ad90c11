#include "base/entropy.h"

#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/sim_hooks.h"

namespace tidewheel {

std::uint64_t entropy_bits() {
  const auto now = static_cast<std::uint64_t>(SteadyClock::instance().now().ns);
#if TW_SIM
  if (sim::active()) return Rng(now).next();
#endif
  std::uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) == static_cast<ssize_t>(sizeof bits)) return bits;
  return Rng(now ^ static_cast<std::uint64_t>(::getpid()) << 40).next();
}

}  // namespace tidewheel
