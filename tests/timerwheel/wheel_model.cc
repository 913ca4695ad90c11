#include "tests/timerwheel/wheel_model.h"

#include <algorithm>

namespace tidewheel {

namespace {

using Wide = __int128;

std::int64_t clamp_to_64(Wide value) {
  return static_cast<std::int64_t>(std::clamp<Wide>(value, INT64_MIN, INT64_MAX));
}

void expect(bool condition, const char* what) {
  if (!condition) throw Mismatch(what);
}

constexpr std::size_t kMaxOpenSets = 3;
constexpr std::int64_t kHourNs = 3'600'000'000'000;

}  // namespace

WheelModel::WheelModel(const ModelOptions& options)
    : options_(options),
      width_ns_(options.wheel.slot.ns),
      late_ns_(std::max(options.wheel.late_reading.ns, options.wheel.slot.ns)),
      wheel_(options.wheel, hint_),
      items_(options.items),
      now_ns_(options.start.ns) {
  for (Item& item : items_) {
    item.position = by_state_[0].size();
    by_state_[0].push_back(&item);
  }
}

WheelModel::~WheelModel() {
  // After a mismatch the wheel still holds elements: let them go, so that the failure is what is reported.
  for (Item& item : items_) {
    if (item.node.hook.is_linked()) wheel_.remove(item);
  }
  for (const auto& open : sets_) wheel_.put_back(open->set);
}

std::int64_t WheelModel::slot_of(std::int64_t ns) const {
  std::int64_t slot = ns / width_ns_;
  if (ns % width_ns_ < 0) --slot;
  return slot;
}

bool WheelModel::is_due(const Key& key, std::int64_t cutoff_ns) const {
  return key.overdue || Wide{key.slot} * width_ns_ + width_ns_ - 1 <= cutoff_ns;
}

void WheelModel::observe() {
  if (!started_) {
    started_ = true;
    last_ns_ = now_ns_;
  } else if (now_ns_ >= last_ns_) {
    last_ns_ = now_ns_;
  } else if (Wide{last_ns_} - now_ns_ > late_ns_) {
    step_back();
  }
}

void WheelModel::step_back() {
  ++expected_.clock_steps;
  Shelf all;
  shelve_all(ready_, all, true);
  shelve_all(waiting_, all, true);
  shelve_all(all, ready_, true);
  last_ns_ = now_ns_;
}

void WheelModel::set_back() {
  wheel_.set_back(Instant{now_ns_});
  if (!of_state(State::kListed).empty()) step_back();
}

void WheelModel::start_if_trimmed(std::int64_t ns) {
  if (started_) return;
  started_ = true;
  last_ns_ = ns;
}

void WheelModel::shelve_all(Shelf& from, Shelf& to, bool overdue) {
  for (const auto& [key, item] : from) {
    item->shelf = &to;
    item->at = to.emplace(Key{key.overdue || overdue, key.slot}, item);
  }
  from.clear();
}

void WheelModel::set_state(Item& item, State state) {
  std::vector<Item*>& from = of_state(item.state);
  from[item.position] = from.back();
  from[item.position]->position = item.position;
  from.pop_back();
  item.state = state;
  item.position = of_state(state).size();
  of_state(state).push_back(&item);
}

void WheelModel::list(Item& item, Shelf& shelf, std::int64_t stamp_ns, bool overdue) {
  ++expected_.inserts;
  item.stamp_ns = stamp_ns;
  item.listed_at = steps_;
  if (reading_is_open_) seen_ns_.insert(stamp_ns);
  item.shelf = &shelf;
  item.at = shelf.emplace(Key{overdue, slot_of(stamp_ns)}, &item);
  set_state(item, State::kListed);
  check_stamp(item);
}

void WheelModel::unlist(Item& item) {
  item.shelf->erase(item.at);
  item.shelf = nullptr;
}

void WheelModel::check_stamp(const Item& item) const {
  expect(item.node.stamp.ns == item.stamp_ns, "the stamp is not what it was set to");
}

void WheelModel::check_oldest() const {
  const Key* oldest = nullptr;
  const auto look = [&oldest](const Shelf& shelf) {
    if (!shelf.empty() && (oldest == nullptr || shelf.begin()->first < *oldest)) {
      oldest = &shelf.begin()->first;
    }
  };
  look(waiting_);
  look(ready_);
  for (const auto& open : sets_) look(open->shelf);
  const Instant expected = oldest == nullptr ? Instant::max()
                           : oldest->overdue ? Instant::min()
                                             : Instant{clamp_to_64(Wide{oldest->slot} * width_ns_)};
  expect(wheel_.oldest() == expected, "the oldest is wrong");
  expect(hint_.oldest() == expected, "the hint is wrong");
  expect(wheel_.listed() == by_state_[1].size(), "the number listed is wrong");
  expect(wheel_.has_ready() == !ready_.empty(), "the ready queue is wrong about being empty");
}

// ---- the least stamp ----

// One hold of a reading, at most three elements; what it answers in the end lies between two bounds.
void WheelModel::read_least(Rng& rng) {
  if (!reading_is_open_) {
    reading_ = StampReading{.id = ++last_reading_};
    reading_is_open_ = true;
    reading_began_ = steps_;
    seen_ns_.clear();
    for (const Item* item : of_state(State::kListed)) seen_ns_.insert(item->stamp_ns);
  }
  reading_.left = 1 + rng.below(3);
  const bool done = wheel_.look_for_least(reading_);
  expect(reading_.left <= 3, "a hold looks at more than it may");
  if (!done) return;
  reading_is_open_ = false;
  if (reading_began_ != steps_) ++readings_beside_others;
  expect(reading_.least == Instant::max() || seen_ns_.contains(reading_.least.ns),
         "the least stamp is of nothing that was listed");
  for (const Item* item : of_state(State::kListed)) {
    if (item->listed_at < reading_began_) {
      expect(reading_.least.ns <= item->stamp_ns, "a stamp that was listed all the while is less");
    }
  }
}

// While nothing moves: exactly the least.
void WheelModel::check_least() {
  if (reading_is_open_) return;
  StampReading reading{.id = ++last_reading_};
  do {
    reading.left = kMaxClaim;
  } while (!wheel_.look_for_least(reading));
  std::int64_t least_ns = INT64_MAX;
  for (const Item* item : of_state(State::kListed)) least_ns = std::min(least_ns, item->stamp_ns);
  expect(reading.least.ns == least_ns, "the least stamp is another one");
}

// ---- time ----

void WheelModel::move_time(Rng& rng) {
  const std::int64_t window_ns = clamp_to_64(Wide{width_ns_} * options_.wheel.slots);
  Wide to = now_ns_;
  std::uint64_t kind = rng.below(1000);
  if (kind >= 930 && !rng.chance(options_.calm)) kind = rng.below(930);
  if (kind < 600) {
    to += rng.below(static_cast<std::uint64_t>(width_ns_) / 8 + 1);
  } else if (kind < 800) {  // a slot's edge, and 1 ns beside it
    to = (Wide{slot_of(now_ns_)} + 1) * width_ns_ + static_cast<std::int64_t>(rng.below(3)) - 1;
  } else if (kind < 930) {
    to += Wide{width_ns_} * rng.below(8);
  } else if (kind < 960) {  // a late reading, up to its limit and just beyond
    to -= rng.chance(4) ? late_ns_ + static_cast<std::int64_t>(rng.below(3)) - 1
                        : static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(late_ns_)));
  } else if (kind < 975) {  // a stall about as long as the window
    to += Wide{window_ns} + (static_cast<Wide>(rng.below(5)) - 2) * width_ns_ + rng.below(3) - 1;
  } else if (kind < 985) {
    to += Wide{width_ns_} * rng.below(std::uint64_t{options_.wheel.slots} * 3);
  } else if (kind < 990) {
    to += kHourNs;
  } else if (kind < 995) {
    to -= kHourNs;
  } else if (kind < 996) {
    to = Wide{INT64_MAX} - rng.below(3) * static_cast<std::uint64_t>(width_ns_);
  } else if (kind < 997) {
    to = Wide{INT64_MIN} + rng.below(3) * static_cast<std::uint64_t>(width_ns_);
  } else if (kind < 998) {
    to = options_.start.ns;
  }
  now_ns_ = clamp_to_64(to);
}

