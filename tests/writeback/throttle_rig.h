// Writers, devices and an engine in virtual time: what a throttle makes of them, and a record of it.
#pragma once
#include <cmath>

#include "base/rng.h"
#include "engine_rig.h"

namespace tidewheel {

// Objects that are dirty to be written once, and used again when they are clean.
struct ObjectPool {
  std::vector<std::unique_ptr<FakeObject>> all;
  std::vector<FakeObject*> clean;
};

// Writes pieces of `piece_bytes` as fast as it may, each taking `think` besides.
class VirtualWriter {
 public:
  VirtualWriter(WritebackEngine& engine, VirtualDriver& driver, WritebackContext& context, ObjectPool& pool,
                bool keeps_task)
      : engine_(engine), driver_(driver), context_(context), pool_(pool) {
    if (keeps_task) task_.emplace(engine.make_task());
    waiter_.owner = this;
    waiter_.wake = [](ThrottleWaiter& waiter) {
      auto* self = static_cast<VirtualWriter*>(waiter.owner);
      self->driver_.post(self->driver_.clock().now(), &VirtualWriter::on_granted, self);
    };
  }
  VirtualWriter(const VirtualWriter&) = delete;

  std::uint64_t piece_bytes = 16 << 10;
  Duration think = microseconds(20);
  std::uint64_t calls_left = UINT64_MAX;  // ends after so many
  std::uint64_t dirtied = 0, calls = 0, pauses = 0;
  Duration longest_pause, paused;
  bool ended = false;
  std::function<void(VirtualWriter&)> on_end, on_pause;

  void start(Instant at) { driver_.post(at, &VirtualWriter::on_begin, this); }
  void stop() { stopping_ = true; }
  TaskThrottle* task() { return task_ ? &*task_ : nullptr; }
  WritebackContext& context() { return context_; }

 private:
  static void on_begin(void* self, std::uint64_t) { static_cast<VirtualWriter*>(self)->begin(); }
  static void on_pause_end(void* self, std::uint64_t) { static_cast<VirtualWriter*>(self)->end_pause(); }
  static void on_granted(void* self, std::uint64_t) { static_cast<VirtualWriter*>(self)->granted(); }

  void begin() {
    if (stopping_ || calls_left == 0) {
      ended = true;
      task_.reset();
      if (on_end) on_end(*this);
      return;
    }
    --calls_left;
    pause_ = {};
    ask();
  }
  void ask() {
    engine_.begin_pause(context_, piece_bytes, pause_, task());
    if (pause_.length.ns == 0) return take();
    ++pauses;
    longest_pause = std::max(longest_pause, pause_.length);
    paused += pause_.length;
    if (on_pause) on_pause(*this);
    driver_.post(pause_.since + pause_.length, &VirtualWriter::on_pause_end, this);
  }
  void end_pause() {
    engine_.end_pause(pause_);
    if (pause_.again && !stopping_) return ask();
    take();
  }
  void take() {
    if (engine_.begin_balance(context_, piece_bytes, waiter_, &pause_)) granted();
  }
  void granted() {
    Result<DirtyGrant> grant = engine_.finish_balance(context_, waiter_);
    if (!grant) {
      stopping_ = true;
      return begin();
    }
    if (pool_.clean.empty()) {
      pool_.all.push_back(std::make_unique<FakeObject>(pool_.all.size()));
      pool_.all.back()->set_context(context_.id());
      pool_.all.back()->set_hash(static_cast<std::uint8_t>(pool_.all.size()));
      pool_.clean.push_back(pool_.all.back().get());
    }
    FakeObject& object = *pool_.clean.back();
    pool_.clean.pop_back();
    const std::uint64_t bytes = std::min(piece_bytes, grant->bytes());
    engine_.account_dirtied(*grant, bytes);
    object.dirty_bytes.fetch_add(bytes, std::memory_order_seq_cst);
    engine_.mark_dirty(object, kDirtyData | kDirtyMetadata, driver_.clock().now(), &*grant);
    dirtied += bytes;
    ++calls;
    driver_.post(driver_.clock().now() + think, &VirtualWriter::on_begin, this);
  }

