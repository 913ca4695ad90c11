// Sixteen writers on two CPUs, in virtual time: each runs until it must wait or pause, lets others run, or
// its time slice is over. Whoever has the CPU when a batch gives room back can take it all before the others
// run; what the engine does about that is tested here: small batches under small limits, and turns.
#include <algorithm>

#include "throttle_rig.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kMega = 1 << 20;
constexpr int kWriters = 16;

class CpuWriter;
struct Cpus {
  explicit Cpus(VirtualDriver& d) : driver(d) {}
  void run_next();
  VirtualDriver& driver;
  int idle = 2;
  std::deque<CpuWriter*> ready;
  static constexpr Duration kSlice = milliseconds(3);
  static constexpr Duration kFile = microseconds(6);  // of CPU: two write 1.3 GB/s, the device 200 MB/s
  bool let_others_run = true;
};

// Makes files of a page.
class CpuWriter {
 public:
  CpuWriter(ThrottleRig& rig, ThrottleLane& lane, Cpus& cpus)
      : engine_(*rig.engine), lane_(lane), cpus_(cpus), task_(rig.engine->make_task()) {
    waiter_.owner = this;
    waiter_.wake = [](ThrottleWaiter& waiter) {
      auto* self = static_cast<CpuWriter*>(waiter.owner);
      self->next_ = Next::kGranted;
      self->cpus_.driver.post(self->cpus_.driver.clock().now(), &CpuWriter::on_ready, self);
    };
  }
  std::uint64_t made = 0;
  bool stop = false;

  void make_ready() {
    cpus_.ready.push_back(this);
    cpus_.run_next();
  }
  void run(Instant slice_ends) {
    slice_ends_ = slice_ends;
    go_on();
  }

 private:
  enum class Next : std::uint8_t { kFile, kAfterPause, kGranted };
  static void on_ready(void* self, std::uint64_t) { static_cast<CpuWriter*>(self)->make_ready(); }
  static void on_pause_end(void* self, std::uint64_t) {
    auto* mine = static_cast<CpuWriter*>(self);
    mine->engine_.end_pause(mine->pause_);
    mine->next_ = Next::kAfterPause;
    mine->make_ready();
  }
  static void on_made(void* self, std::uint64_t) { static_cast<CpuWriter*>(self)->end_file(); }

  void leave() {
    ++cpus_.idle;
    cpus_.run_next();
  }
  void go_on() {
    const Next next = std::exchange(next_, Next::kFile);
    if (stop && next != Next::kGranted) return leave();
    if (next == Next::kFile) pause_ = {};
    if (next == Next::kFile || (next == Next::kAfterPause && pause_.again)) {
      engine_.begin_pause(*lane_.context, kPageBytes, pause_, &task_);
      if (pause_.length.ns != 0) {
        cpus_.driver.post(pause_.since + pause_.length, &CpuWriter::on_pause_end, this);
        return leave();
      }
    }
    if (next != Next::kGranted && !engine_.begin_balance(*lane_.context, kPageBytes, waiter_, &pause_)) {
      return leave();
    }
    Result<DirtyGrant> grant = engine_.finish_balance(*lane_.context, waiter_);
    TW_ASSERT(grant.has_value(), "nothing fails here");
    if (lane_.pool.clean.empty()) {
      lane_.pool.all.push_back(std::make_unique<FakeObject>(lane_.pool.all.size()));
      lane_.pool.all.back()->set_context(lane_.context->id());
      lane_.pool.clean.push_back(lane_.pool.all.back().get());
    }
    FakeObject& file = *lane_.pool.clean.back();
    lane_.pool.clean.pop_back();
    engine_.account_dirtied(*grant, kPageBytes);
    file.dirty_bytes.fetch_add(kPageBytes, std::memory_order_seq_cst);
    engine_.mark_dirty(file, kDirtyData, cpus_.driver.clock().now(), &*grant);
    cpus_.driver.post(cpus_.driver.clock().now() + Cpus::kFile, &CpuWriter::on_made, this);
  }
  void end_file() {
    ++made;
    // As balance_dirty_pages() does, which would ask for the next one.
    const bool lets = cpus_.let_others_run && engine_.has_had_its_turn(task_, kPageBytes + 1024);
    if (!lets && cpus_.driver.clock().now() < slice_ends_) return go_on();
    ++cpus_.idle;
    make_ready();
  }

