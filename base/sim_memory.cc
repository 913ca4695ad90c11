// Weak memory inside a simulation: which of a location's stores a load may return.
//
// Each fiber has a view: for every fiber, up to which of that one's stores it knows (a vector clock that
// counts stores). A location keeps its last stores in modification order, which is the order of execution.
// A load may return any kept store that is not older than
//   - one that happened before the load (its number is in the fiber's view),
//   - one that was read or written before the load, by this fiber or by one whose view it has joined since
//     (coherence; of each fiber the newest such access to the location counts),
//   - for a sequentially consistent load: the location's last sequentially consistent store,
//   - one made kStoreDelaySteps scheduling points ago, or before virtual time last stood still: stores
//     become visible in finite time.
// An acquire load joins the view that a release store carries; read-modify-writes read the newest value and
// carry on a release sequence; locks, thread starts and joins pass views on; fences as in the standard,
// with one simplification that makes them stronger: two sequentially consistent fences synchronise.
//
// Rejected: store buffers per thread (x86). They show a load that overtakes an own earlier store, but not a
// relaxed load after a read-modify-write, which is the one that loses dirt on other machines and in the
// hands of a compiler. What a store buffer shows is shown here as others' loads returning older values.
#include <algorithm>

#include "base/sim_sanitizers.h"
#include "base/sim_scheduler.h"

#if TW_SIM

namespace tidewheel::sim {

namespace {

bool acquires(std::memory_order order) {
  return order == std::memory_order_acquire || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst || order == std::memory_order_consume;
}
bool releases(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}

}  // namespace

void Scheduler::join_view(View& into, const View& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

bool Scheduler::knows(const View& view, std::uint32_t fiber, std::uint32_t epoch) {
  return epoch == 0 || (fiber < view.size() && view[fiber] >= epoch);
}

std::uint32_t Scheduler::new_epoch(Fiber& fiber) {
  if (fiber.view.size() <= fiber.id) fiber.view.resize(fiber.id + 1);
  return ++fiber.view[fiber.id];
}

Scheduler::Location& Scheduler::location(const void* address, std::uint64_t newest) {
  Location& location = locations_[address];
  if (location.stores.empty() || location.stores.back().bits != newest) {
    // First use in this run, or written outside the simulation: what is there now is known to all.
    location.first += location.stores.size();
    location.stores.clear();
    location.stores.push_back(Store{.bits = newest, .released = {}});
  }
  return location;
}

void Scheduler::saw(Location& location, std::uint64_t number) {
  if (location.seen.size() <= current_->id) location.seen.resize(current_->id + 1);
  Seen& mine = location.seen[current_->id];
  if (number > mine.number) mine = {number, new_epoch(*current_)};
}

std::uint64_t Scheduler::coherent_from(const Location& location) const {
  std::uint64_t newest = 0;
  for (std::uint32_t fiber = 0; fiber < location.seen.size(); ++fiber) {
    const Seen& seen = location.seen[fiber];
    if (seen.number > newest && knows(current_->view, fiber, seen.epoch)) newest = seen.number;
  }
  return newest;
}

void Scheduler::acquired(const Store& store, std::memory_order order) {
  if (acquires(order)) {
    join_view(current_->view, store.released);
  } else {
    join_view(current_->acquire_fence_view, store.released);
  }
}

std::uint64_t Scheduler::weak_load(const void* address, std::uint64_t newest, std::memory_order order) {
  const TsanIgnore ignore;
  Location& place = location(address, newest);
  const std::size_t last = place.stores.size() - 1;
  std::size_t oldest = last;
  const std::uint64_t seen = coherent_from(place);
  while (oldest > 0) {
    const Store& store = place.stores[oldest];
    if (place.first + oldest <= seen || knows(current_->view, store.fiber, store.epoch) ||
        (order == std::memory_order_seq_cst && store.seq_cst) || store.step < visible_to_all_ ||
        store.step + kStoreDelaySteps < steps_) {
      break;
    }
    --oldest;
  }
  std::size_t chosen = last;
  if (oldest < last) {
    if (rng_.below(2) == 0) chosen = oldest + rng_.below(last - oldest + 1);
    decided((1ULL << 32) + last - chosen);
  }
  saw(place, place.first + chosen);
  acquired(place.stores[chosen], order);
  return place.stores[chosen].bits;
}

void Scheduler::weak_read_newest(const void* address, std::uint64_t newest, std::memory_order order) {
  const TsanIgnore ignore;
  Location& place = location(address, newest);
  saw(place, place.first + place.stores.size() - 1);
  acquired(place.stores.back(), order);
}

void Scheduler::weak_store(const void* address, std::uint64_t before, std::uint64_t after,
                           std::memory_order order, bool read_modify_write) {
  const TsanIgnore ignore;
  Location& place = location(address, before);
  Store store{.bits = after, .fiber = current_->id, .step = steps_, .released = {}};
  store.seq_cst = order == std::memory_order_seq_cst;
  if (read_modify_write) {
    acquired(place.stores.back(), order);
    store.released = place.stores.back().released;  // the release sequence goes on
  }
  store.epoch = new_epoch(*current_);
  join_view(store.released, releases(order) ? current_->view : current_->release_fence_view);
  if (place.stores.size() == kKeptStores) {
    place.stores.erase(place.stores.begin());
    ++place.first;
  }
  place.stores.push_back(std::move(store));
  saw(place, place.first + place.stores.size() - 1);
}

void Scheduler::weak_forget(const void* address) {
  const TsanIgnore ignore;
  locations_.erase(address);
}

void Scheduler::weak_fence(std::memory_order order) {
  const TsanIgnore ignore;
  if (acquires(order)) join_view(current_->view, current_->acquire_fence_view);
  if (order == std::memory_order_seq_cst) {
    join_view(current_->view, seq_cst_fence_view_);
    join_view(seq_cst_fence_view_, current_->view);
  }
  if (releases(order)) current_->release_fence_view = current_->view;
}

}  // namespace tidewheel::sim

#endif