// A moment that matters: about now, an edge of the window, an edge of a slot with something in it, an
// extreme.
std::int64_t WheelModel::some_moment(Rng& rng) const {
  const std::int64_t window_ns = clamp_to_64(Wide{width_ns_} * options_.wheel.slots);
  const std::int64_t nudge = static_cast<std::int64_t>(rng.below(3)) - 1;
  switch (rng.below(8)) {
    case 0:
      return rng.chance(2) ? INT64_MIN + 1 + nudge : INT64_MAX - 1 + nudge;
    case 1:
      return clamp_to_64(Wide{last_ns_} - window_ns + nudge * width_ns_ + nudge);
    case 2:
      return clamp_to_64(Wide{last_ns_} + nudge * width_ns_ + nudge);
    case 3:
    case 4:
      if (!by_state_[1].empty()) {
        const Item& item = *by_state_[1][rng.below(by_state_[1].size())];
        return clamp_to_64((Wide{slot_of(item.stamp_ns)} + 1) * width_ns_ - 1 + nudge);
      }
      [[fallthrough]];
    default:
      return clamp_to_64(Wide{last_ns_} -
                         static_cast<Wide>(rng.below(static_cast<std::uint64_t>(window_ns))) * 5 / 4);
  }
}

// ---- operations ----