  WritebackEngine& engine_;
  VirtualDriver& driver_;
  WritebackContext& context_;
  ObjectPool& pool_;
  std::optional<TaskThrottle> task_;
  ThrottleWaiter waiter_;
  ThrottlePause pause_;
  bool stopping_ = false;
};

// A device that writes at a rate which may change and be noisy, or not at all.
class NoisyDevice final : public FakeDevice {
 public:
  NoisyDevice(VirtualDriver& driver, std::uint64_t rate, std::uint32_t noise, std::uint64_t seed)
      : bytes_per_s(rate), noise_percent(noise), driver_(driver), rng_(seed) {}
  std::uint64_t bytes_per_s;
  std::uint32_t noise_percent;
  bool dead = false;
  std::uint64_t written = 0;

  void start(Batch& batch) override {
    if (dead) {
      held_.push_back(&batch);
      return;
    }
    double rate = static_cast<double>(bytes_per_s);
    if (noise_percent != 0) {
      const auto part = static_cast<double>(rng_.below(2 * noise_percent + 1)) - noise_percent;
      rate *= 1 + part / 100;
    }
    const Instant from = std::max(driver_.clock().now(), busy_until_);
    const double takes_ns = static_cast<double>(batch.io.bytes) * 1e9 / rate;
    busy_until_ = from + Duration{static_cast<std::int64_t>(takes_ns)};
    written += batch.io.bytes;
    driver_.post(
        busy_until_, [](void*, std::uint64_t each) { reinterpret_cast<Batch*>(each)->complete(); }, this,
        reinterpret_cast<std::uint64_t>(&batch));
  }
  void revive() {
    dead = false;
    for (Batch* batch : std::exchange(held_, {})) start(*batch);
  }

