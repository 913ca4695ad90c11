// An AIL without a pusher, of mock items, on a mock log.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <vector>

#include "tests/fs/mock_item.h"

namespace tidewheel {

class AilTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kLogSectors = 1024;  // a quarter: 256

  explicit AilTest(AilForce force = AilForce::kEachWalk)
      : ail({.log_sectors = kLogSectors, .force = force}, log, log, log) {}
  ~AilTest() override {
    for (MockItem& item : items) remove(item);
  }

  MockItem& add(Lsn lsn, PushResult answer = PushResult::kPushed) {
    MockItem& item = items.emplace_back(answer);
    insert(item, lsn);
    return item;
  }
  void insert(MockItem& item, Lsn lsn) {
    newest = std::max(newest, lsn);
    ail.checkpoint_stable(newest);
    LogItem* const one[] = {&item};
    ail.insert(one, lsn);
  }
  void remove(MockItem& item) {
    LogItem* const one[] = {&item};
    ail.remove(one);
  }
  std::vector<const LogItem*> order() {
    std::vector<const LogItem*> seen;
    Ail::Cursor cursor(ail);
    while (ail.visit_next(cursor, [&](LogItem& item) { seen.push_back(&item); })) {
    }
    return seen;
  }

  MockLog log;
  Ail ail;
  Lsn newest;
  std::list<MockItem> items;
};

}  // namespace tidewheel
