// What clang's thread-safety analysis must refuse: lock orders against the sentinels of base/lock_rank.h,
// and guarded members without their lock. Each planted fault stands beside a sound variant that compiles.
#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <string>
#include <string_view>

namespace {

constexpr const char* kCompiler = "clang++-19";

constexpr const char* kClasses = R"(
#include "base/sync.h"
using namespace tidewheel;
LockClass engine_class{"engine", LockRank::kEngine};
LockClass list_class{"list", LockRank::kListShard};
LockClass stat_class{"stat", LockRank::kStatistics};
struct Engine {
  Mutex mutex TW_ACQUIRED_AFTER(kRankEngine) TW_ACQUIRED_BEFORE(kRankContext){engine_class};
};
struct List {
  Mutex mutex TW_ACQUIRED_AFTER(kRankListShard) TW_ACQUIRED_BEFORE(kRankRetry){list_class};
  int elements TW_GUARDED_BY(mutex) = 0;
};
struct Stat {
  Mutex mutex TW_ACQUIRED_AFTER(kRankStatistics){stat_class};
};
Engine engine;
List list;
Stat stat;
)";

struct Compiled {
  bool ok = false;
  std::string output;
};

std::string join(std::initializer_list<std::string_view> parts) {
  std::string all;
  for (const std::string_view part : parts) all.append(part);
  return all;
}

Compiled compile(const std::string& body) {
  std::string folder = "/tmp/tidewheel-tsa-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return {false, "no folder for the source"};
  const std::string source = join({folder, "/planted.cc"});
  std::ofstream(source) << kClasses << body << "\n";
  const std::string command =
      join({kCompiler, " -std=c++20 -fsyntax-only -Werror -Wthread-safety -Wthread-safety-beta -I",
            TW_SOURCE_DIR, " ", source, " 2>&1"});
  Compiled result;
  if (FILE* const pipe = ::popen(command.c_str(), "r"); pipe != nullptr) {
    std::array<char, 4096> text;
    for (std::size_t n = 0; (n = std::fread(text.data(), 1, text.size(), pipe)) > 0;) {
      result.output.append(text.data(), n);
    }
    result.ok = ::pclose(pipe) == 0;
  }
  std::remove(source.c_str());
  ::rmdir(folder.c_str());
  return result;
}

class ThreadSafetyAnalysis : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system(join({"command -v ", kCompiler, " >/dev/null 2>&1"}).c_str()) != 0) {
      GTEST_SKIP() << kCompiler << " is not installed";
    }
  }
  void expect_refused(const std::string& fault, const std::string& sound, const std::string& because) {
    const Compiled good = compile(sound);
    EXPECT_TRUE(good.ok) << good.output;
    const Compiled bad = compile(fault);
    EXPECT_FALSE(bad.ok) << "this compiles:\n" << fault;
    EXPECT_NE(bad.output.find(because), std::string::npos) << bad.output;
  }
};

TEST_F(ThreadSafetyAnalysis, RefusesTwoLocksAgainstTheirRanks) {
  expect_refused("void f() { MutexLock a(stat.mutex); MutexLock b(list.mutex); }",
                 "void f() { MutexLock a(list.mutex); MutexLock b(stat.mutex); }", "must be acquired before");
}

TEST_F(ThreadSafetyAnalysis, RefusesAnInversionManyRanksApart) {
  expect_refused("void f() { MutexLock a(stat.mutex); MutexLock b(engine.mutex); }",
                 "void f() { MutexLock a(engine.mutex); MutexLock b(stat.mutex); }",
                 "must be acquired before");
}

// clang learns where a lock stands when it first sees it taken in the file; a lock that a file only ever
// names in REQUIRES is a blind spot (docs/lock-order.md), which the rank stack covers.
TEST_F(ThreadSafetyAnalysis, RefusesAnInversionThroughAFunctionThatRequiresALock) {
  const std::string taken_somewhere =
      "void e() { MutexLock a(list.mutex); } void g() TW_REQUIRES(list.mutex); ";
  expect_refused(taken_somewhere + "void g() { MutexLock b(engine.mutex); }",
                 taken_somewhere + "void g() { MutexLock b(stat.mutex); }", "must be acquired before");
}

TEST_F(ThreadSafetyAnalysis, RefusesAGuardedMemberWithoutItsLock) {
  expect_refused("void f() { ++list.elements; }", "void f() { MutexLock a(list.mutex); ++list.elements; }",
                 "requires holding mutex");
}

TEST_F(ThreadSafetyAnalysis, RefusesALockThatIsNotReleased) {
  expect_refused("void f() { list.mutex.lock(); }", "void f() { list.mutex.lock(); list.mutex.unlock(); }",
                 "still held at the end");
}

TEST_F(ThreadSafetyAnalysis, RefusesToWaitWithoutTheLock) {
  expect_refused("void f(CondVar& c) { c.wait(list.mutex); }",
                 "void f(CondVar& c) { MutexLock a(list.mutex); c.wait(list.mutex); }",
                 "requires holding mutex");
}

}  // namespace
