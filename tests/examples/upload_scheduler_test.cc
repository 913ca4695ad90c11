// The upload scheduler of tests/examples as it stands there; and what it is made of, WriteBehind, against a
// store that is slow, fails and stalls, checked by an oracle: what was acknowledged arrives, one upload of an
// object at a time, in the order of its puts, the limit holds, ages are bounded, every handle is told each
// failure once. On threads, and on simulated schedules.
#define TIDEWHEEL_EXAMPLE_WITHOUT_MAIN
#include "tests/examples/upload_scheduler.cc"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/sim.h"
#include "tests/length.h"
#include "writeback/engine.h"

namespace {

LockClass store_class{"test.rough_store", LockRank::kNone};

// Values are NAME:NUMBER:filling; numbers of one name grow.
std::uint64_t number_of(const std::string& value) {
  std::uint64_t number = 0;
  for (std::size_t i = value.find(':') + 1; i < value.size() && value[i] != ':'; ++i) {
    number = number * 10 + static_cast<std::uint64_t>(value[i] - '0');
  }
  return number;
}

class RoughStore final : public ValueStore {
 public:
  struct Behaviour {
    std::uint64_t seed = 1;
    Duration longest_put = milliseconds(2);
    Duration stall = milliseconds(20);
    std::uint64_t stall_one_in = 40;  // 0: never
    std::uint64_t fail_one_in = 4;    // 0: never
    std::uint32_t failures_in_a_row = 2;
  };
  explicit RoughStore(const Behaviour& behaviour) : behaviour_(behaviour), rng_(behaviour.seed) {}

  Result<void> put(const std::string& key, const std::string& value) override {
    Duration takes;
    bool fails = false;
    {
      MutexLock guard(lock_);
      while (stalled_) changed_.wait(lock_);
      Entry& entry = entries_[key];
      EXPECT_FALSE(entry.busy) << "two uploads of " << key << " at once";
      EXPECT_FALSE(entry.removed) << key << " is uploaded after it was removed";
      entry.busy = true;
      ++puts;
      const auto longest = static_cast<std::uint64_t>(behaviour_.longest_put.ns);
      takes = {static_cast<std::int64_t>(rng_.below(longest + 1))};
      if (behaviour_.stall_one_in != 0 && rng_.chance(behaviour_.stall_one_in)) takes += behaviour_.stall;
      fails = behaviour_.fail_one_in != 0 && entry.failures_in_a_row < behaviour_.failures_in_a_row &&
              rng_.chance(behaviour_.fail_one_in);
    }
    if (takes.ns != 0) sleep_for(takes);
    MutexLock guard(lock_);
    Entry& entry = entries_[key];
    entry.busy = false;
    if (fails) {
      ++entry.failures;
      ++entry.failures_in_a_row;
      return TW_FAIL(kIo);
    }
    entry.failures_in_a_row = 0;
    if (entry.there) {
      EXPECT_LE(number_of(entry.value), number_of(value)) << key << " goes back";
    }
    entry.there = true;
    entry.value = value;
    return {};
  }
  Result<void> remove(const std::string& key) override {
    MutexLock guard(lock_);
    Entry& entry = entries_[key];
    EXPECT_FALSE(entry.busy) << key << " is removed while it is uploaded";
    entry.removed = true;
    entry.there = false;
    return {};
  }
  void stall(bool on) {
    MutexLock guard(lock_);
    stalled_ = on;
    changed_.notify_all();
  }
  bool has(const std::string& key, const std::string& value) {
    MutexLock guard(lock_);
    return entries_[key].there && entries_[key].value == value;
  }
  bool has(const std::string& key) {
    MutexLock guard(lock_);
    return entries_[key].there;
  }
  std::uint64_t uploading() {
    MutexLock guard(lock_);
    std::uint64_t n = 0;
    for (const auto& [key, entry] : entries_) n += entry.busy ? 1 : 0;
    return n;
  }
  std::uint64_t failures(const std::string& key) {
    MutexLock guard(lock_);
    return entries_[key].failures;
  }
  std::uint64_t puts = 0;  // read at rest

