// An object-store client that acknowledges a PUT from memory and uploads later: which object, when, and how
// many at once is the writeback engine's business. Links tidewheel::writeback alone. Outside the tree:
//   g++ upload_scheduler.cc $(pkg-config --cflags --libs tidewheel-writeback) && ./a.out
//
//   put --grant, mark_dirty--> dirty --idle, or max_age, or over half of the limit--> uploading --> clean
//                                ^---------- failed: retried, told once to each handle ----+
#include <tidewheel/base/clock.h>
#include <tidewheel/base/sync.h>
#include <tidewheel/base/thread.h>
#include <tidewheel/writeback/context.h>
#include <tidewheel/writeback/driver_thread.h>
#include <tidewheel/writeback/engine.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace upload {

using namespace tidewheel;

// kNone: their order is the program's own business.
inline LockClass names_class{"upload.names", LockRank::kNone};
inline LockClass object_class{"upload.object", LockRank::kNone};

// What the client brings: its store. Called by several threads at once, for different keys.
class Store {
 public:
  virtual ~Store() = default;
  virtual Result<void> put(const std::string& key, const std::string& value) = 0;  // durable when it returns
  virtual Result<void> remove(const std::string& key) = 0;
};

struct Options {
  Duration idle = seconds(2);       // uploaded when nobody has written it for so long ...
  Duration max_age = seconds(30);   // ... or when it has been waiting for so long, written or not
  Duration interval = seconds(1);   // how often it is looked
  std::uint64_t limit_bytes = 64 << 20;  // of what is not uploaded yet; a put beyond it waits
  std::uint32_t uploads = 4;        // at once
  Duration retry_first = seconds(1), retry_longest = seconds(60);
};

// One name of the store with the value that is not there yet. Whoever has it open counts in `handles`.
struct Object : DirtyObject {
  std::string key;
  // For what follows; of the engine only the account functions are called under it.
  mutable Mutex lock{object_class};
  std::string pending, uploading;
  bool has_pending = false;
  Instant first_put, last_put;
  std::uint32_t handles = 0;  // Scheduler::names_
};

// ---- the use of the engine ----
class Scheduler final : public WritebackTarget {
 public:
  Scheduler(Store& store, const Options& options) : store_(store), options_(options) {
    EngineOptions o;
    o.dirty_bytes = options.limit_bytes;
    o.background_bytes = options.limit_bytes / 2;  // from here on it uploads at once, oldest first
    o.expire = options.idle;                       // the first look; write_batch() says who waits on
    o.interval = options.interval;
    o.flushers = options.uploads;
    o.batch_objects = 16;                          // uploaded one after the other, in the order of their keys
    o.batches_in_flight = 1;
    o.retry_first = options.retry_first;
    o.retry_longest = options.retry_longest;
    engine_ = WritebackEngine::make(o, std::make_unique<ThreadDriver>()).value();
    context_ = engine_->add_context(*this);
  }
  ~Scheduler() override {  // what drain() left is dropped here: the caller has been told
    for (auto& [key, object] : objects_) discard(*object);
    engine_->stop();
  }

