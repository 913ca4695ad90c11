// Data races under the simulator and the thread sanitizer: a fiber switch orders nothing, so a race that a
// schedule contains is reported in that schedule. Only in a thread-sanitizer build.
#include <gtest/gtest.h>

#include "base/atomic.h"
#include "base/sim.h"
#include "base/sync.h"
#include "base/thread.h"

#if defined(__SANITIZE_THREAD__)

// The sanitizer's own hook: called for each report, and whether to go on silently is its answer.
namespace {
int reports_seen = 0;
bool reports_expected = false;
}  // namespace
namespace __tsan {
class ReportDesc;
bool OnReport(const ReportDesc* report, bool suppressed);
bool OnReport(const ReportDesc*, bool suppressed) {
  if (!reports_expected) return suppressed;
  ++reports_seen;
  return true;  // not printed, not counted
}
}  // namespace __tsan

namespace tidewheel {
namespace {

LockClass race_locks{"race-test", LockRank::kNone};

// Looked at from outside, so that the compiler keeps the read.
void look_at(const std::uint64_t& value) { asm volatile("" : : "r"(*&value) : "memory"); }

// The sanitizer reports each address once, so what races in one test has an address of its own (static).
int reports_of(const std::function<void()>& body) {
  reports_seen = 0;
  reports_expected = true;
  const sim::Outcome outcome = sim::explore({.schedules = 50}, body);
  reports_expected = false;
  EXPECT_FALSE(outcome.failed) << outcome.message;
  return reports_seen;
}

TEST(SimulatorRace, ShowsAPlantedRace) {
  EXPECT_GT(reports_of([] {
              static std::uint64_t plain = 0;
              Thread other("other", [&] { ++plain; });
              ++plain;
              other.join();
            }),
            0);
}

TEST(SimulatorRace, ShowsARaceThatALockOnOneSideDoesNotHide) {
  EXPECT_GT(reports_of([] {
              Mutex mutex{race_locks};
              static std::uint64_t plain = 0;
              Thread other("other", [&] {
                MutexLock lock(mutex);
                ++plain;
              });
              ++plain;
              other.join();
            }),
            0);
}

TEST(SimulatorRace, ShowsAPublicationByARelaxedStore) {
  EXPECT_GT(reports_of([] {
              static std::uint64_t data = 0;
              Atomic<std::uint32_t> ready{0};
              Thread other("other", [&] {
                data = 42;
                ready.store(1, std::memory_order_relaxed);
              });
              if (ready.load(std::memory_order_acquire) == 1) look_at(data);
              other.join();
            }),
            0);
}

TEST(SimulatorRace, IsQuietUnderLocksAtomicsStartsAndJoins) {
  EXPECT_EQ(reports_of([] {
              Mutex mutex{race_locks};
              SharedMutex shared{race_locks};
              CondVar cond;
              Atomic<std::uint32_t> ready{0};
              std::uint64_t before = 1, under_lock = 0, published = 0, under_shared = 0;
              Thread a("a", [&] {
                published = before + 1;
                ready.store(1, std::memory_order_release);
                MutexLock lock(mutex);
                ++under_lock;
                cond.notify_all();
              });
              Thread b("b", [&] {
                {
                  WriterLock lock(shared);
                  ++under_shared;
                }
                if (ready.load(std::memory_order_acquire) == 1) SIM_CHECK(published == 2);
              });
              {
                ReaderLock lock(shared);
                SIM_CHECK(under_shared < 2);
              }
              {
                MutexLock lock(mutex);
                while (under_lock == 0) cond.wait(mutex);
              }
              a.join();
              b.join();
              before = published + under_lock + under_shared;
            }),
            0);
}

}  // namespace
}  // namespace tidewheel

#endif
