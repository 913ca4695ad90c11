// A target that knows neither inodes nor devices, and an engine on it in virtual time. What a program must
// bring to embed the engine is FakeTarget without the parts that only tests need.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>

#include "base/clock.h"
#include "base/sync.h"
#include "writeback/context.h"
#include "writeback/driver_virtual.h"
#include "writeback/engine.h"
#include "writeback/flusher.h"

namespace tidewheel {

struct FakeObject : DirtyObject {
  explicit FakeObject(std::uint64_t sort_key = 0) : key(sort_key) {}
  virtual ~FakeObject() = default;  // tests derive from it, and keep all kinds in one list
  std::uint64_t key;
  Atomic<std::uint64_t> dirty_bytes{0};  // the data's tag: exchanged by the target, seq_cst
  std::uint64_t writing_bytes = 0;
  Instant first_dirty = Instant::max();  // the test's own note, for the age of what is written
  std::uint64_t writes = 0;
  bool being_written = false;
};

// How a device behaves: asked once per batch, on the thread of write_batch().
class FakeDevice {
 public:
  virtual ~FakeDevice() = default;
  virtual void start(Batch& batch) = 0;  // sees to it that complete() is called
};

class FakeTarget : public WritebackTarget {
 public:
  // What becomes of one object's write; the default writes everything (or its slice).
  std::function<WriteOutcome(FakeObject&, WriteSlot&)> decide;
  std::function<void(FakeObject&, const WriteSlot&, WorkKind)> on_write;  // in write_batch
  std::function<bool(const FakeObject&, std::uint32_t)> gives_up;
  std::function<void(const FakeObject&)> on_estimate;
  bool empty_parts = false;  // kPartial writes nothing at all
  std::function<void(FakeObject&)> on_ended;  // in end_batch, of what was written
  WritebackContext* context = nullptr;
  FakeDevice* device = nullptr;
  Result<void> flush_result;
  Atomic<std::uint64_t> flushes{0}, batches{0};
  Atomic<std::uint64_t> largest_batch_objects{0}, largest_batch_bytes{0};
  Atomic<bool> unsorted{false};

  static void raise_to(Atomic<std::uint64_t>& most, std::uint64_t value) {
    std::uint64_t now = most.load(std::memory_order_relaxed);
    while (now < value && !most.compare_exchange(now, value, std::memory_order_relaxed)) {
    }
  }

  WriteEstimate estimate(const DirtyObject& object) const override {
    const auto& fake = static_cast<const FakeObject&>(object);
    if (on_estimate) on_estimate(fake);
    return {fake.key, fake.dirty_bytes.load(std::memory_order_relaxed)};
  }

  void write_batch(Batch& batch) override {
    batches.fetch_add(1, std::memory_order_relaxed);
    std::uint64_t total = 0;
    std::uint64_t last_key = 0;
    for (WriteSlot& slot : batch.slots()) {
      auto& object = static_cast<FakeObject&>(*slot.object);
      TW_ASSERT(!object.being_written, "two writers of one object");
      object.being_written = true;
      if (slot.sort_key < last_key) unsorted.store(true, std::memory_order_relaxed);
      last_key = slot.sort_key;
      slot.outcome = decide ? decide(object, slot) : WriteOutcome::kWritten;
      if (on_write) on_write(object, slot, batch.kind());
      const bool nothing = slot.outcome == WriteOutcome::kSkipped ||
                           (slot.outcome == WriteOutcome::kPartial && empty_parts);
      std::uint64_t bytes = nothing ? 0 : object.dirty_bytes.exchange(0, std::memory_order_seq_cst);
      std::uint64_t rest = 0;
      if (bytes > slot.limit_bytes) {
        rest = bytes - slot.limit_bytes;
        bytes = slot.limit_bytes;
        if (slot.outcome == WriteOutcome::kWritten) slot.outcome = WriteOutcome::kPartial;
      }
      if (slot.outcome == WriteOutcome::kPartial && rest == 0 && bytes > 1) {
        rest = bytes / 2;
        bytes -= rest;
      }
      if (rest != 0) object.dirty_bytes.fetch_add(rest, std::memory_order_seq_cst);
      object.writing_bytes = bytes;
      slot.written_bytes = bytes;
      ++object.writes;
      total += bytes;
    }
    raise_to(largest_batch_objects, batch.slots().size());
    raise_to(largest_batch_bytes, total);
    batch.io = {batch.slots().size(), total, 1};
    batch.context().engine().account_writeback_started(batch.context(), total);
    if (device != nullptr) {
      device->start(batch);
    } else {
      batch.complete();
    }
  }

  void end_batch(Batch& batch) override {
    WritebackEngine& engine = batch.context().engine();
    for (WriteSlot& slot : batch.slots()) {
      auto& object = static_cast<FakeObject&>(*slot.object);
      object.being_written = false;
      if (slot.outcome == WriteOutcome::kFailed) {
        object.dirty_bytes.fetch_add(object.writing_bytes, std::memory_order_seq_cst);
        engine.account_redirtied(batch.context(), object.writing_bytes);
      } else {
        engine.account_cleaned(batch.context(), object.writing_bytes);
      }
      if (slot.outcome == WriteOutcome::kWritten || slot.outcome == WriteOutcome::kGivenUp) {
        object.first_dirty = Instant::max();
        if (on_ended) on_ended(object);
      }
      object.writing_bytes = 0;
    }
  }