  // ---- target: what the engine calls ----
  WriteEstimate estimate(const DirtyObject& dirty) const override {
    const auto& object = static_cast<const Object&>(dirty);
    std::uint64_t key = 0;  // the first eight bytes, as a number that sorts like them
    for (std::size_t i = 0; i < 8; ++i) {
      key = key << 8 | (i < object.key.size() ? static_cast<std::uint8_t>(object.key[i]) : 0);
    }
    MutexLock guard(object.lock);
    return {key, object.pending.size()};
  }
  void write_batch(Batch& batch) override {
    for (WriteSlot& slot : batch.slots()) {
      auto& object = static_cast<Object&>(*slot.object);
      const Instant now = engine_->clock().now();
      {
        MutexLock guard(object.lock);
        if (!object.has_pending) {  // its value went with the write before this
          slot.outcome = WriteOutcome::kWritten;
          continue;
        }
        const bool hot = now - object.last_put < options_.idle && now - object.first_put < options_.max_age;
        if (hot && batch.kind() == WorkKind::kPeriodic) {
          slot.outcome = WriteOutcome::kSkipped;  // still being written: looked at again, its age kept
          continue;
        }
        object.uploading = std::exchange(object.pending, {});
        object.has_pending = false;
        engine_->account_writeback_started(*context_, object.uploading.size());
      }
      const Result<void> stored = store_.put(object.key, object.uploading);
      slot.outcome = stored ? WriteOutcome::kWritten : WriteOutcome::kFailed;
      if (!stored) slot.error = stored.error();
    }
    batch.complete();
  }
  void end_batch(Batch& batch) override {
    for (WriteSlot& slot : batch.slots()) {
      if (slot.outcome == WriteOutcome::kSkipped) continue;
      auto& object = static_cast<Object&>(*slot.object);
      MutexLock guard(object.lock);
      std::string sent = std::exchange(object.uploading, {});
      if (slot.outcome == WriteOutcome::kFailed && !object.has_pending) {
        engine_->account_redirtied(*context_, sent.size());
        object.pending = std::move(sent);
        object.has_pending = true;
      } else {  // uploaded, or a newer value waits already
        engine_->account_cleaned(*context_, sent.size());
      }
    }
  }
  Result<void> flush() override { return {}; }  // Store::put is durable

  // ---- client: what the program calls; a Handle is one thread's ----
  struct Handle {
    Object* object = nullptr;
    ErrorCursor errors;
  };
  Handle open(const std::string& key) {
    MutexLock guard(names_);
    std::unique_ptr<Object>& object = objects_[key];
    if (object == nullptr) {
      object = std::make_unique<Object>();
      object->key = key;
      object->set_context(context_->id());
    }
    ++object->handles;
    return {object.get(), ErrorSequence::sample(object->write_errors)};
  }
  void close(const Handle& handle) {
    MutexLock guard(names_);
    if (--handle.object->handles == 0 && handle.object->state().clean()) objects_.erase(handle.object->key);
  }
  // Acknowledged from memory. Answers how long the limit held the caller back: its back-pressure.
  Result<Duration> put(Handle& handle, std::string value) {
    Object& object = *handle.object;
    Result<DirtyGrant> grant = engine_->balance_dirty_pages(*context_, value.size());
    if (!grant) return Unexpected(grant.error());
    if (grant->bytes() < value.size()) return TW_FAIL(kFileTooLarge);  // more than half of the limit
    const Instant now = engine_->clock().now();
    {
      MutexLock guard(object.lock);
      if (object.has_pending) {
        engine_->account_cancelled(*context_, object.pending.size());  // replaced before it was sent
      } else {
        object.first_put = now;
      }
      engine_->account_dirtied(*grant, value.size());
      object.pending = std::move(value);
      object.has_pending = true;
      object.last_put = now;
    }
    engine_->mark_dirty(object, kDirtyData, now, &*grant);
    return grant->paused();
  }
  // Uploads this object now; also tells what the handle has not been told of earlier uploads.
  Result<void> sync(Handle& handle) { return engine_->fsync(*handle.object, &handle.errors); }
  // The name goes, and with it what was not uploaded. Waits for an upload of it that is under way. Puts of
  // the same name at the same time are the caller's to order.
  Result<void> remove(Handle& handle) {
    discard(*handle.object);
    return store_.remove(handle.object->key);
  }
  // Uploads everything; kTimedOut: the rest stays and is listed by dirty().
  Result<void> drain(Instant deadline) { return engine_->sync(*context_, nullptr, deadline); }
  struct Dirty {
    std::string key;
    std::uint64_t bytes = 0;
    Duration age;
  };
  std::vector<Dirty> dirty() {
    std::vector<Dirty> list;
    const Instant now = engine_->clock().now();
    MutexLock names(names_);
    for (auto it = objects_.begin(); it != objects_.end();) {
      Object& object = *it->second;
      if (object.state().clean()) {
        it = object.handles == 0 ? objects_.erase(it) : std::next(it);
        continue;
      }
      MutexLock guard(object.lock);
      const std::uint64_t bytes = object.pending.size() + object.uploading.size();
      list.push_back({object.key, bytes, now - object.first_put});
      ++it;
    }
    return list;
  }
  const WritebackEngine& engine() const { return *engine_; }