 private:
  struct Entry {
    std::string value;
    bool there = false, busy = false, removed = false;
    std::uint64_t failures = 0;
    std::uint32_t failures_in_a_row = 0;
  };
  const Behaviour behaviour_;
  Mutex lock_{store_class};
  CondVar changed_;
  bool stalled_ = false;
  Rng rng_;
  std::map<std::string, Entry> entries_;
};

// ---- the example ----

TEST(UploadScheduler, TheExampleDoesWhatItShows) {
  DemoStore store;
  EXPECT_EQ(upload_demo(store), 0);
  EXPECT_EQ(store.bytes.load(std::memory_order_relaxed), 64U * (64 << 10));
  EXPECT_EQ(store.failures.load(std::memory_order_relaxed), 2U) << "the first upload of b/2, and its retry";
}
SIM_TEST_WITH(UploadSchedulerSim, TheExampleDoesWhatItShows, (sim::Options{.schedules = 20})) {
  DemoStore store;
  SIM_CHECK(upload_demo(store) == 0);
  SIM_CHECK(store.bytes.load(std::memory_order_relaxed) == 64U * (64 << 10));
}

TEST(UploadScheduler, RefusesOptionsThatMakeNoSense) {
  DemoStore store;
  const auto reason = [&](auto change) {
    WriteBehindOptions options;
    change(options);
    const auto made = WriteBehind::make(store, options);
    return made ? Reason::kOk : made.error().code;
  };
  EXPECT_EQ(reason([](WriteBehindOptions&) {}), Reason::kOk);
  EXPECT_EQ(reason([](WriteBehindOptions& o) { o.limit_bytes = 0; }), Reason::kInvalidArgument);
  EXPECT_EQ(reason([](WriteBehindOptions& o) { o.writers = 0; }), Reason::kInvalidArgument);
  EXPECT_EQ(reason([](WriteBehindOptions& o) { o.interval = {0}; }), Reason::kInvalidArgument);
  EXPECT_EQ(reason([](WriteBehindOptions& o) { o.design = "heap"; }), Reason::kInvalidArgument);
}

TEST(UploadScheduler, RefusesAValueOfMoreThanHalfTheLimit) {
  DemoStore store;
  const auto made = WriteBehind::make(store, {.limit_bytes = 1 << 20});
  ASSERT_TRUE(made.has_value());
  auto handle = (*made)->open("large");
  const auto put = handle.put(std::string(700 << 10, 'x'));
  ASSERT_FALSE(put.has_value());
  EXPECT_EQ(put.error().code, Reason::kFileTooLarge);
  EXPECT_TRUE((*made)->dirty().empty());
}

TEST(UploadScheduler, ForgetsTheKeysThatNobodyHasOpenOnceTheyAreUploaded) {
  RoughStore::Behaviour behaviour;
  behaviour.longest_put = {0};
  behaviour.fail_one_in = 0;
  behaviour.stall_one_in = 0;
  RoughStore store(behaviour);
  const auto made = WriteBehind::make(store);
  ASSERT_TRUE(made.has_value());
  for (int i = 0; i < 1000; ++i) {
    auto handle = (*made)->open("k" + std::to_string(i));
    ASSERT_TRUE(handle.put("k:" + std::to_string(i) + ":").has_value());
    handle.close();
    if (i % 50 == 49) {
      ASSERT_TRUE((*made)->drain().has_value());
    }
    ASSERT_LE((*made)->known_keys_for_test(), 228U) << "two sweeps' worth, and 100 dirty";
  }
}

// ---- what it is made of ----

struct Case {
  std::uint32_t writers = 2;
  std::uint32_t keys_of_each = 2;
  std::uint32_t puts = 8;  // of each writer
  std::uint32_t value_bytes = 3000;
  WriteBehindOptions options;
  RoughStore::Behaviour store;
};

// Bytes of all that is dirty or being uploaded, as the client itself counts them: no more than the limit.
std::uint64_t bytes_held(WriteBehind& uploads) {
  std::uint64_t bytes = 0;
  for (const WriteBehind::Dirty& each : uploads.dirty()) bytes += each.bytes;
  return bytes;
}

Result<void> drain_all(WriteBehind& uploads, Duration patience) {
  const Clock& clock = uploads.engine().clock();
  const Instant deadline = clock.now() + patience;
  for (;;) {
    const Result<void> drained = uploads.drain(deadline);
    // A failure is this call's; what failed is tried again by the next.
    if (drained || drained.error().code == Reason::kTimedOut) return drained;
  }
}

void run(const Case& c) {
  RoughStore store(c.store);
  const auto made = WriteBehind::make(store, c.options);
  ASSERT_TRUE(made.has_value());
  WriteBehind& uploads = **made;
  struct Key {
    std::string name, last;
    WriteBehind::Handle writer, watcher;
  };
  std::vector<std::vector<Key>> keys(c.writers);
  for (std::uint32_t w = 0; w < c.writers; ++w) {
    for (std::uint32_t k = 0; k < c.keys_of_each; ++k) {
      Key key;
      key.name = "w" + std::to_string(w) + "/" + std::to_string(k);
      key.writer = uploads.open(key.name);
      key.watcher = uploads.open(key.name);
      keys[w].push_back(std::move(key));
    }
  }
  std::vector<Thread> writers;
  for (std::uint32_t w = 0; w < c.writers; ++w) {
    writers.emplace_back("writer", [&, w] {
      Rng rng(c.store.seed * 1000 + w);
      for (std::uint32_t i = 0; i < c.puts; ++i) {
        Key& key = keys[w][rng.below(keys[w].size())];
        std::string value = key.name + ":" + std::to_string(i) + ":";
        value.resize(c.value_bytes, 'v');
        const Result<Duration> put = key.writer.put(value);
        EXPECT_TRUE(put.has_value());
        key.last = value;
        EXPECT_LE(uploads.engine().charged_bytes(), c.options.limit_bytes);
        if (rng.chance(4)) {
          EXPECT_LE(bytes_held(uploads), c.options.limit_bytes);
        }
        // Told at most one error, and with none the value is there.
        if (rng.chance(4) && key.writer.sync()) {
          EXPECT_TRUE(store.has(key.name, value)) << key.name;
        }
      }
      // The last name goes, dirty or not.
      Key& gone = keys[w].back();
      EXPECT_TRUE(gone.writer.remove().has_value());
    });
  }
  for (Thread& writer : writers) writer.join();
  EXPECT_TRUE(drain_all(uploads, seconds(300)).has_value());
  EXPECT_TRUE(uploads.dirty().empty());
  EXPECT_EQ(uploads.engine().dirty_and_writeback_bytes(), 0U) << "counters drain to zero";
  EXPECT_EQ(uploads.engine().throttled_threads(), 0U);
  for (auto& of_writer : keys) {
    for (Key& key : of_writer) {
      if (&key == &of_writer.back()) {
        EXPECT_FALSE(store.has(key.name)) << key.name << " came back";
      } else if (!key.last.empty()) {
        EXPECT_TRUE(store.has(key.name, key.last)) << key.name << ": what was acknowledged last is not there";
      }
      // Failures since it was opened, which nobody told this handle: one error, however many there were.
      const bool failed = store.failures(key.name) != 0;
      EXPECT_EQ(key.watcher.sync().has_value(), !failed) << key.name << ": not told";
      EXPECT_TRUE(key.watcher.sync().has_value()) << key.name << ": told twice";
      key.writer.close();
      key.watcher.close();
    }
  }
  // max_age, the next look, one slot of the wheel, the pause of a look that met only hot objects, what was
  // being uploaded meanwhile, and the back-offs of the failures in a row.
  const Duration upload = c.store.longest_put + c.store.stall;
  const Duration bound = c.options.max_age + c.options.interval + Duration{1LL << 27} + milliseconds(128) +
                         upload * 16 + c.options.retry_longest * c.store.failures_in_a_row * 2;
  if (sim::active()) {
    EXPECT_LE(uploads.engine().stats().oldest_age_max.ns, bound.ns);
  }
}

Case threads_case(std::uint64_t seed) {
  Case c;
  c.writers = 4;
  c.keys_of_each = 6;
  c.puts = static_cast<std::uint32_t>(loop_length(400));
  c.store.seed = seed;
  c.options.limit_bytes = 64 << 10;
  c.options.idle = milliseconds(5);
  c.options.max_age = milliseconds(50);
  c.options.interval = milliseconds(5);
  c.options.retry_first = milliseconds(2);
  c.options.retry_longest = milliseconds(8);
  return c;
}

TEST(UploadScheduler, LosesNothingOnThreadsThoughTheStoreIsRough) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    run(threads_case(seed));
  }
}