void WheelModel::insert() {
  if (of_state(State::kFree).empty()) return;
  Item& item = *of_state(State::kFree).back();
  observe();
  wheel_.insert(item, Instant{now_ns_});
  list(item, waiting_, last_ns_);
}

void WheelModel::insert_at(Rng& rng) {
  const State from = rng.chance(2) ? State::kClaimed : State::kFree;
  if (of_state(from).empty()) return;
  Item& item = *of_state(from)[rng.below(of_state(from).size())];
  const std::int64_t stamp_ns = from == State::kClaimed && rng.chance(2) ? item.stamp_ns : some_moment(rng);
  observe();
  if (rng.chance(16)) {
    item.node.stamp = Instant{stamp_ns};
    wheel_.insert_overdue(item, Instant{now_ns_});
    list(item, ready_, stamp_ns, true);
    return;
  }
  wheel_.insert_at(item, Instant{stamp_ns}, Instant{now_ns_});
  list(item, waiting_, std::min(stamp_ns, last_ns_));
}

void WheelModel::remove(Rng& rng) {
  if (of_state(State::kListed).empty()) return;
  Item& item = *of_state(State::kListed)[rng.below(of_state(State::kListed).size())];
  if (item.shelf != &waiting_ && item.shelf != &ready_) ++removed_from_sets_;
  check_stamp(item);
  wheel_.remove(item);
  ++expected_.removals;
  unlist(item);
  set_state(item, State::kFree);
}

void WheelModel::detach_expired(Rng& rng) {
  const std::int64_t cutoff_ns = some_moment(rng);
  if (!of_state(State::kListed).empty()) observe();
  std::uint32_t slots = 0;
  while (!waiting_.empty() && is_due(waiting_.begin()->first, cutoff_ns)) {
    const auto [key, item] = *waiting_.begin();
    unlist(*item);
    item->shelf = &ready_;
    item->at = ready_.emplace(key, item);
    if (waiting_.empty() || waiting_.begin()->first != key) ++slots;
  }
  expected_.detached_buckets += slots;
  expect(wheel_.detach_expired(Instant{cutoff_ns}, Instant{now_ns_}) == slots,
         "another number of slots is due");
}

