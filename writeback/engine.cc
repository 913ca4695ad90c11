// Life of the engine and its contexts, accounting, statistics. Throttling: engine_throttle.cc.
#include "writeback/engine.h"

#include <algorithm>
#include <vector>

#include "base/thread.h"
#include "base/trace.h"
#include "writeback/context.h"
#include "writeback/driver.h"
#include "writeback/flusher.h"

namespace tidewheel {
namespace {

LockClass contexts_class("writeback-contexts", LockRank::kEngine);
LockClass throttle_class("throttle", LockRank::kCompletion);

constexpr std::uint64_t kMaxChunkBytes = 256ULL << 10;
constexpr std::uint64_t kChunksInLimit = 2048;  // all shards together keep at most 1/64 of the limit

EngineOptions completed(EngineOptions o) {
  if (o.counter_chunk_bytes == UINT64_MAX) {
    o.counter_chunk_bytes = std::min(kMaxChunkBytes, o.dirty_bytes / kChunksInLimit);
  }
  if (o.batch_bytes == UINT64_MAX) o.batch_bytes = default_batch_bytes(o.dirty_bytes);
  o.background_bytes = std::min(o.background_bytes, o.dirty_bytes / 2);
  return o;
}

}  // namespace

Result<std::unique_ptr<WritebackEngine>> WritebackEngine::make(const EngineOptions& options,
                                                               std::unique_ptr<Driver> driver) {
  const ThrottlePolicy* policy = find_throttle_policy(options.throttle);
  if (find_work_policy(options.work_policy) == nullptr) return TW_FAIL(kInvalidArgument);
  if (policy == nullptr || find_dirty_list_design(options.design) == nullptr || driver == nullptr) {
    return TW_FAIL(kInvalidArgument);
  }
  if (options.flushers == 0 || options.batch_objects == 0 || options.batch_bytes == 0 ||
      options.batches_in_flight == 0) {
    return TW_FAIL(kInvalidArgument);
  }
  // A batch's id has 16 bits.
  if (options.batch_objects > 0xFFFF || std::uint64_t{options.flushers} * options.batches_in_flight >
                                            0xFFFF - WritebackContext::kFsyncBatches) {
    return TW_FAIL(kInvalidArgument);
  }
  if (options.shards > kMaxListShards || (options.shards & (options.shards - 1)) != 0) {
    return TW_FAIL(kInvalidArgument);
  }
  if (options.expire.ns < 0 || options.interval.ns < 0 || options.lazytime_expire.ns < 0) {
    return TW_FAIL(kInvalidArgument);
  }
  // Half of the limit must hold one page of one object.
  if (options.object_overhead_bytes > (1ULL << 40) || options.dirty_bytes > (1ULL << 60) ||
      options.dirty_bytes / 2 < options.object_overhead_bytes + kPageBytes) {
    return TW_FAIL(kInvalidArgument);
  }
  return std::unique_ptr<WritebackEngine>(
      new WritebackEngine(completed(options), std::move(driver), *policy));
}

WritebackEngine::WritebackEngine(const EngineOptions& options, std::unique_ptr<Driver> driver,
                                 const ThrottlePolicy& policy)
    : options_(options),
      clock_(options.clock != nullptr ? options.clock : &SteadyClock::instance()),
      limits_{options.background_bytes, options.dirty_bytes},
      driver_(std::move(driver)),
      allowance_(options.dirty_bytes, options.counter_chunk_bytes),
      throttle_lock_(throttle_class),
      contexts_lock_(contexts_class) {
  put_in_force(policy);
  TW_ASSERT(set_work_policy(options_.work_policy).has_value(), "make() has asked for it");
}

WritebackEngine::~WritebackEngine() {
  stop();
  WriterLock guard(contexts_lock_);
  for (std::uint32_t i = 0; i < contexts_added_; ++i) {
    delete contexts_[i].exchange(nullptr, std::memory_order_acq_rel);
  }
}

// ---- contexts ----

WritebackContext* WritebackEngine::add_context(WritebackTarget& target, const ContextOptions& options,
                                               Error* why) {
  Error ignored;
  Error& reason = why == nullptr ? ignored : *why;
  std::unique_ptr<WritebackContext> refused;
  if (WritebackContext* added = try_add_context(target, options, refused, reason)) return added;
  // Without the lock: flushers that have started are waited for.
  if (refused != nullptr) refused->retire();
  return nullptr;
}

bool WritebackEngine::acceptable(const ContextOptions& options) const {
  // As for the engine: half of the limit must hold one page of one object.
  if (options.dirty_bytes / 2 < options_.object_overhead_bytes + kPageBytes) return false;
  if (options.shards > kMaxListShards || (options.shards & (options.shards - 1)) != 0) return false;
  return options.batch_objects <= 0xFFFF &&
         std::uint64_t{std::max(options.flushers, options_.flushers)} *
                 std::max(options.batches_in_flight, options_.batches_in_flight) <=
             0xFFFF - WritebackContext::kFsyncBatches;
}

WritebackContext* WritebackEngine::try_add_context(WritebackTarget& target, const ContextOptions& options,
                                                   std::unique_ptr<WritebackContext>& refused,
                                                   Error& why) {
  WriterLock guard(contexts_lock_);
  why = TW_FAIL(kShutDown).error();
  if (stopping()) return nullptr;
  why = TW_FAIL(kInvalidArgument).error();
  if (!acceptable(options)) return nullptr;
  // Places of removed contexts are used again.
  std::uint32_t id = 0;
  while (id < contexts_added_ && contexts_[id].load(std::memory_order_relaxed) != nullptr) ++id;
  why = TW_FAIL(kBusy).error();
  if (id == std::min<std::uint32_t>(options_.max_contexts, kMaxContexts)) return nullptr;
  DirtyListOptions list_options;
  list_options.context = static_cast<std::uint16_t>(id);
  list_options.shards = options.shards != 0 ? options.shards : options_.shards;
  list_options.flushers = options.flushers != 0 ? options.flushers : options_.flushers;
  list_options.periodic_interval = options_.interval;
  list_options.retry_first = options_.retry_first;
  list_options.retry_longest = options_.retry_longest;
  list_options.lazytime = options_.lazytime;
  list_options.lazytime_expire = options_.lazytime_expire;
  auto context =
      std::make_unique<WritebackContext>(*this, target, options, static_cast<std::uint16_t>(id),
                                         find_dirty_list_design(options_.design)->make(list_options));
  if (!context->device().attach(context->counts(), devices_)) {
    why = TW_FAIL(kInvalidArgument).error();
    return nullptr;
  }
  for (const auto& flusher : context->flushers()) {
    if (const Result<void> started = driver_->add(*flusher); !started) {
      why = started.error();
      refused = std::move(context);
      return nullptr;
    }
  }
  contexts_added_ = std::max(contexts_added_, id + 1);
  WritebackContext* added = context.release();
  contexts_[id].store(added, std::memory_order_release);
  return added;
}

Result<void> WritebackEngine::remove_context(WritebackContext& context) {
  if (!stopping()) TW_TRY(context.sync(nullptr, Instant::max()));
  if (context.counts().objects() != 0) return TW_FAIL_WITH(kBusy, context.counts().objects());
  {
    ReaderLock guard(contexts_lock_);
    for (std::uint32_t i = 0; i < contexts_added_; ++i) {
      const WritebackContext* each = raw_context(static_cast<std::uint16_t>(i));
      if (each != nullptr && each->heir() == &context) return TW_FAIL(kBusy);
    }
  }
  // Without the lock: what is waited for may want it (a target that asks for stats), or never come.
  context.retire();
  {
    WriterLock guard(contexts_lock_);
    const WritebackContext* was = contexts_[context.id()].exchange(nullptr, std::memory_order_acq_rel);
    TW_ASSERT(was == &context, "a context is removed that is not this engine's");
  }
  while (context.pins_.load(std::memory_order_acquire) != 0) yield_thread();  // stop() is about to leave it
  delete &context;
  return {};
}

void WritebackEngine::stop() {
  std::vector<WritebackContext*> contexts;
  {
    WriterLock guard(contexts_lock_);  // no context is added from here on
    stopping_.store(true, std::memory_order_seq_cst);
    for (std::uint32_t i = 0; i < contexts_added_; ++i) {
      WritebackContext* context = contexts_[i].load(std::memory_order_acquire);
      if (context == nullptr) continue;
      context->pins_.fetch_add(1, std::memory_order_relaxed);
      contexts.push_back(context);
    }
  }
  refuse_waiters(Reason::kShutDown);
  // All first: what one context waits for must not keep others' callers.
  for (WritebackContext* context : contexts) context->end_waits();
  for (WritebackContext* context : contexts) {
    context->retire();
    context->pins_.fetch_sub(1, std::memory_order_release);
  }
}

// ---- dirtying and accounting ----

bool WritebackEngine::mark_dirty_timed(DirtyObject& object, std::uint32_t classes, Instant now,
                                       DirtyGrant* grant) {
  const std::uint64_t began = read_tsc();
  const bool became_listed = !object.covers(classes) && mark_dirty_slow(object, classes, now, grant);
  mark_dirty_ns_.record(
      static_cast<std::uint64_t>(static_cast<double>(read_tsc() - began) / tsc_ticks_per_ns()));
  return became_listed;
}

bool WritebackEngine::mark_dirty_slow(DirtyObject& object, std::uint32_t classes, Instant now,
                                      DirtyGrant* grant) {
  for (;;) {
    const std::uint16_t id = object.context();
    TW_ASSERT(id < kMaxContexts, "an object is dirtied before set_context()");
    WritebackContext* context = raw_context(id);
    TW_ASSERT(context != nullptr, "an object is dirtied in a context that has been removed");
    // Counted before a flusher can see it and take it off again: the counts pass through no negative value.
    const bool counted = object.state().clean();
    if (counted && context->heir() != nullptr) {
      // Without begin_switch(), whose lock the caller may hold: what he has accounted here becomes the heir's
      // in forget_context().
      std::uint32_t was = DirtyState(DirtyPhase::kClean, 0, 0, id).word();
      const std::uint32_t is = DirtyState(DirtyPhase::kClean, 0, 0, this->context(id)->id()).word();
      object.state_.compare_exchange(was, is, std::memory_order_seq_cst);
      continue;
    }
    if (counted) charge_object(*context, grant);
    const DirtyList::Marked marked = context->list().mark(object, classes, now);
    if (marked == DirtyList::Marked::kListed || marked == DirtyList::Marked::kLazy) {
      TW_TRACE(writeback_dirty_inode, reinterpret_cast<std::uintptr_t>(&object), classes,
               static_cast<std::uint64_t>(now.ns), context->id());
      if (!counted) charge_object(*context, grant);  // it was cleaned in between
      marked == DirtyList::Marked::kListed ? context->note_listed() : context->note_lazy();
      return true;
    }
    if (counted) object_cancelled(*context);  // another thread was first, or it was re-filed
    if (marked == DirtyList::Marked::kPromoted) context->note_listed();
    if (marked != DirtyList::Marked::kElsewhere) return false;
  }
}

void WritebackEngine::charge_object(WritebackContext& context, DirtyGrant* grant) {
  const std::uint64_t overhead = options_.object_overhead_bytes;
  if (grant != nullptr && grant->overhead_ != 0) {
    grant->overhead_ = 0;
    move_charge(*grant->context_, context, overhead);
  } else {
    take_over(context, overhead);
  }
  count_dirty(context, overhead, 1);
}

void WritebackEngine::object_cancelled(WritebackContext& context) {
  const auto overhead = static_cast<std::int64_t>(options_.object_overhead_bytes);
  context.counts_.add(-overhead, -1);
  counts_.add(-overhead, 0);
  give_back(context, options_.object_overhead_bytes);
}

// Of the objects that a batch held, `clean` have left the list's care; the others are dirty and no longer
// being written. Once per batch: seven atomic adds for each object are a tenth of what writing it costs here.
void WritebackEngine::batch_cleaned(WritebackContext& context, std::uint64_t written, std::uint64_t clean) {
  const auto overhead = static_cast<std::int64_t>(options_.object_overhead_bytes);
  const std::int64_t written_bytes = static_cast<std::int64_t>(written) * overhead;
  const std::int64_t clean_bytes = static_cast<std::int64_t>(clean) * overhead;
  context.counts_.add_writeback(-written_bytes);
  counts_.add_writeback(-written_bytes);
  if (clean == 0) return;
  context.device().account_written(static_cast<std::uint64_t>(clean_bytes));
  context.counts_.add(-clean_bytes, -static_cast<std::int64_t>(clean));
  counts_.add(-clean_bytes, 0);
  give_back(context, static_cast<std::uint64_t>(clean_bytes));
}

void WritebackEngine::count_dirty(WritebackContext& context, std::uint64_t bytes, std::int64_t objects) {
  context.counts_.add(static_cast<std::int64_t>(bytes), objects);
  counts_.add(static_cast<std::int64_t>(bytes), 0);
  // charged() never lags behind what has been counted, so a threshold passed is noticed by who passes it.
  const bool watched = background_armed_.load(std::memory_order_seq_cst) != 0 &&
                       background_passed_ns_.load(std::memory_order_relaxed) != INT64_MAX;
  if (!watched && allowance_.charged() > limits_.background_bytes) look_at_background();
  if (context.allowance_ != nullptr && context.own_background_armed_.load(std::memory_order_seq_cst) == 0) {
    look_at_own_background(context);
  }
}

void WritebackEngine::account_dirtied(DirtyGrant& grant, std::uint64_t bytes) {
  TW_ASSERT(bytes <= grant.bytes_, "more is dirtied than was granted");
  grant.bytes_ -= bytes;
  if (bytes != 0) count_dirty(*grant.context_, bytes, 0);
}

void WritebackEngine::account_dirtied(DirtyObject& object, DirtyGrant& grant, std::uint64_t bytes) {
  TW_ASSERT(bytes <= grant.bytes_, "more is dirtied than was granted");
  grant.bytes_ -= bytes;
  if (bytes == 0) return;
  // Where the object is, not its heir: what it brings is moved when it is.
  WritebackContext& context = *raw_context(object.context());
  move_charge(*grant.context_, context, bytes);
  count_dirty(context, bytes, 0);
}

// What was granted in one context has become dirty in another.
void WritebackEngine::move_charge(WritebackContext& from, WritebackContext& to, std::uint64_t bytes) {
  if (&from == &to) return;
  if (to.allowance_ != nullptr) to.allowance_->take_over(bytes);
  if (from.allowance_ == nullptr) return;
  from.allowance_->give_back(bytes);
  look_for_waiters(from);
}

void WritebackEngine::account_dirtied(WritebackContext& context, std::uint64_t bytes) {
  take_over(context, bytes);
  count_dirty(context, bytes, 0);
}

void WritebackEngine::account_writeback_started(WritebackContext& context, std::uint64_t bytes) {
  context.counts_.add_writeback(static_cast<std::int64_t>(bytes));
  counts_.add_writeback(static_cast<std::int64_t>(bytes));
}

void WritebackEngine::account_redirtied(WritebackContext& context, std::uint64_t bytes) {
  context.counts_.add_writeback(-static_cast<std::int64_t>(bytes));
  counts_.add_writeback(-static_cast<std::int64_t>(bytes));
}

void WritebackEngine::account_cleaned(WritebackContext& context, std::uint64_t bytes) {
  account_redirtied(context, bytes);
  context.device().account_written(bytes);
  account_cancelled(context, bytes);
}

void WritebackEngine::account_cancelled(WritebackContext& context, std::uint64_t bytes) {
  context.counts_.add(-static_cast<std::int64_t>(bytes), 0);
  counts_.add(-static_cast<std::int64_t>(bytes), 0);
  give_back(context, bytes);
}

void WritebackEngine::account_cancelled(DirtyObject& object, std::uint64_t bytes) {
  account_cancelled(*raw_context(object.context()), bytes);
}

// ---- integrity ----

Result<void> WritebackEngine::sync(WritebackContext& context, ErrorCursor* handle, Instant deadline) {
  const Result<void> done = context.sync(handle, deadline);
  if (done || done.error().code != Reason::kShutDown || stopping()) return done;
  WritebackContext* heir = context.heir();  // it has been retired meanwhile: what it had is there
  return heir != nullptr ? sync(*heir, handle, deadline) : done;
}

Result<void> WritebackEngine::fsync(DirtyObject& object, ErrorCursor* handle) {
  Result<void> result;
  do {
    TW_ASSERT(object.context() < kMaxContexts, "fsync of an object before set_context()");
  } while (!raw_context(object.context())->fsync(object, handle, result));
  return result;
}

bool WritebackEngine::cancel(DirtyObject& object) {
  bool was_dirty = false;
  for (;;) {
    const DirtyState state = object.state();
    if (state.clean()) return was_dirty;
    WritebackContext& context = *raw_context(state.context());
    switch (context.list().cancel(object)) {
      case DirtyList::TakeOut::kClean:
        return was_dirty;
      case DirtyList::TakeOut::kTaken:
        object_cancelled(context);
        return true;
      case DirtyList::TakeOut::kInBatch:
        was_dirty = true;
        context.object_waiters_.wait(object, *driver_);
        break;
      case DirtyList::TakeOut::kElsewhere:
        break;
    }
  }
}

void WritebackEngine::reclaim(WritebackContext& context, std::uint64_t bytes) {
  if (bytes != 0) context.raise_reclaim(bytes);
}

// ---- clock steps ----

// All contexts are told at once: an object on its way from one to another, or in a batch, would else be filed
// with a stamp of the old time where nobody looks for one any more.
void WritebackEngine::note_reading(Instant now, Instant before) {
  const auto ahead = [now](std::int64_t ns) {
    return ns > now.ns && static_cast<std::uint64_t>(ns) - static_cast<std::uint64_t>(now.ns) >
                              static_cast<std::uint64_t>(kLateReading.ns);
  };
  std::int64_t highest = highest_reading_ns_.load(std::memory_order_relaxed);
  if (!ahead(before.ns)) {
    while (highest < now.ns &&
           !highest_reading_ns_.compare_exchange(highest, now.ns, std::memory_order_relaxed)) {
    }
    return;
  }
  do {
    if (!ahead(highest)) return;  // another flusher was first
  } while (!highest_reading_ns_.compare_exchange(highest, now.ns, std::memory_order_relaxed));
  ReaderLock guard(contexts_lock_);
  for (std::uint32_t i = 0; i < contexts_added_; ++i) {
    WritebackContext* context = contexts_[i].load(std::memory_order_acquire);
    if (context == nullptr) continue;
    context->list_->clock_set_back(now);
    context->tick_at_once();
  }
}

// ---- what is going on ----

void WritebackEngine::add_stats(const WritebackContext& c, WritebackStats& s) const {
  s.works += c.works_.load(std::memory_order_relaxed);
  s.objects += c.objects_written_.load(std::memory_order_relaxed);
  s.pages += c.pages_.load(std::memory_order_relaxed);
  s.io_bytes += c.io_bytes_.load(std::memory_order_relaxed);
  s.ios += c.ios_.load(std::memory_order_relaxed);
  s.batches += c.batches_done_.load(std::memory_order_relaxed);
  s.failed_writes += c.failed_writes_.load(std::memory_order_relaxed);
  s.given_up += c.given_up_.load(std::memory_order_relaxed);
  s.oldest_age_max =
      std::max(s.oldest_age_max, Duration{c.oldest_age_max_ns_.load(std::memory_order_relaxed)});
  for (const auto& flusher : c.flushers()) s.flusher_wakeups += flusher->wakeups();
  const DirtyListStats list = c.list().stats();
  s.dirty_list.inserts += list.inserts;
  s.dirty_list.insert_waits += list.insert_waits;
  s.dirty_list.redirties += list.redirties;
  s.dirty_list.removals += list.removals;
  s.dirty_list.detached_buckets += list.detached_buckets;
  s.dirty_list.elements_under_lock += list.elements_under_lock;
  s.dirty_list.max_elements_per_hold =
      std::max(s.dirty_list.max_elements_per_hold, list.max_elements_per_hold);
  s.dirty_list.shards += list.shards;
  s.dirty_list.lazy += list.lazy;
  s.dirty_list.promoted += list.promoted;
  s.dirty_bytes += c.counts().dirty();
  s.writeback_bytes += c.counts().writeback();
  s.dirty_objects += c.counts().objects();
  const Instant oldest = c.oldest_dirty();
  const Instant now = clock_->now();
  if (oldest < now) s.oldest_dirty_age = std::max(s.oldest_dirty_age, now - oldest);
}

WritebackStats WritebackEngine::stats() const {
  WritebackStats s;
  {
    ReaderLock guard(contexts_lock_);
    for (std::uint32_t i = 0; i < contexts_added_; ++i) {
      const WritebackContext* context = contexts_[i].load(std::memory_order_acquire);
      if (context != nullptr) add_stats(*context, s);
    }
  }
  s.throttle_pauses = throttle_pauses_.load(std::memory_order_relaxed);
  s.throttle_ns = throttle_ns_.load(std::memory_order_relaxed);
  s.throttled_threads = throttled_threads();
  return s;
}

WritebackStats WritebackEngine::stats(const WritebackContext& context) const {
  WritebackStats s;
  add_stats(context, s);
  return s;
}

std::uint64_t WritebackEngine::dirty_and_writeback_bytes() const { return counts_.total(); }
std::uint64_t WritebackEngine::dirty_bytes() const { return counts_.dirty(); }

void WritebackEngine::start_observation() {
  background_passed_ns_.store(INT64_MAX, std::memory_order_release);
  first_throttled_ns_.store(INT64_MAX, std::memory_order_release);
}

}  // namespace tidewheel