Case sim_case() {
  Case c;
  c.puts = 5;
  c.options.limit_bytes = 20 << 10;
  c.options.writers = 2;
  c.options.idle = milliseconds(200);
  c.options.max_age = seconds(1);
  c.options.interval = milliseconds(100);
  c.options.retry_first = milliseconds(100);
  c.options.retry_longest = milliseconds(200);
  return c;
}

// Several stores per schedule: which uploads fail is the store's seed's to say.
SIM_TEST_WITH(UploadSchedulerSim, LosesNothingThoughTheStoreIsRough, (sim::Options{.schedules = 100})) {
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    Case c = sim_case();
    c.store.seed = seed;
    c.store.fail_one_in = 2;
    run(c);
  }
}

// Each upload takes 20 ms; it is under way when the name is removed.
SIM_TEST_WITH(UploadSchedulerSim, RemovingWaitsForTheUploadThatIsUnderWay, (sim::Options{.schedules = 40})) {
  RoughStore::Behaviour behaviour;
  behaviour.fail_one_in = 0;
  behaviour.stall_one_in = 1;
  RoughStore store(behaviour);
  WriteBehindOptions options;
  options.idle = milliseconds(1);
  options.interval = milliseconds(1);
  options.writers = 2;
  const auto made = WriteBehind::make(store, options);
  ASSERT_TRUE(made.has_value());
  WriteBehind& uploads = **made;
  auto gone = uploads.open("gone");
  EXPECT_TRUE(gone.put("gone:0:").has_value());
  // The first look comes an interval after the put, and what it takes is older than the wheel's slot.
  while (store.uploading() == 0) sleep_for(milliseconds(1));
  EXPECT_TRUE(gone.put("gone:1:").has_value());
  EXPECT_TRUE(gone.remove().has_value());
  EXPECT_TRUE(uploads.dirty().empty());
  EXPECT_TRUE(uploads.drain(uploads.engine().clock().now() + seconds(10)).has_value());
  EXPECT_FALSE(store.has("gone"));
}

