// Races of the inode and page cache, each under many schedules (base/sim.h).
#include "base/sim.h"

#include <gtest/gtest.h>

#include "tests/inode/fakes.h"
#include "writeback/error_sequence.h"

namespace tidewheel {
namespace {

using inode_test::bytes_of;
using inode_test::World;
using inode_test::WorldOptions;

// Small enough to be made anew for each schedule.
constexpr WorldOptions kSmall{.budget_bytes = 64 * PageArena::kChargedPerPage, .stripes = 2};
// What reclaim takes part in is looked at under each of the policies.
constexpr std::string_view kPolicies[] = {"two-list", "sieve", "s3-fifo"};
WorldOptions small(std::string_view reclaim) {
  WorldOptions options = kSmall;
  options.reclaim = reclaim;
  return options;
}
constexpr sim::Options kSchedules{.schedules = 300, .cpus = 2};

std::vector<std::byte> filled(std::size_t n, int value) {
  return std::vector<std::byte>(n, static_cast<std::byte>(value));
}
void write_all_of(World& world, Inode& inode, std::uint64_t offset, std::size_t n, int value) {
  SIM_CHECK(*world.pages->write(inode, offset, filled(n, value), Instant{1}) == n);
}
std::vector<std::byte> read_of(World& world, Inode& inode, std::size_t n) {
  std::vector<std::byte> into(n);
  auto got = world.pages->read(inode, 0, into);
  SIM_CHECK(got.has_value());
  into.resize(*got);
  return into;
}

SIM_TEST_WITH(InodeCacheSim, EvictionNeverTakesAnInodeThatIsFoundOrDirty, kSchedules) {
  for (const std::string_view reclaim : kPolicies) {
    World world(small(reclaim));
    world.store.add(1, 0);
    Thread writer("writer", [&] {
      for (int value = 1; value <= 3; ++value) {
        InodeHold inode = world.get(1);
        write_all_of(world, *inode, 0, 100, value);
      }
    });
    Thread flusher("flusher", [&] {
      for (int i = 0; i < 3; ++i) {
        if (!world.engine.write_one()) yield_thread();
      }
    });
    Thread reclaimer("reclaimer", [&] {
      for (int i = 0; i < 4; ++i) world.inodes->evict(4);
    });
    writer.join();
    flusher.join();
    reclaimer.join();
    world.engine.write_all();
    world.inodes->evict(4);
    InodeHold inode = world.get(1);
    SIM_CHECK(read_of(world, *inode, 100) == filled(100, 3));
  }
}

SIM_TEST_WITH(InodeCacheSim, AnInodeThatLeavesAnErrorBehindIsFoundMeanwhile, kSchedules) {
  for (const std::string_view reclaim : kPolicies) {
    World world(small(reclaim));
    world.store.add(1, 0);
    ErrorSequence::record(world.get(1)->write_errors, Reason::kIo);
    Thread reclaimer("reclaimer", [&] { world.inodes->evict(4); });
    // Whether it finds the old one or loads it again: the file exists all the time.
    SIM_CHECK(world.inodes->get(1).has_value());
    reclaimer.join();
  }
}

SIM_TEST_WITH(InodeCacheSim, TwoLookUpsLoadOnce, kSchedules) {
  World world(kSmall);
  world.store.add(7, 50);
  Inode* found[2] = {};
  InodeHold holds[2];
  Thread other("other", [&] {
    holds[1] = world.get(7);
    found[1] = holds[1].get();
  });
  holds[0] = world.get(7);
  found[0] = holds[0].get();
  other.join();
  SIM_CHECK(found[0] == found[1]);
  SIM_CHECK(world.store.loads == 1);
  SIM_CHECK(found[0]->size() == 50);
  SIM_CHECK(world.inodes->stats().inodes == 1);
}

SIM_TEST_WITH(InodeCacheSim, TheLastOfTwoHoldsFreesAnUnlinkedInode, kSchedules) {
  for (const std::string_view reclaim : kPolicies) {
    World world(small(reclaim));
    InodeHold inode = world.create(1);
    InodeHold second = inode.clone();
    write_all_of(world, *inode, 0, 5000, 1);
    Thread flusher("flusher", [&] { world.engine.write_one(); });
    Thread reclaimer("reclaimer", [&] {
      for (int i = 0; i < 3; ++i) {
        world.inodes->evict(4);
        world.pages->reclaim_pages(4);
      }
    });
    Thread other("other", [&] { second.reset(); });
    world.inodes->unlink(*inode);
    inode.reset();
    other.join();
    // The number can be used again once it is gone.
    InodeHold again = world.create(1);
    SIM_CHECK(again->size() == 0);
    flusher.join();
    reclaimer.join();
    SIM_CHECK(world.store.inactivations == 1);
    again.reset();
    world.engine.write_all();
    SIM_CHECK(world.engine.dirty.sum() == 0);
    SIM_CHECK(world.engine.writeback.sum() == 0);
  }
}

SIM_TEST_WITH(InodeCacheSim, WhatIsCleanAndUnheldIsAlwaysListed, kSchedules) {
  for (const std::string_view reclaim : kPolicies) {
    World world(small(reclaim));
    world.store.add(1, 0);
    Thread writer("writer", [&] {
      InodeHold inode = world.get(1);
      write_all_of(world, *inode, 0, 10, 1);
      yield_thread();
    });  // lets go before, while or after it is written
    Thread reclaimer("reclaimer", [&] {
      world.inodes->evict(2);
      world.inodes->evict(2);
    });
    for (int i = 0; i < 6; ++i) {
      if (world.engine.write_one()) break;
      yield_thread();
    }
    writer.join();
    reclaimer.join();
    world.engine.write_all();
    world.inodes->check_invariants();
    world.inodes->evict(2);
    SIM_CHECK(world.inodes->stats().inodes == 0);
  }
}

SIM_TEST_WITH(PageCacheSim, DirtBesideAFlusherIsNeverLost, kSchedules) {
  for (const std::string_view reclaim : kPolicies) {
    World world(small(reclaim));
    InodeHold inode = world.create(1);
    Thread flusher("flusher", [&] {
      for (int i = 0; i < 4; ++i) {
        if (!world.engine.write_one()) yield_thread();
      }
    });
    for (int value = 1; value <= 4; ++value) write_all_of(world, *inode, 10, 4096, value);
    flusher.join();
    world.engine.write_all();
    SIM_CHECK(inode->mapping().dirty_pages() == 0);
    SIM_CHECK(world.pages->reclaim_pages(10) == 2);
    auto content = read_of(world, *inode, 5000);
    SIM_CHECK(content.size() == 4106);
    content.erase(content.begin(), content.begin() + 10);
    SIM_CHECK(content == filled(4096, 4));
  }
}

SIM_TEST_WITH(PageCacheSim, APageUnderWritebackDoesNotChange, kSchedules) {
  World world(kSmall);
  InodeHold inode = world.create(1);
  write_all_of(world, *inode, 0, 4096, 1);
  Thread writer("writer", [&] {
    write_all_of(world, *inode, 0, 4096, 2);
    write_all_of(world, *inode, 100, 10, 3);
  });
  Thread reader("reader", [&] { (void)read_of(world, *inode, 4096); });
  WritebackPages pages;
  world.pages->begin_writeback(*inode, pages, 10);
  const std::vector<std::byte> before(pages.pages[0]->data, pages.pages[0]->data + kPageBytes);
  sleep_for(milliseconds(5));
  SIM_CHECK(std::equal(before.begin(), before.end(), pages.pages[0]->data));
  world.pages->end_writeback(*inode, pages.pages, true);
  writer.join();
  reader.join();
}

SIM_TEST_WITH(PageCacheSim, AReaderNeverBringsBackOldData, kSchedules) {
  for (const std::string_view reclaim : kPolicies) {
    // Read in, overwrite, write back, reclaim, all at once: what was read before the overwrite must not
    // become the page afterwards.
    World world(small(reclaim));
    InodeHold inode = world.create(1);
    write_all_of(world, *inode, 0, 4096, 1);
    world.engine.write_all();
    world.pages->reclaim_pages(10);
    Thread reader("reader", [&] {
      for (int i = 0; i < 2; ++i) {
        const auto content = read_of(world, *inode, 4096);
        SIM_CHECK(content == filled(4096, 1) || content == filled(4096, 2));
      }
    });
    Thread reclaimer("reclaimer", [&] {
      for (int i = 0; i < 3; ++i) world.pages->reclaim_pages(10);
    });
    Thread flusher("flusher", [&] {
      for (int i = 0; i < 2; ++i) {
        if (!world.engine.write_one()) yield_thread();
      }
    });
    write_all_of(world, *inode, 0, 4096, 2);
    SIM_CHECK(read_of(world, *inode, 4096) == filled(4096, 2));
    reader.join();
    reclaimer.join();
    flusher.join();
    SIM_CHECK(read_of(world, *inode, 4096) == filled(4096, 2));
    world.engine.write_all();
    world.pages->reclaim_pages(10);
    SIM_CHECK(read_of(world, *inode, 4096) == filled(4096, 2));
  }
}

// A page that is being read in is there, but nobody's to read or write before its data is.
SIM_TEST_WITH(PageCacheSim, APageThatIsReadInIsNobodysUntilItsDataIsThere, kSchedules) {
  for (const std::string_view reclaim : kPolicies) {
    World world(small(reclaim));
    InodeHold inode = world.create(1);
    write_all_of(world, *inode, 0, 4096, 1);
    world.engine.write_all();
    world.pages->reclaim_pages(10);
    Thread readers[2];
    for (Thread& reader : readers) {
      reader = Thread("reader", [&] {
        const auto content = read_of(world, *inode, 4096);
        SIM_CHECK(content == filled(4096, 1) || content == filled(4096, 2));
      });
    }
    write_all_of(world, *inode, 0, 4096, 2);
    SIM_CHECK(read_of(world, *inode, 4096) == filled(4096, 2));
    for (Thread& reader : readers) reader.join();
    SIM_CHECK(read_of(world, *inode, 4096) == filled(4096, 2));
  }
}

SIM_TEST_WITH(PageCacheSim, TruncateBesideFlusherAndReclaimLeavesNothing, kSchedules) {
  for (const std::string_view reclaim : kPolicies) {
    World world(small(reclaim));
    InodeHold inode = world.create(1);
    write_all_of(world, *inode, 0, 3 * 4096, 1);
    Thread flusher("flusher", [&] { world.engine.write_one(); });
    Thread reclaimer("reclaimer", [&] {
      for (int i = 0; i < 2; ++i) world.pages->reclaim_pages(10);
    });
    SIM_CHECK(world.pages->truncate(*inode, 100, Instant{1}).has_value());
    flusher.join();
    reclaimer.join();
    world.engine.write_all();
    SIM_CHECK(world.engine.dirty.sum() == 0);
    SIM_CHECK(world.engine.writeback.sum() == 0);
    SIM_CHECK(world.pages->truncate(*inode, 200, Instant{1}).has_value());
    auto expected = filled(100, 1);
    expected.resize(200);
    SIM_CHECK(read_of(world, *inode, 300) == expected);
    SIM_CHECK(world.pages->stats().pages == inode->mapping().pages());
  }
}

// A page that is being copied out is not freed under the copy.
SIM_TEST_WITH(PageCacheSim, TruncateWaitsForWhoReads, kSchedules) {
  World world(kSmall);
  InodeHold inode = world.create(1);
  write_all_of(world, *inode, 0, 3 * 4096, 1);
  Thread reader("reader", [&] {
    const std::vector<std::byte> got = read_of(world, *inode, 3 * 4096);
    SIM_CHECK(got == filled(got.size(), 1));
  });
  SIM_CHECK(world.pages->truncate(*inode, 0, Instant{1}).has_value());
  // The memory is used again at once.
  InodeHold other = world.create(2);
  write_all_of(world, *other, 0, 3 * 4096, 2);
  reader.join();
}

// Who makes a file of a number that is on its way out waits until it is gone.
SIM_TEST_WITH(InodeCacheSim, ANumberThatIsBeingFreedIsWaitedFor, kSchedules) {
  World world(kSmall);
  Atomic<bool> freeing{false};
  world.store.on_inactivate = [&] {
    freeing.store(true, std::memory_order_seq_cst);
    yield_thread();
  };
  InodeHold inode = world.create(1);
  Thread last("last", [&] {
    world.inodes->unlink(*inode);
    inode.reset();
  });
  while (!freeing.load(std::memory_order_seq_cst)) yield_thread();
  SIM_CHECK(world.inodes->create(1, 0).has_value());
  last.join();
}

SIM_TEST_WITH(MemoryLimitSim, AWriterThatWaitsForMemoryIsWoken, (sim::Options{.schedules = 150, .cpus = 2})) {
  // Nothing is written unless the writers ask for it, and each wait has only the event to end it.
  World world({.budget_bytes = 24 * PageArena::kChargedPerPage, .stripes = 2});
  world.engine.start(/*always=*/false);
  Thread other("other", [&] {
    InodeHold inode = world.create(2);
    for (int i = 0; i < 24; ++i) write_all_of(world, *inode, std::uint64_t(i) * 4096, 4096, 2);
  });
  InodeHold inode = world.create(1);
  for (int i = 0; i < 24; ++i) write_all_of(world, *inode, std::uint64_t(i) * 4096, 4096, 1);
  other.join();
  world.engine.stop();
  world.engine.write_all();
  for (InodeNumber number : {1U, 2U}) {
    InodeHold again = world.get(number);
    SIM_CHECK(read_of(world, *again, 24 * 4096) == filled(24 * 4096, static_cast<int>(number)));
  }
}

SIM_TEST_WITH(PageArenaSim, NoPageIsHandedOutTwice, kSchedules) {
  MemoryBudget budget(40 * PageArena::kChargedPerPage, 0);
  auto arena =
      PageArena::make(budget, {.max_bytes = 1 << 20, .reserve_bytes = 0, .huge_pages = false}).value();
  const auto work = [&](int value) {
    for (int round = 0; round < 2; ++round) {
      std::vector<Page*> held;
      for (int i = 0; i < 18; ++i) {
        Page* page = arena->allocate();
        if (page == nullptr) break;
        page->data[0] = static_cast<std::byte>(value);
        held.push_back(page);
      }
      if (round == 0) arena->release(kPageBytes);
      for (Page* page : held) {
        SIM_CHECK(page->data[0] == static_cast<std::byte>(value));
        arena->free(*page);
      }
    }
  };
  Thread other("other", [&] { work(1); });
  work(2);
  other.join();
  SIM_CHECK(arena->stats().free_pages == arena->stats().populated_pages);
  SIM_CHECK(budget.charged_bytes() == arena->stats().populated_pages * PageArena::kChargedPerPage);
  arena->check_invariants();
}

}  // namespace
}  // namespace tidewheel