 private:
  VirtualDriver& driver_;
  Rng rng_;
  Instant busy_until_ = Instant::min();
  std::deque<Batch*> held_;
};

// One target with its context, device and objects.
struct ThrottleLane {
  FakeTarget target;
  WritebackContext* context = nullptr;
  std::shared_ptr<NoisyDevice> device;  // of several owners' lanes, if they share it
  ObjectPool pool;
};

struct ThrottleSample {
  double time_s = 0;
  std::uint64_t total_bytes = 0;   // dirty + writeback
  std::uint64_t rate = 0;          // the first lane's base rate
};

class ThrottleRig {
 public:
  explicit ThrottleRig(const char* throttle, std::uint64_t dirty_bytes = 100 << 20,
                       std::function<void(EngineOptions&)> change = {})
      : clock(VirtualRig::seconds_at(1000)) {
    EngineOptions o;
    o.dirty_bytes = dirty_bytes;
    o.background_bytes = dirty_bytes / 2;
    o.object_overhead_bytes = 0;
    o.counter_chunk_bytes = 0;
    o.batch_bytes = std::max<std::uint64_t>(dirty_bytes / 100, 4096);
    o.throttle = throttle;
    o.writer_recheck = Duration::max();
    if (change) change(o);
    o.clock = &clock;
    auto owned = std::make_unique<VirtualDriver>(clock);
    driver = owned.get();
    auto made = WritebackEngine::make(o, std::move(owned));
    TW_ASSERT(made.has_value(), "the rig's options");
    engine = std::move(*made);
    started = clock.now();
  }
  ~ThrottleRig() {
    for (auto& writer : writers) writer->stop();
    for (auto& lane : lanes) {
      if (lane->device->dead) lane->device->revive();
    }
    driver->run_for(seconds(60));
    for (auto& lane : lanes) EXPECT_TRUE(engine->sync(*lane->context).has_value());
    EXPECT_EQ(engine->dirty_and_writeback_bytes(), 0U);
    EXPECT_EQ(engine->throttled_threads(), 0U);
    writers.clear();
    engine->stop();
  }
  ThrottleLane& add_lane(std::uint64_t bytes_per_s, BackingDeviceOptions options = {},
                         std::uint32_t noise_percent = 0, std::uint64_t seed = 1) {
    ContextOptions context;
    context.device = std::make_shared<BackingDevice>(options);
    return add_lane(std::make_shared<NoisyDevice>(*driver, bytes_per_s, noise_percent, seed), context);
  }
  // Owners of one device, each with limits of its own or without.
  ThrottleLane& add_owner(const std::shared_ptr<NoisyDevice>& device,
                          const std::shared_ptr<BackingDevice>& backing, std::uint64_t dirty_bytes) {
    ContextOptions context;
    context.device = backing;
    context.dirty_bytes = dirty_bytes;
    return add_lane(device, context);
  }
  VirtualWriter& add_writer(ThrottleLane& lane, bool keeps_task = true) {
    writers.push_back(
        std::make_unique<VirtualWriter>(*engine, *driver, *lane.context, lane.pool, keeps_task));
    writers.back()->start(clock.now());
    return *writers.back();
  }
  void add_writers(ThrottleLane& lane, int n, bool keeps_task = true) {
    for (int i = 0; i < n; ++i) add_writer(lane, keeps_task);
  }
  // Runs and samples every 10 ms.
  void run_for(Duration d) {
    const Instant end = clock.now() + d;
    while (clock.now() < end) {
      driver->run_for(milliseconds(10));
      samples.push_back({(clock.now() - started).seconds(), engine->dirty_and_writeback_bytes(),
                         lanes.empty() ? 0 : lanes[0]->context->device().estimate().rates.dirty_ratelimit});
      most_dirty = std::max(most_dirty, samples.back().total_bytes);
      most_charged = std::max(most_charged, engine->charged_bytes());
    }
  }
  // What each writer has dirtied since the last call of this function.
  std::vector<double> take_progress() {
    std::vector<double> made;
    for (auto& writer : writers) {
      std::uint64_t& before = progress_[writer.get()];
      made.push_back(static_cast<double>(writer->dirtied - before));
      before = writer->dirtied;
    }
    return made;
  }
  // Least and most of dirty + writeback, and of the rate, over the samples since `from_s`.
  struct Range {
    double low = 1e300, high = 0, mean = 0;
  };
  Range range_of(double from_s, std::uint64_t ThrottleSample::*what) const {
    Range range;
    std::size_t n = 0;
    for (const ThrottleSample& sample : samples) {
      if (sample.time_s < from_s) continue;
      const auto value = static_cast<double>(sample.*what);
      range.low = std::min(range.low, value);
      range.high = std::max(range.high, value);
      range.mean += value;
      ++n;
    }
    range.mean /= static_cast<double>(std::max<std::size_t>(n, 1));
    return range;
  }
  double time_s() const { return (clock.now() - started).seconds(); }

  VirtualClock clock;
  VirtualDriver* driver = nullptr;
  std::unique_ptr<WritebackEngine> engine;
  Instant started;
  std::vector<std::unique_ptr<ThrottleLane>> lanes;
  std::vector<std::unique_ptr<VirtualWriter>> writers;
  std::vector<ThrottleSample> samples;
  std::uint64_t most_dirty = 0, most_charged = 0;

 private:
  ThrottleLane& add_lane(std::shared_ptr<NoisyDevice> device, const ContextOptions& context) {
    lanes.push_back(std::make_unique<ThrottleLane>());
    ThrottleLane& lane = *lanes.back();
    lane.device = std::move(device);
    lane.target.device = lane.device.get();
    lane.context = engine->add_context(lane.target, context);
    TW_ASSERT(lane.context != nullptr, "the rig's devices");
    lane.target.context = lane.context;
    lane.target.on_ended = [&lane](FakeObject& object) { lane.pool.clean.push_back(&object); };
    return lane;
  }

  std::map<const VirtualWriter*, std::uint64_t> progress_;
};

}  // namespace tidewheel