// Stalled: the limit holds, who waits is let go once it goes on, a drain ends at its deadline.
void run_stalled() {
  RoughStore::Behaviour behaviour;
  behaviour.fail_one_in = 0;
  behaviour.stall_one_in = 0;
  RoughStore store(behaviour);
  store.stall(true);
  WriteBehindOptions options;
  options.limit_bytes = 20 << 10;
  options.writers = 2;
  options.idle = milliseconds(1);
  options.interval = milliseconds(1);
  const auto made = WriteBehind::make(store, options);
  ASSERT_TRUE(made.has_value());
  WriteBehind& uploads = **made;
  std::vector<WriteBehind::Handle> handles;
  for (int i = 0; i < 8; ++i) handles.push_back(uploads.open("k" + std::to_string(i)));
  Thread writer("writer", [&] {  // 8 values of 4,000 bytes: four fit
    for (int i = 0; i < 8; ++i) {
      const std::string value = "k:" + std::to_string(i) + ":" + std::string(3990, 'v');
      EXPECT_TRUE(handles[static_cast<std::size_t>(i)].put(value).has_value());
    }
  });
  while (uploads.engine().throttled_threads() == 0) sleep_for(milliseconds(1));
  EXPECT_EQ(uploads.dirty().size(), 4U);
  EXPECT_LE(uploads.engine().charged_bytes(), options.limit_bytes);
  const Clock& clock = uploads.engine().clock();
  const Instant deadline = clock.now() + milliseconds(20);
  const Result<void> drained = uploads.drain(deadline);
  EXPECT_FALSE(drained.has_value());
  if (!drained) {
    EXPECT_EQ(drained.error().code, Reason::kTimedOut);
  }
  EXPECT_GE(clock.now(), deadline);
  EXPECT_EQ(uploads.dirty().size(), 4U) << "nothing is dropped";
  store.stall(false);
  writer.join();
  EXPECT_TRUE(uploads.drain(clock.now() + seconds(60)).has_value());
  EXPECT_TRUE(uploads.dirty().empty());
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(store.has("k" + std::to_string(i))) << i;
}

