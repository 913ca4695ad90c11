// tests/writeback/list_rig.h: a dirty list with objects, a hand-turned clock and a flusher without an engine.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "writeback/dirty_list.h"
#include "writeback/dirty_order.h"

namespace tidewheel {

struct ListRig {
  explicit ListRig(const std::string& design, std::size_t count = 0, DirtyListOptions options = {})
      : list(find_dirty_list_design(design)->make(options)), lazytime_expire(options.lazytime_expire) {
    add(count);
  }
  ~ListRig() {
    open.reset();
    for (auto& object : objects) cancel(*object);
  }

  void add(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      objects.push_back(std::make_unique<DirtyObject>());
      // Not by address: the same lists in every run.
      objects.back()->set_hash(static_cast<std::uint8_t>(1 + (objects.size() * 37) % 255));
    }
  }
  DirtyObject& operator[](std::size_t i) { return *objects[i]; }
  std::size_t index_of(const DirtyObject* object) const {
    for (std::size_t i = 0; i < objects.size(); ++i) {
      if (objects[i].get() == object) return i;
    }
    return objects.size();
  }
  void pass(Duration time) { now = now + time; }
  bool mark(std::size_t i, std::uint32_t classes = kDirtyData) {
    return list->mark_dirty(*objects[i], classes, now);
  }
  DirtyList::TakeOut cancel(DirtyObject& object) { return list->cancel(object); }

  SelectionRequest request(WorkKind kind) const {
    SelectionRequest asked;
    asked.kind = kind;
    asked.now = now;
    asked.dirtied_before = kind == WorkKind::kPeriodic ? now - expire
                           : kind == WorkKind::kSync   ? now
                                                       : Instant::max();
    asked.lazy_before = now - lazytime_expire;
    return asked;
  }
  std::unique_ptr<Selection> select(WorkKind kind) { return list->select(request(kind)); }

  // Claims up to n and begins their writes.
  std::vector<WriteSlot> begin(Selection& selection, std::size_t n) {
    std::vector<DirtyObject*> claimed(n);
    claimed.resize(selection.claim(claimed));
    std::vector<WriteSlot> slots;
    for (DirtyObject* object : claimed) {
      slots.emplace_back().object = object;
      if (!list->begin_write(slots.back())) slots.pop_back();
    }
    return slots;
  }
  DirtyList::EndWrite end(WriteSlot& slot, WriteOutcome outcome, WorkKind kind = WorkKind::kBackground) {
    slot.outcome = outcome;
    return list->end_write(slot, kind, now);
  }
  // One whole work: everything it claims is written, `each` decides the outcome (default kWritten). Answers
  // the objects in the order their writes began.
  using Decide = std::function<WriteOutcome(DirtyObject&)>;
  std::vector<DirtyObject*> work(WorkKind kind, const Decide& decide = {}, std::size_t batch = 8,
                                 std::size_t most = SIZE_MAX) {
    std::vector<DirtyObject*> order;
    auto selection = select(kind);
    while (order.size() < most) {
      std::vector<WriteSlot> slots = begin(*selection, batch);
      if (slots.empty()) break;
      for (WriteSlot& slot : slots) {
        order.push_back(slot.object);
        end(slot, decide ? decide(*slot.object) : WriteOutcome::kWritten, kind);
      }
    }
    return order;
  }

  std::unique_ptr<DirtyList> list;
  std::vector<std::unique_ptr<DirtyObject>> objects;
  std::unique_ptr<Selection> open;
  Instant now = Instant{0} + seconds(1000);
  Duration expire = seconds(30);
  Duration lazytime_expire;
};

inline DirtyListOptions lazytime_options(Duration expire = seconds(12LL * 3600)) {
  DirtyListOptions options;
  options.lazytime = true;
  options.lazytime_expire = expire;
  return options;
}

// Two designs as a program may write them (dirty_order.h): one in the order of age, one against it.
struct AgeOrder : DirtyOrder {
  void file(DirtyObject& object, Filing) override {
    auto at = list.begin();
    while (at != list.end() && at->stamp > object.node.stamp) ++at;
    list.insert(at, object.node);
  }
  DirtyObject* next(Instant before) override {
    return !list.empty() && list.back().stamp <= before ? &object_of(list.back()) : nullptr;
  }
  Instant oldest() const override { return list.back().stamp; }
};
struct LatestOrder : DirtyOrder {
  void file(DirtyObject& object, Filing) override { list.push_front(object.node); }
  DirtyObject* next(Instant before) override {
    for (WheelNode& node : list) {
      if (node.stamp <= before) return &object_of(node);
    }
    return nullptr;
  }
};

// Every design that the library has, by name, as gtest parameters.
inline std::vector<std::string> all_designs() {
  std::vector<std::string> names;
  for (const DirtyListDesign& design : dirty_list_designs()) {
    if (!design.name.starts_with("order-")) names.push_back(design.name);
  }
  return names;
}
// And those two.
inline std::vector<std::string> all_designs_and_orders() {
  register_dirty_order<AgeOrder>("order-age", "the oldest first");
  register_dirty_order<LatestOrder>("order-latest", "the youngest first");
  std::vector<std::string> names = all_designs();
  names.insert(names.end(), {"order-age", "order-latest"});
  return names;
}
inline std::string design_test_name(std::string name) {
  std::string plain;
  bool upper = true;
  for (const char c : name) {
    if (c == '-') {
      upper = true;
    } else {
      plain += upper ? static_cast<char>(c - 'a' + 'A') : c;
      upper = false;
    }
  }
  return plain;
}

}  // namespace tidewheel