 private:
  void discard(Object& object) {
    engine_->cancel(object);
    MutexLock guard(object.lock);
    engine_->account_cancelled(*context_, object.pending.size());
    object.pending.clear();
    object.has_pending = false;
  }

  Store& store_;
  const Options options_;
  std::unique_ptr<WritebackEngine> engine_;
  WritebackContext* context_ = nullptr;
  Mutex names_{names_class};
  std::map<std::string, std::unique_ptr<Object>> objects_ TW_GUARDED_BY(names_);
};

}  // namespace upload

#ifndef TIDEWHEEL_EXAMPLE_WITHOUT_MAIN
namespace {

tidewheel::LockClass demo_class{"demo.store", tidewheel::LockRank::kNone};  // outlives its locks

// A store in memory that takes 20 ms per object and fails the first upload of "b/2".
class DemoStore final : public upload::Store {
 public:
  tidewheel::Result<void> put(const std::string& key, const std::string& value) override {
    tidewheel::sleep_for(tidewheel::milliseconds(20));
    tidewheel::MutexLock guard(lock_);
    if (key == "b/2" && !failed_) {
      failed_ = true;
      return TW_FAIL(kIo);
    }
    bytes_ += value.size();
    return {};
  }
  tidewheel::Result<void> remove(const std::string&) override { return {}; }
  std::uint64_t bytes() {
    tidewheel::MutexLock guard(lock_);
    return bytes_;
  }

 private:
  tidewheel::Mutex lock_{demo_class};
  bool failed_ = false;
  std::uint64_t bytes_ = 0;
};

}  // namespace

int main() {
  using tidewheel::milliseconds;
  DemoStore store;
  upload::Options options;
  options.limit_bytes = 1 << 20;
  options.idle = milliseconds(50);
  options.interval = milliseconds(20);
  options.retry_first = milliseconds(50);
  upload::Scheduler uploads(store, options);

  tidewheel::Duration held_back;
  for (int i = 0; i < 64; ++i) {  // 4 MiB through a limit of 1 MiB
    auto handle = uploads.open((i % 2 == 0 ? "a/" : "b/") + std::to_string(i / 2));
    const auto paused = uploads.put(handle, std::string(64 << 10, 'x'));
    if (!paused) return 1;
    held_back += *paused;
    uploads.close(handle);
  }
  auto first = uploads.open("b/2");
  auto gone = uploads.open("a/gone");
  if (!uploads.put(gone, "never seen by the store") || !uploads.remove(gone)) return 1;
  const auto soon = tidewheel::SteadyClock::instance().now() + milliseconds(1);
  const bool in_time = uploads.drain(soon).has_value();
  std::printf("after 1 ms: %s, %zu objects left\n", in_time ? "drained" : "not drained",
              uploads.dirty().size());
  const auto later = soon + tidewheel::seconds(30);
  while (!uploads.drain(later)) {  // the failed upload is told here, and tried again
    if (tidewheel::SteadyClock::instance().now() > later) return 1;
  }
  const auto told = uploads.sync(first);
  std::printf("b/2 failed once: %s; then %s\n", told ? "no error to tell" : "told",
              uploads.sync(first) ? "ok" : "told again");
  std::printf("held back by the limit: %s\n", held_back.ns > 0 ? "yes" : "no");
  std::printf("uploaded %llu KiB, %zu left\n", static_cast<unsigned long long>(store.bytes() >> 10),
              uploads.dirty().size());
  uploads.close(first);
  uploads.close(gone);
  return store.bytes() == 64ULL * (64 << 10) && uploads.dirty().empty() ? 0 : 1;
}
#endif
