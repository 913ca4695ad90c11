#include "writeback/write_behind.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "writeback/context.h"
#include "writeback/driver_thread.h"
#include "writeback/engine.h"

namespace tidewheel {

namespace {

LockClass names_class{"write_behind.names", LockRank::kInodeHash};
LockClass value_class{"write_behind.value", LockRank::kMapping};

}  // namespace

// One key with what the store does not have yet. Whoever has it open counts in `handles`.
struct WriteBehind::Value : DirtyObject {
  std::string key;
  std::uint32_t handles = 0;  // WriteBehind::names_
  // Of the engine only the account functions are called under it.
  mutable Mutex lock TW_ACQUIRED_AFTER(kRankMapping) TW_ACQUIRED_BEFORE(kRankListShard){value_class};
  std::string pending TW_GUARDED_BY(lock), writing TW_GUARDED_BY(lock);
  bool has_pending TW_GUARDED_BY(lock) = false;
  bool is_writing TW_GUARDED_BY(lock) = false;
  // The first put of what is pending, and of what is being written: that one may come back.
  Instant first_put TW_GUARDED_BY(lock), writing_first_put TW_GUARDED_BY(lock), last_put TW_GUARDED_BY(lock);
};

// ---- life ----

Result<std::unique_ptr<WriteBehind>> WriteBehind::make(ValueStore& store, const WriteBehindOptions& options) {
  if (options.writers == 0 || options.interval.ns <= 0) return TW_FAIL(kInvalidArgument);
  EngineOptions o;
  o.design = options.design;
  o.dirty_bytes = options.limit_bytes;
  o.background_bytes = options.limit_bytes / 2;  // from here on it writes at once, oldest first
  o.expire = options.idle;                       // the first look; write_batch() says who waits on
  o.interval = options.interval;
  o.flushers = options.writers;
  o.batch_objects = 16;  // written one after the other, in the order of their keys
  o.batches_in_flight = 1;
  o.retry_first = options.retry_first;
  o.retry_longest = options.retry_longest;
  auto engine = WritebackEngine::make(o, std::make_unique<ThreadDriver>());
  if (!engine) return Unexpected(engine.error());
  std::unique_ptr<WriteBehind> made(new WriteBehind(store, options));
  made->engine_ = std::move(*engine);
  Error why;
  made->context_ = made->engine_->add_context(*made, {}, &why);
  if (made->context_ == nullptr) return Unexpected(why);
  return made;
}

WriteBehind::WriteBehind(ValueStore& store, const WriteBehindOptions& options)
    : store_(store), options_(options), names_(names_class) {}

WriteBehind::~WriteBehind() {
  {
    MutexLock names(names_);
    for (auto& [key, value] : values_) TW_ASSERT(value->handles == 0, "write-behind ends with open handles");
  }
  // Nobody else is here: only the engine's threads, which know no names.
  for (const auto& [key, value] : values_) discard(*value);
  engine_->stop();
}

// ---- the target: what the engine calls ----

WriteEstimate WriteBehind::estimate(const DirtyObject& object) const {
  const auto& value = static_cast<const Value&>(object);
  std::uint64_t sort_key = 0;  // the key's first eight bytes, as a number that sorts like them
  for (std::size_t i = 0; i < 8; ++i) {
    sort_key = sort_key << 8 | (i < value.key.size() ? static_cast<std::uint8_t>(value.key[i]) : 0);
  }
  MutexLock guard(value.lock);
  return {sort_key, value.pending.size()};
}

void WriteBehind::write_batch(Batch& batch) {
  for (WriteSlot& slot : batch.slots()) {
    auto& value = static_cast<Value&>(*slot.object);
    const Instant now = engine_->clock().now();
    const std::string* bytes = nullptr;
    {
      MutexLock guard(value.lock);
      if (!value.has_pending) {  // it went with the write before this
        slot.outcome = WriteOutcome::kWritten;
        continue;
      }
      const bool hot = now - value.last_put < options_.idle && now - value.first_put < options_.max_age;
      if (hot && batch.kind() == WorkKind::kPeriodic) {
        slot.outcome = WriteOutcome::kSkipped;  // still being put: looked at again, its age kept
        continue;
      }
      value.writing = std::exchange(value.pending, {});
      value.has_pending = false;
      value.is_writing = true;
      value.writing_first_put = value.first_put;
      engine_->account_writeback_started(*context_, value.writing.size());
      bytes = &value.writing;  // nobody else changes it before end_batch()
    }
    const Result<void> stored = store_.put(value.key, *bytes);
    slot.outcome = stored ? WriteOutcome::kWritten : WriteOutcome::kFailed;
    if (!stored) slot.error = stored.error();
  }
  batch.complete();
}

void WriteBehind::end_batch(Batch& batch) {
  for (WriteSlot& slot : batch.slots()) {
    if (slot.outcome == WriteOutcome::kSkipped) continue;
    auto& value = static_cast<Value&>(*slot.object);
    MutexLock guard(value.lock);
    std::string sent = std::exchange(value.writing, {});
    const bool written = std::exchange(value.is_writing, false);
    // The store has nothing since then, whatever is to be written next.
    if (slot.outcome == WriteOutcome::kFailed && written) value.first_put = value.writing_first_put;
    if (slot.outcome == WriteOutcome::kFailed && !value.has_pending) {
      engine_->account_redirtied(*context_, sent.size());
      value.pending = std::move(sent);
      value.has_pending = true;
    } else {  // written, or a newer one waits already
      engine_->account_cleaned(*context_, sent.size());
    }
  }
}

// ---- the client: what the program calls ----

WriteBehind::Handle WriteBehind::open(const std::string& key) {
  MutexLock names(names_);
  if (values_.size() >= sweep_at_) {
    sweep_locked();
    sweep_at_ = std::max<std::size_t>(64, 2 * values_.size());
  }
  std::unique_ptr<Value>& value = values_[key];
  if (value == nullptr) {
    value = std::make_unique<Value>();
    value->key = key;
    value->set_context(context_->id());
  }
  ++value->handles;
  Handle handle;
  handle.owner_ = this;
  handle.value_ = value.get();
  handle.errors_ = ErrorSequence::sample(value->write_errors);
  return handle;
}

WriteBehind::Handle& WriteBehind::Handle::operator=(Handle&& other) noexcept {
  if (this == &other) return *this;
  close();
  owner_ = std::exchange(other.owner_, nullptr);
  value_ = std::exchange(other.value_, nullptr);
  errors_ = other.errors_;
  return *this;
}

void WriteBehind::Handle::close() {
  if (value_ == nullptr) return;
  MutexLock names(owner_->names_);
  Value& value = *std::exchange(value_, nullptr);
  if (--value.handles != 0 || !value.state().clean()) return;  // dirty: sweep_locked() forgets it later
  owner_->values_.erase(value.key);
}

Result<Duration> WriteBehind::Handle::put(std::string bytes) {
  TW_ASSERT(value_ != nullptr, "a put through a closed handle");
  return owner_->put(*value_, std::move(bytes));
}

Result<void> WriteBehind::Handle::sync() {
  TW_ASSERT(value_ != nullptr, "a sync through a closed handle");
  return owner_->engine_->fsync(*value_, &errors_);
}

Result<void> WriteBehind::Handle::remove() {
  TW_ASSERT(value_ != nullptr, "a remove through a closed handle");
  owner_->discard(*value_);
  return owner_->store_.remove(value_->key);
}

// The order is: a grant, holding no lock; the bytes, under the value's lock; then mark_dirty. write_batch()
// takes them out under the same lock: it sees these, or the value becomes dirty again.
Result<Duration> WriteBehind::put(Value& value, std::string bytes) {
  Result<DirtyGrant> grant = engine_->balance_dirty_pages(*context_, bytes.size());
  if (!grant) return Unexpected(grant.error());
  if (grant->bytes() < bytes.size()) return TW_FAIL(kFileTooLarge);  // more than half of the limit
  const Instant now = engine_->clock().now();
  {
    MutexLock guard(value.lock);
    if (value.has_pending) {
      engine_->account_cancelled(*context_, value.pending.size());  // replaced before it was written
    } else {
      value.first_put = now;
    }
    engine_->account_dirtied(*grant, bytes.size());
    value.pending = std::move(bytes);
    value.has_pending = true;
    value.last_put = now;
  }
  engine_->mark_dirty(value, kDirtyData, now, &*grant);
  return grant->paused();
}

void WriteBehind::discard(Value& value) {
  engine_->cancel(value);
  MutexLock guard(value.lock);
  engine_->account_cancelled(*context_, value.pending.size());
  value.pending.clear();
  value.has_pending = false;
}

Result<void> WriteBehind::drain(Instant deadline) { return engine_->sync(*context_, nullptr, deadline); }

void WriteBehind::interrupt_waiters() { engine_->interrupt_waiters(); }

std::vector<WriteBehind::Dirty> WriteBehind::dirty() {
  std::vector<Dirty> list;
  MutexLock names(names_);
  sweep_locked();
  for (const auto& [key, value] : values_) {
    if (value->state().clean()) continue;
    MutexLock guard(value->lock);
    const Instant first = value->is_writing ? value->writing_first_put : value->first_put;
    // Read here: a put may have come since the list was begun.
    const Duration age = std::max(engine_->clock().now() - first, Duration{});
    list.push_back({key, value->pending.size() + value->writing.size(), age});
  }
  return list;
}

std::size_t WriteBehind::known_keys_for_test() {
  MutexLock names(names_);
  return values_.size();
}

void WriteBehind::sweep_locked() {
  std::erase_if(values_, [](const auto& each) {
    return each.second->handles == 0 && each.second->state().clean();
  });
}

}  // namespace tidewheel