// A put that waits for room ends when it is told to; what was acknowledged is there all the same.
TEST(UploadScheduler, PutsThatWaitForAStalledStoreCanBeLetGo) {
  RoughStore::Behaviour behaviour;
  behaviour.fail_one_in = 0;
  behaviour.stall_one_in = 0;
  RoughStore store(behaviour);
  store.stall(true);
  const auto made = WriteBehind::make(store, {.idle = milliseconds(1), .interval = milliseconds(1),
                                              .limit_bytes = 20 << 10});
  ASSERT_TRUE(made.has_value());
  WriteBehind& uploads = **made;
  std::uint64_t acknowledged = 0;
  Thread writer("writer", [&] {
    for (int i = 0; i < 8; ++i) {
      auto handle = uploads.open("k" + std::to_string(i));
      const auto put = handle.put("k:" + std::to_string(i) + ":" + std::string(3990, 'v'));
      if (put) {
        ++acknowledged;
      } else {
        EXPECT_EQ(put.error().code, Reason::kInterrupted);
      }
    }
  });
  while (uploads.engine().throttled_threads() == 0) sleep_for(milliseconds(1));
  uploads.interrupt_waiters();
  writer.join();
  EXPECT_EQ(acknowledged, 4U);
  EXPECT_EQ(uploads.dirty().size(), 4U);
  store.stall(false);
  EXPECT_TRUE(drain_all(uploads, seconds(60)).has_value());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(store.has("k" + std::to_string(i)));
}

TEST(UploadScheduler, HoldsItsLimitAndItsDeadlineWhileTheStoreIsStalled) { run_stalled(); }
SIM_TEST_WITH(UploadSchedulerSim, HoldsItsLimitAndItsDeadlineWhileTheStoreIsStalled,
              (sim::Options{.schedules = 100})) {
  run_stalled();
}

// Idle objects go after `idle`; one that is written all the time waits for max_age, and no longer.
SIM_TEST_WITH(UploadSchedulerSim, HotObjectsWaitUntilTheyAreIdleOrOld, (sim::Options{.schedules = 40})) {
  RoughStore::Behaviour behaviour;
  behaviour.fail_one_in = 0;
  behaviour.stall_one_in = 0;
  behaviour.longest_put = {0};
  RoughStore store(behaviour);
  WriteBehindOptions options;
  options.idle = seconds(1);
  options.max_age = seconds(10);
  options.interval = milliseconds(250);
  const auto made = WriteBehind::make(store, options);
  ASSERT_TRUE(made.has_value());
  WriteBehind& uploads = **made;
  auto idle = uploads.open("idle");
  auto hot = uploads.open("hot");
  EXPECT_TRUE(idle.put("idle:0:").has_value());
  const Instant began = SteadyClock::instance().now();
  Duration idle_went = Duration::max();
  Duration hot_went = Duration::max();
  for (int i = 0; hot_went == Duration::max() && i < 100; ++i) {
    EXPECT_TRUE(hot.put("hot:" + std::to_string(i) + ":").has_value());
    sleep_for(milliseconds(200));
    const Duration since = SteadyClock::instance().now() - began;
    if (idle_went == Duration::max() && store.has("idle")) idle_went = since;
    if (store.has("hot")) hot_went = since;
  }
  EXPECT_GE(idle_went, options.idle);
  EXPECT_LE(idle_went, options.idle + options.interval + milliseconds(134 + 200));
  EXPECT_GE(hot_went, options.max_age);
  EXPECT_LE(hot_went, options.max_age + options.interval + milliseconds(134 + 128 + 200));
}

