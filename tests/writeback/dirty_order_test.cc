// What a design of a program's own must not do, each asserted with a sentence that says what it was.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/writeback/list_rig.h"

namespace tidewheel {
namespace {

// A design that is right but for what a test makes it do.
struct Breaking : DirtyOrder {
  struct How {
    std::function<void(Breaking&, DirtyObject&)> file = [](Breaking& self, DirtyObject& object) {
      self.list.push_back(object.node);
    };
    std::function<DirtyObject*(Breaking&, Instant)> next = [](Breaking& self, Instant before) {
      return self.oldest_before(before);
    };
    std::function<void(Breaking&, DirtyObject&)> leave = [](Breaking&, DirtyObject& object) {
      unlink_node(object.node);
    };
  };
  explicit Breaking(How as) : how(std::move(as)) {}
  void file(DirtyObject& object, Filing) override { how.file(*this, object); }
  DirtyObject* next(Instant before) override { return how.next(*this, before); }
  void leave(DirtyObject& object) override { how.leave(*this, object); }

  DirtyObject* oldest_before(Instant before) {
    for (WheelNode& node : list) {
      if (node.stamp <= before) return &object_of(node);
    }
    return nullptr;
  }
  const How how;
  NodeList another;
};

std::unique_ptr<DirtyList> list_of(const Breaking::How& how, DirtyListOptions options = {}) {
  return make_ordered_list("breaking", [how] { return std::make_unique<Breaking>(how); }, options);
}

struct Rig {
  explicit Rig(const Breaking::How& how, DirtyListOptions options = {}) : list(list_of(how, options)) {}
  ~Rig() {
    for (DirtyObject* object : {&first, &second}) list->cancel(*object);
  }
  void dirty(DirtyObject& object, Instant at) { list->mark_dirty(object, kDirtyData, at); }
  // Claims up to `most` of what is as old as that, and takes them for written.
  std::size_t write(std::size_t most, Instant dirtied_before = Instant::max()) {
    SelectionRequest request;
    request.kind = WorkKind::kBackground;
    request.now = Instant{100};
    request.dirtied_before = dirtied_before;
    const auto selection = list->select(request);
    std::vector<DirtyObject*> claimed(most);
    claimed.resize(selection->claim(claimed));
    for (DirtyObject* object : claimed) {
      WriteSlot slot;
      slot.object = object;
      if (!list->begin_write(slot)) continue;
      slot.outcome = WriteOutcome::kWritten;
      list->end_write(slot, WorkKind::kBackground, Instant{100});
    }
    return claimed.size();
  }
  std::unique_ptr<DirtyList> list;
  DirtyObject first, second;
};

TEST(DirtyOrderDeathTest, OneThatKeepsItsContractIsLeftAlone) {
  Rig rig({});
  rig.dirty(rig.first, Instant{1});
  rig.dirty(rig.second, Instant{2});
  rig.list->check_invariants();
  EXPECT_EQ(rig.write(8, Instant{1}), 1U);
  EXPECT_EQ(rig.write(8), 1U);
  EXPECT_EQ(rig.list->listed(), 0U);
}

TEST(DirtyOrderDeathTest, AFactoryThatMakesNone) {
  EXPECT_DEATH(make_ordered_list("none", [] { return nullptr; }, {}), "factory makes none");
}

TEST(DirtyOrderDeathTest, FilingNothing) {
  const Breaking::How how{.file = [](Breaking&, DirtyObject&) {}};
  EXPECT_DEATH(
      {
        Rig rig(how);
        rig.dirty(rig.first, Instant{1});
      },
      "does not list what it is to file");
}

TEST(DirtyOrderDeathTest, FilingOnAListThatNobodyLooksAt) {
  const Breaking::How how{.file = [](Breaking& self, DirtyObject& object) {
    self.another.push_back(object.node);
  }};
  EXPECT_DEATH(
      {
        Rig rig(how);
        rig.dirty(rig.first, Instant{1});
      },
      "files on another list than its own");
}

TEST(DirtyOrderDeathTest, ChangingAStamp) {
  const Breaking::How how{.file = [](Breaking& self, DirtyObject& object) {
    object.node.stamp = Instant{50};
    self.list.push_back(object.node);
  }};
  EXPECT_DEATH(
      {
        Rig rig(how);
        rig.dirty(rig.first, Instant{1});
      },
      "changes a stamp");
}

TEST(DirtyOrderDeathTest, KeepingWhatLeaves) {
  const Breaking::How how{.leave = [](Breaking&, DirtyObject&) {}};
  EXPECT_DEATH(
      {
        Rig rig(how);
        rig.dirty(rig.first, Instant{1});
        rig.list->cancel(rig.first);
      },
      "keeps what is to leave");
}

TEST(DirtyOrderDeathTest, DroppingWhatNobodyTook) {
  const Breaking::How how{.next = [](Breaking& self, Instant before) {
    DirtyObject* object = self.oldest_before(before);
    if (object == nullptr || self.list.size() < 2) return object;
    unlink_node(self.list.back());
    return object;
  }};
  EXPECT_DEATH(
      {
        Rig rig(how);
        rig.dirty(rig.first, Instant{1});
        rig.dirty(rig.second, Instant{2});
        rig.write(1);
        rig.list->cancel(rig.second);
      },
      "has dropped what is listed");
}

TEST(DirtyOrderDeathTest, AnsweringOneTwice) {
  const Breaking::How how{.next = [last = std::make_shared<DirtyObject*>()](Breaking& self, Instant before) {
    if (*last == nullptr) *last = self.oldest_before(before);
    return *last;
  }};
  EXPECT_DEATH(
      {
        Rig rig(how);
        rig.dirty(rig.first, Instant{1});
        rig.dirty(rig.second, Instant{2});
        rig.write(2);
      },
      "answers what is not listed");
}

TEST(DirtyOrderDeathTest, AnsweringWhatIsClean) {
  EXPECT_DEATH(
      {
        DirtyObject clean;
        Rig rig({.next = [&](Breaking&, Instant) { return &clean; }});
        rig.write(1);
      },
      "answers what is not listed");
}

TEST(DirtyOrderDeathTest, AnsweringAnotherContextsObject) {
  EXPECT_DEATH(
      {
        Rig theirs({}, {.context = 1});
        theirs.first.set_context(1);
        theirs.dirty(theirs.first, Instant{1});
        Rig rig({.next = [&](Breaking&, Instant) { return &theirs.first; }}, {.context = 2});
        rig.write(1);
      },
      "answers another context's object");
}

TEST(DirtyOrderDeathTest, AnsweringWhatIsTooYoung) {
  const Breaking::How how{.next = [](Breaking& self, Instant) {
    return self.oldest_before(Instant::max());
  }};
  EXPECT_DEATH(
      {
        Rig rig(how);
        rig.dirty(rig.first, Instant{7});
        rig.write(1, Instant{6});
      },
      "younger than it was asked for");
}

#if defined(TW_DASSERT_ON)
TEST(DirtyOrderDeathTest, AnsweringThatNothingIsLeftWhenSomethingIs) {
  const Breaking::How how{.next = [](Breaking&, Instant) -> DirtyObject* { return nullptr; }};
  EXPECT_DEATH(
      {
        Rig rig(how);
        rig.dirty(rig.first, Instant{1});
        rig.write(1);
      },
      "nothing is left, and there is");
}
#endif

}  // namespace
}  // namespace tidewheel