  WritebackEngine& engine_;
  ThrottleLane& lane_;
  Cpus& cpus_;
  TaskThrottle task_;
  ThrottleWaiter waiter_;
  ThrottlePause pause_;
  Next next_ = Next::kFile;
  Instant slice_ends_;
};

void Cpus::run_next() {
  while (idle > 0 && !ready.empty()) {
    CpuWriter* writer = ready.front();
    ready.pop_front();
    --idle;
    writer->run(driver.clock().now() + kSlice);
  }
}

struct Load {
  const char* design;
  const char* policy;
  std::uint64_t limit;
  bool let_others_run = true;
  std::uint64_t batch_bytes = UINT64_MAX;
};

// The slowest writer's files as a part of the fastest one's, 1.5 s from the first that is held back.
double fairness_under(const Load& load) {
  ThrottleRig rig(load.policy, load.limit, [&](EngineOptions& o) {
    o.design = load.design;
    o.object_overhead_bytes = 1024;
    o.counter_chunk_bytes = UINT64_MAX;
    o.batch_bytes = load.batch_bytes;
  });
  ThrottleLane& lane = rig.add_lane(200 * kMega);
  Cpus cpus(*rig.driver);
  cpus.let_others_run = load.let_others_run;
  std::vector<std::unique_ptr<CpuWriter>> writers;
  for (int i = 0; i < kWriters; ++i) writers.push_back(std::make_unique<CpuWriter>(rig, lane, cpus));
  for (auto& writer : writers) writer->make_ready();
  while (rig.engine->first_throttled_at() == Instant::max()) rig.run_for(milliseconds(1));
  std::vector<std::uint64_t> from;
  for (auto& writer : writers) from.push_back(writer->made);
  const std::uint64_t written = lane.device->written;
  rig.run_for(milliseconds(1500));
  std::uint64_t slowest = UINT64_MAX;
  std::uint64_t fastest = 0;
  for (int i = 0; i < kWriters; ++i) {
    slowest = std::min(slowest, writers[i]->made - from[i]);
    fastest = std::max(fastest, writers[i]->made - from[i]);
  }
  EXPECT_GE(lane.device->written - written, 1.4 * 200 * kMega) << "the device ran dry";
  EXPECT_LE(rig.most_charged, load.limit);
  for (auto& writer : writers) writer->stop = true;
  rig.driver->run_for(seconds(10));
  return static_cast<double>(slowest) / static_cast<double>(fastest);
}

class ThrottleCpus : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};
INSTANTIATE_TEST_SUITE_P(Matrix, ThrottleCpus,
                         ::testing::Combine(::testing::ValuesIn(kAllDesigns),
                                            ::testing::Values("hard-limit", "linux", "delay-curve")),
                         [](const auto& each) {
                           std::string name =
                               std::get<0>(each.param) + std::string("With") + std::get<1>(each.param);
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(ThrottleCpus, SixteenWritersOnTwoCpusGetFairShares) {
  const auto [design, policy] = GetParam();
  EXPECT_GE(fairness_under({design, policy, 64 * kMega}), 0.7);
}

TEST(ThrottleCpusLimits, SharesAreFairUnderSmallAndLargeLimits) {
  for (const char* policy : {"hard-limit", "linux", "delay-curve"}) {
    for (const std::uint64_t limit : {16 * kMega, 200 * kMega}) {
      EXPECT_GE(fairness_under({"timer-wheel", policy, limit}), 0.7) << policy << ' ' << limit;
    }
  }
}

// What each of the two is for: without it, they are not.
TEST(ThrottleCpusLimits, WithoutTurnsTheFirstToRunTakeAll) {
  EXPECT_LE(fairness_under({"timer-wheel", "hard-limit", 64 * kMega, false}), 0.3);
}
TEST(ThrottleCpusLimits, WithLargeBatchesARateCannotBeKept) {
  EXPECT_LE(fairness_under({"timer-wheel", "linux", 64 * kMega, false, 4 * kMega}), 0.6);
}

}  // namespace
}  // namespace tidewheel