// Who asks for it, and what stands above half of the limit, is not held up by an object that is put all the
// time.
SIM_TEST_WITH(UploadSchedulerSim, NobodyWaitsForAHotObjectButItsAge, (sim::Options{.schedules = 40})) {
  RoughStore::Behaviour behaviour;
  behaviour.fail_one_in = 0;
  behaviour.stall_one_in = 0;
  behaviour.longest_put = {0};
  RoughStore store(behaviour);
  WriteBehindOptions options;
  options.idle = options.max_age = seconds(3600);
  options.limit_bytes = 64 << 10;
  const auto made = WriteBehind::make(store, options);
  ASSERT_TRUE(made.has_value());
  WriteBehind& uploads = **made;
  const Instant began = SteadyClock::instance().now();
  auto synced = uploads.open("synced");
  EXPECT_TRUE(synced.put("synced:0:").has_value());
  EXPECT_TRUE(synced.sync().has_value());
  EXPECT_TRUE(store.has("synced"));
  auto drained = uploads.open("drained");
  EXPECT_TRUE(drained.put("drained:0:").has_value());
  EXPECT_TRUE(uploads.drain(SteadyClock::instance().now() + seconds(5)).has_value());
  EXPECT_TRUE(store.has("drained"));
  auto large = uploads.open("large");
  EXPECT_TRUE(large.put("large:0:" + std::string(30 << 10, 'x')).has_value());
  auto second = uploads.open("second");
  EXPECT_TRUE(second.put("second:0:" + std::string(20 << 10, 'x')).has_value());
  // Both were put within one slot of the wheel: which goes first is open, and one is enough.
  const auto one_is_there = [&store] { return store.has("large") || store.has("second"); };
  while (!one_is_there() && SteadyClock::instance().now() - began < seconds(20)) {
    sleep_for(milliseconds(10));
  }
  EXPECT_TRUE(one_is_there());
  EXPECT_LT(SteadyClock::instance().now() - began, seconds(2));
}

// An error that somebody has been told is not news to who opens the key later.
SIM_TEST_WITH(UploadSchedulerSim, AHandleIsNotToldOfWhatWasKnownBeforeIt, (sim::Options{.schedules = 20})) {
  RoughStore::Behaviour behaviour;
  behaviour.fail_one_in = 1;
  behaviour.failures_in_a_row = 1;
  behaviour.stall_one_in = 0;
  RoughStore store(behaviour);
  const auto made = WriteBehind::make(store, {});
  ASSERT_TRUE(made.has_value());
  auto first = (*made)->open("key");
  EXPECT_TRUE(first.put("key:0:").has_value());
  EXPECT_FALSE(first.sync().has_value());
  auto second = (*made)->open("key");
  for (int i = 0; i < 200 && !store.has("key"); ++i) sleep_for(milliseconds(100));
  EXPECT_TRUE(store.has("key"));
  EXPECT_TRUE(second.sync().has_value());
}

// A newer value waits behind an upload that then fails: the age is still that of the first, which nobody has.
SIM_TEST_WITH(UploadSchedulerSim, TheAgeIsThatOfTheFirstPutThatIsNotThere, (sim::Options{.schedules = 40})) {
  RoughStore::Behaviour behaviour;
  behaviour.fail_one_in = 1;
  behaviour.failures_in_a_row = 1;
  behaviour.stall_one_in = 0;
  RoughStore store(behaviour);
  WriteBehindOptions options;
  options.retry_first = options.retry_longest = seconds(60);
  const auto made = WriteBehind::make(store, options);
  ASSERT_TRUE(made.has_value());
  auto key = (*made)->open("key");
  store.stall(true);
  const Instant began = SteadyClock::instance().now();
  EXPECT_TRUE(key.put("key:0:").has_value());
  while (SteadyClock::instance().now() - began < seconds(10)) sleep_for(milliseconds(100));
  EXPECT_TRUE(key.put("key:1:").has_value());
  const auto age = [&] { return (*made)->dirty().at(0).age; };
  EXPECT_GE(age(), seconds(10)) << "while the first is being uploaded";
  store.stall(false);
  while (store.failures("key") == 0) sleep_for(milliseconds(100));
  sleep_for(milliseconds(100));  // and the scheduler has been told
  EXPECT_GE(age(), seconds(10)) << "when that has failed";
  EXPECT_TRUE((*made)->drain().has_value() || (*made)->drain().has_value());
  EXPECT_TRUE(store.has("key", "key:1:"));
}

}  // namespace
