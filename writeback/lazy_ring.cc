#include "writeback/lazy_ring.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/assert.h"

namespace tidewheel {

// 128 slots of 1/128 to 1/64 of the maximum age: it has ended before the head comes round, so that hardly
// anything leaves the window. Twelve hours: slots of 275 s.
WheelOptions lazy_wheel_options(Duration expire) {
  constexpr std::int64_t kNarrowest = 1LL << 20;
  constexpr std::int64_t kWidest = 1LL << 40;
  WheelOptions options;
  options.slots = 128;
  const std::uint64_t wanted = expire.ns <= 0 ? kWidest : static_cast<std::uint64_t>(expire.ns) / 64 | 1;
  const auto width = static_cast<std::int64_t>(std::bit_floor(wanted));
  options.slot = Duration{std::clamp(width, kNarrowest, kWidest)};
  return options;
}

void LazyRing::add(WheelNode& node, Instant now) noexcept {
  // insert() would raise the stamp to the ring's own last, which a clock that was set back by less than a
  // wide slot leaves in the future: beyond every sync's moment.
  wheel_.insert_at(node, node.stamp, std::max(now, node.stamp));
  note_size();
}

void LazyRing::remove(WheelNode& node) noexcept {
  wheel_.remove(node);
  note_size();
}

std::size_t LazyRing::claim(Instant dirtied_before, Instant now, std::span<WheelNode*> out) noexcept {
  if (dirtied_before == Instant::max()) {
    if (!wheel_.has_ready()) wheel_.detach_oldest();
  } else {
    wheel_.detach_expired(dirtied_before, now);
  }
  const std::size_t got = wheel_.claim(out, dirtied_before);
  note_size();
  return got;
}

void LazyRing::open_sync(const void* sync, Instant moment) {
  syncs_.push_back({sync, moment, wheel_.take_all()});
}

bool LazyRing::awaited(Instant stamp, Instant now) const {
  return std::any_of(syncs_.begin(), syncs_.end(),
                     [&](const OpenSync& open) { return stamp <= open.moment || stamp > now; });
}

Instant LazyRing::moment_of(const void* sync) const {
  const auto mine =
      std::find_if(syncs_.begin(), syncs_.end(), [sync](const OpenSync& open) { return open.sync == sync; });
  return mine == syncs_.end() ? Instant::min() : mine->moment;
}

std::size_t LazyRing::claim_sync(const void* sync, std::span<WheelNode*> out) noexcept {
  std::size_t got = 0;
  for (const OpenSync& open : syncs_) {
    got += wheel_.claim_from(*open.set, out.subspan(got));
    if (open.sync == sync || got == out.size()) break;
  }
  note_size();
  return got;
}

std::size_t LazyRing::close_sync(const void* sync, std::span<WheelNode*> out) noexcept {
  const auto mine =
      std::find_if(syncs_.begin(), syncs_.end(), [sync](const OpenSync& open) { return open.sync == sync; });
  if (mine == syncs_.end()) return 0;
  std::size_t got = 0;
  if (std::next(mine) != syncs_.end()) got = wheel_.claim_from(*mine->set, out);
  if (got == 0) {
    wheel_.put_back(mine->set);
    syncs_.erase(mine);
  }
  note_size();
  return got;
}

}  // namespace tidewheel