void WheelModel::detach_oldest() {
  const bool any = !waiting_.empty();
  expect(wheel_.detach_oldest() == any, "detach_oldest is wrong about there being something");
  if (!any) return;
  ++expected_.detached_buckets;
  const Key key = waiting_.begin()->first;
  while (!waiting_.empty() && waiting_.begin()->first == key) {
    Item& item = *waiting_.begin()->second;
    unlist(item);
    item.shelf = &ready_;
    item.at = ready_.emplace(key, &item);
  }
}

void WheelModel::check_claimed(Shelf& shelf, Item* const* out, std::size_t count, std::size_t wanted,
                               std::int64_t cutoff_ns) {
  expect(count <= kMaxClaim, "more than 32 elements in one hold");
  for (std::size_t i = 0; i < count; ++i) {
    Item& item = *out[i];
    expect(item.state == State::kListed, "something is claimed that is not listed, or twice");
    expect(item.shelf == &shelf, "something is claimed from another place");
    const Key key = item.at->first;
    expect(key == shelf.begin()->first, "something is claimed before an older slot");
    expect(is_due(key, cutoff_ns), "something is claimed early");
    expect(key.overdue || item.stamp_ns <= cutoff_ns,
           "something is claimed that was stamped after the cut-off");
    expect(!item.node.hook.is_linked(), "a claimed element is still linked");
    check_stamp(item);
    unlist(item);
    set_state(item, State::kClaimed);
  }
  expected_.claimed += count;
  expected_.max_elements_per_hold = std::max<std::uint64_t>(expected_.max_elements_per_hold, count);
  if (count < std::min(wanted, kMaxClaim)) {
    expect(shelf.empty() || !is_due(shelf.begin()->first, cutoff_ns), "something that is due is kept back");
  }
}

void WheelModel::claim(Rng& rng) {
  Item* out[40];
  const std::size_t wanted = 1 + rng.below(40);
  const std::int64_t cutoff_ns = rng.chance(2) ? INT64_MAX : some_moment(rng);
  const std::size_t count = wheel_.claim(std::span(out).first(wanted), Instant{cutoff_ns});
  check_claimed(ready_, out, count, wanted, cutoff_ns);
}

void WheelModel::requeue_front(Rng& rng) {
  if (of_state(State::kClaimed).empty()) return;
  Item& item = *of_state(State::kClaimed)[rng.below(of_state(State::kClaimed).size())];
  start_if_trimmed(item.stamp_ns);
  wheel_.requeue_front(item);
  list(item, ready_, std::min(item.stamp_ns, last_ns_));
}

void WheelModel::release_claimed(Rng& rng) {
  for (std::uint64_t n = rng.below(64); n > 0 && !of_state(State::kClaimed).empty(); --n) {
    set_state(*of_state(State::kClaimed).back(), State::kFree);
  }
}

void WheelModel::take_all(Rng& rng) {
  if (sets_.size() == kMaxOpenSets) return;
  sets_.push_back(std::make_unique<OpenSet>());
  OpenSet& open = *sets_.back();
  ++expected_.sync_sets;
  open.clock_steps = expected_.clock_steps;
  if (rng.chance(8)) {
    open.set = wheel_.open_set();
    return;
  }
  open.set = wheel_.take_all();
  shelve_all(ready_, open.shelf, false);
  shelve_all(waiting_, open.shelf, false);
}

void WheelModel::claim_from(Rng& rng) {
  if (sets_.empty()) return;
  OpenSet& open = *sets_[rng.below(sets_.size())];
  Item* out[40];
  const std::size_t wanted = 1 + rng.below(40);
  const std::size_t count = wheel_.claim_from(*open.set, std::span(out).first(wanted));
  check_claimed(open.shelf, out, count, wanted, INT64_MAX);
}

void WheelModel::append(Rng& rng) {
  if (sets_.empty() || of_state(State::kClaimed).empty()) return;
  OpenSet& open = *sets_[rng.below(sets_.size())];
  Item& item = *of_state(State::kClaimed)[rng.below(of_state(State::kClaimed).size())];
  start_if_trimmed(item.stamp_ns);
  wheel_.append(*open.set, item);
  list(item, open.shelf, std::min(item.stamp_ns, last_ns_));
}