  bool give_up(const DirtyObject& object, Error, std::uint32_t attempts) override {
    return gives_up && gives_up(static_cast<const FakeObject&>(object), attempts);
  }

  Result<void> flush() override {
    flushes.fetch_add(1, std::memory_order_relaxed);
    return flush_result;
  }
};

// Completes each batch after latency + bytes / bandwidth, several at once; can be stalled.
class VirtualDevice final : public FakeDevice {
 public:
  VirtualDevice(VirtualDriver& driver, Duration latency, std::uint64_t bytes_per_s = 0)
      : driver_(driver), latency_(latency), bytes_per_s_(bytes_per_s) {}
  void start(Batch& batch) override {
    ++in_flight;
    if (stalled) {
      held_.push_back(&batch);
      return;
    }
    Instant from = std::max(driver_.clock().now(), busy_until_);
    if (bytes_per_s_ != 0) {
      from = from + Duration{static_cast<std::int64_t>(static_cast<double>(batch.io.bytes) * 1e9 /
                                                       static_cast<double>(bytes_per_s_))};
      busy_until_ = from;
    }
    driver_.post(from + latency_, &VirtualDevice::done, this, reinterpret_cast<std::uint64_t>(&batch));
  }
  void resume() {
    stalled = false;
    std::deque<Batch*> held = std::exchange(held_, {});
    for (Batch* batch : held) {
      --in_flight;
      start(*batch);
    }
  }
  // With VirtualDriver::step_clock(): what it has begun takes as long as before.
  void clock_stepped(Duration by) {
    if (busy_until_ != Instant::min()) busy_until_ = busy_until_ + by;
  }
  bool stalled = false;
  std::uint32_t in_flight = 0;

 private:
  static void done(void* self, std::uint64_t batch) {
    --static_cast<VirtualDevice*>(self)->in_flight;
    reinterpret_cast<Batch*>(batch)->complete();
  }
  VirtualDriver& driver_;
  Duration latency_;
  std::uint64_t bytes_per_s_;
  Instant busy_until_ = Instant::min();
  std::deque<Batch*> held_;
};

// An engine with one context in virtual time. Objects are made by the rig and cancelled at its end.
class VirtualRig {
 public:
  explicit VirtualRig(EngineOptions o = {}) : clock(seconds_at(1000)) {
    o.clock = &clock;
    auto owned = std::make_unique<VirtualDriver>(clock);
    driver = owned.get();
    auto made = WritebackEngine::make(o, std::move(owned));
    TW_ASSERT(made.has_value(), "the rig's options");
    engine = std::move(*made);
    context = engine->add_context(target);
    target.context = context;
  }
  ~VirtualRig() {
    for (auto& object : objects) cancel(*object);
    // P8: counters drain to zero.
    EXPECT_TRUE(context->counts().all_zero());
    EXPECT_EQ(engine->dirty_and_writeback_bytes(), 0U);
    context->list().check_invariants();
    engine->stop();
  }
  static Instant seconds_at(std::int64_t s) { return Instant{0} + seconds(s); }

  FakeObject& make(std::uint64_t key = 0) {
    objects.push_back(std::make_unique<FakeObject>(key));
    objects.back()->set_context(context->id());
    objects.back()->set_hash(static_cast<std::uint8_t>(objects.size()));
    return *objects.back();
  }
  // Waits for room as a real writer does.
  void dirty(FakeObject& object, std::uint64_t bytes, std::uint32_t classes = kDirtyData | kDirtyMetadata) {
    do {
      Result<DirtyGrant> grant = engine->balance_dirty_pages(*context, bytes);
      ASSERT_TRUE(grant.has_value());
      const std::uint64_t piece = std::min(bytes, grant->bytes());
      engine->account_dirtied(*grant, piece);
      object.dirty_bytes.fetch_add(piece, std::memory_order_seq_cst);
      if (object.first_dirty == Instant::max()) object.first_dirty = clock.now();
      engine->mark_dirty(object, classes, clock.now(), &*grant);
      bytes -= piece;
    } while (bytes != 0);
  }
  bool cancel(FakeObject& object) {
    const bool was = engine->cancel(object);
    engine->account_cancelled(*context, object.dirty_bytes.exchange(0, std::memory_order_seq_cst));
    return was;
  }
  std::uint64_t dirty_objects() const { return context->counts().objects(); }
  std::uint64_t wakeups() const { return engine->stats().flusher_wakeups; }

  VirtualClock clock;
  FakeTarget target;
  std::unique_ptr<WritebackEngine> engine;
  VirtualDriver* driver = nullptr;
  WritebackContext* context = nullptr;
  std::vector<std::unique_ptr<FakeObject>> objects;
};

inline EngineOptions small_options() {
  EngineOptions o;
  o.background_bytes = 1 << 20;
  o.dirty_bytes = 4 << 20;
  o.object_overhead_bytes = 1024;
  o.counter_chunk_bytes = 0;
  o.batch_bytes = 256 << 10;
  return o;
}

inline const char* const kAllDesigns[] = {"timer-wheel", "single-list", "tagged-list", "syncer-slots",
                                          "parallel-lists"};

}  // namespace tidewheel
