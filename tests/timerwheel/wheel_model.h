// tests/timerwheel/wheel_model.h: a wheel and a model of it (ordered multimaps over exact arithmetic), moved
// in step. Every operation is made from one 64-bit word, so a run is a list of words: random, or one that
// rapidcheck shrinks. A difference throws Mismatch.
// The model shares no code with the wheel: slots by division in 128 bits, order by multimap, "when is it due"
// from the definition (the slot's last nanosecond lies at or before the cut-off).
#pragma once
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/rng.h"
#include "timerwheel/typed.h"

namespace tidewheel {

struct Mismatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct ModelOptions {
  WheelOptions wheel;
  std::uint32_t items = 512;
  Instant start = Instant{0};
  // Stalls, jumps, late readings and drains happen once in this many of their turns, detaching and claiming
  // once in a hundredth of it: 1 is wild, and a calm run grows old enough to fill a window.
  std::uint64_t calm = 1;
};

class WheelModel {
 public:
  explicit WheelModel(const ModelOptions& options);
  ~WheelModel();
  void step(std::uint64_t word);
  // Takes everything out again, by cut-off, and compares the counters.
  void finish();
  void check_invariants() const { wheel_.check_invariants(); }
  const WheelStats& expected() const { return expected_; }
  WheelStats counted() const { return wheel_.stats(); }
  std::size_t most_listed() const { return most_listed_; }
  std::uint64_t removed_from_sets() const { return removed_from_sets_; }
  // Readings of the least stamp that took more than one hold, with other operations in between.
  std::uint64_t readings_beside_others = 0;

 private:
  // Due at once (the clock was set back) comes before everything, each in slot order.
  struct Key {
    bool overdue = false;
    std::int64_t slot = 0;
    friend constexpr std::strong_ordering operator<=>(const Key& a, const Key& b) {
      if (a.overdue != b.overdue) {
        return a.overdue ? std::strong_ordering::less : std::strong_ordering::greater;
      }
      return a.slot <=> b.slot;
    }
    friend constexpr bool operator==(const Key&, const Key&) = default;
  };
  struct Item;
  using Shelf = std::multimap<Key, Item*>;
  enum class State : std::uint8_t { kFree, kListed, kClaimed };
  struct Item {
    WheelNode node;
    State state = State::kFree;
    std::size_t position = 0;  // in the vector of its state
    std::int64_t stamp_ns = 0;
    std::uint64_t listed_at = 0;  // in steps
    Shelf* shelf = nullptr;
    Shelf::iterator at;
  };
  struct OpenSet {
    SyncSet* set = nullptr;
    Shelf shelf;
    std::uint64_t clock_steps = 0;
  };
  using ItemWheel = WheelOf<Item, &Item::node>;

  std::int64_t slot_of(std::int64_t ns) const;
  bool is_due(const Key& key, std::int64_t cutoff_ns) const;
  void observe();
  void step_back();
  void set_back();
  void start_if_trimmed(std::int64_t ns);
  void list(Item& item, Shelf& shelf, std::int64_t stamp_ns, bool overdue = false);
  void unlist(Item& item);
  void shelve_all(Shelf& from, Shelf& to, bool overdue);
  void set_state(Item& item, State state);
  std::vector<Item*>& of_state(State state) { return by_state_[static_cast<std::size_t>(state)]; }
  void check_claimed(Shelf& shelf, Item* const* out, std::size_t count, std::size_t wanted,
                     std::int64_t cutoff_ns);
  void check_stamp(const Item& item) const;
  void check_oldest() const;
  void read_least(Rng& rng);
  void check_least();

  void move_time(Rng& rng);
  std::int64_t some_moment(Rng& rng) const;
  void insert();
  void insert_at(Rng& rng);
  void remove(Rng& rng);
  void detach_expired(Rng& rng);
  void detach_oldest();
  void claim(Rng& rng);
  void requeue_front(Rng& rng);
  void release_claimed(Rng& rng);
  void take_all(Rng& rng);
  void claim_from(Rng& rng);
  void append(Rng& rng);
  void put_back(std::size_t which);
  void trim();
  void drain(Rng& rng);

  const ModelOptions options_;
  const std::int64_t width_ns_;
  const std::int64_t late_ns_;
  WheelHint hint_;
  ItemWheel wheel_;
  std::vector<Item> items_;
  std::vector<Item*> by_state_[3];
  Shelf waiting_;  // ring or ancient
  Shelf ready_;
  std::vector<std::unique_ptr<OpenSet>> sets_;
  std::int64_t now_ns_;
  bool started_ = false;
  std::int64_t last_ns_ = 0;
  WheelStats expected_;
  std::uint64_t removed_from_sets_ = 0;
  std::size_t most_listed_ = 0;
  // A reading of the least stamp that goes on between the steps.
  StampReading reading_;
  bool reading_is_open_ = false;
  std::uint64_t reading_began_ = 0;
  std::set<std::int64_t> seen_ns_;  // every stamp that was listed at a moment of it
  std::uint64_t last_reading_ = 0;
  std::uint64_t steps_ = 0;
};

}  // namespace tidewheel