void WheelModel::put_back(std::size_t which) {
  OpenSet& open = *sets_[which];
  wheel_.put_back(open.set);
  shelve_all(open.shelf, ready_, open.clock_steps != expected_.clock_steps);
  sets_.erase(sets_.begin() + static_cast<std::ptrdiff_t>(which));
}

void WheelModel::trim() {
  const bool idle = of_state(State::kListed).empty() && sets_.empty();
  expect(wheel_.trim() == idle, "trim is wrong about being idle");
  if (idle) started_ = false;
}

// An empty stretch: everything leaves, in one of the ways there are.
void WheelModel::drain(Rng& rng) {
  if (rng.chance(2)) {
    while (!of_state(State::kListed).empty()) remove(rng);
  } else {
    while (!sets_.empty()) put_back(0);
    while (!waiting_.empty()) detach_oldest();
    while (!ready_.empty()) claim(rng);
  }
}

void WheelModel::step(std::uint64_t word) {
  Rng rng(word);
  if (rng.chance(2)) move_time(rng);
  std::uint64_t operation = rng.below(10000);
  const bool takes_many = operation >= 7000 && operation < 8600;
  const std::uint64_t calm = operation >= 9995 ? options_.calm : takes_many ? 1 + options_.calm / 100 : 1;
  if (!rng.chance(calm)) operation = 0;
  if (operation < 4000) {
    insert();
  } else if (operation < 5000) {
    insert_at(rng);
  } else if (operation < 7000) {
    remove(rng);
  } else if (operation < 7500) {
    detach_expired(rng);
  } else if (operation < 7700) {
    detach_oldest();
  } else if (operation < 8600) {
    claim(rng);
  } else if (operation < 8900) {
    requeue_front(rng);
  } else if (operation < 9400) {
    release_claimed(rng);
  } else if (operation < 9440) {
    take_all(rng);
  } else if (operation < 9740) {
    claim_from(rng);
  } else if (operation < 9840) {
    append(rng);
  } else if (operation < 9870) {
    if (!sets_.empty()) put_back(rng.below(sets_.size()));
  } else if (operation < 9872) {
    set_back();
  } else if (operation < 9980) {
    observe();
    wheel_.observe(Instant{now_ns_});
  } else if (operation < 9995) {
    trim();
  } else {
    drain(rng);
  }
  ++steps_;
  most_listed_ = std::max(most_listed_, of_state(State::kListed).size());
  check_oldest();
  // Each costs a look at every item.
  if (reading_is_open_ ? rng.chance(3) : rng.chance(4 + options_.items / 16)) read_least(rng);
  if (rng.chance(8 + options_.items / 8)) check_least();
}

void WheelModel::finish() {
  Rng rng(0);
  while (!sets_.empty()) put_back(0);
  check_invariants();
  while (!waiting_.empty()) detach_oldest();
  while (!ready_.empty()) claim(rng);
  check_oldest();
  const WheelStats stats = wheel_.stats();
  expect(stats.inserts == expected_.inserts, "inserts miscounted");
  expect(stats.removals == expected_.removals, "removals miscounted");
  expect(stats.claimed == expected_.claimed, "claims miscounted");
  expect(stats.detached_buckets == expected_.detached_buckets, "detached buckets miscounted");
  expect(stats.sync_sets == expected_.sync_sets, "sync sets miscounted");
  expect(stats.clock_steps == expected_.clock_steps, "clock steps miscounted");
  expect(stats.max_elements_per_hold ==
             std::max<std::uint64_t>(expected_.max_elements_per_hold, stats.inserts == 0 ? 0 : 1),
         "elements per hold miscounted");
  expect(stats.elements_under_lock() == stats.inserts + stats.removals + stats.claimed,
         "elements miscounted");
}

}  // namespace tidewheel
