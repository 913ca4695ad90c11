#include "writeback/owner.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/thread.h"
#include "writeback/context.h"
#include "writeback/driver.h"
#include "writeback/flusher.h"

namespace tidewheel {
namespace {

// How often retire_context() looks whether what is being written has come back.
constexpr Duration kDrainPause = milliseconds(1);

}  // namespace

// ---- one context's side ----

Instant WritebackContext::sync_covers() const {
  // Until it has its selection, it may cover what is younger than its callers' reading.
  if (queued_sync_ != nullptr) return Instant::max();
  if (running_sync_ == nullptr) return Instant::min();
  return running_sync_->sequence == 0 ? Instant::max() : running_sync_->t0;
}

bool WritebackContext::hand_over(Batch& batch, DirtyObject& object, WritebackContext& to, Instant now) {
  bool waiters = false;
  bool covered = false;
  const bool lazy = engine_.options().lazytime && object.state().classes() == kDirtyTimestamps;
  const bool expired = !lazy && object.dirtied_when() <= now - engine_.options().expire;
  {
    MutexLock guard(lock_);
    covered = object.dirtied_when() <= sync_covers();
    if (!covered) {
      const SwitchHold hold = target_.begin_switch(object);
      engine_.move_counts(*this, to, hold.bytes, 1);
      waiters = to.list_->adopt(object, now);  // it may be gone from here on
      target_.end_switch(hold);
    }
  }
  if (covered) {
    put_back(batch, object, now);
    return false;
  }
  if (waiters) wake(&object);
  to.note_listed();
  to.note_lazy();
  if (expired) to.tick_at_once();
  engine_.look_for_waiters(*this);
  return true;
}

// What has expired and is filed here may have missed this context's last tick as well as its old one's:
// without this each switch could cost it an interval more.
void WritebackContext::tick_at_once() {
  for (const auto& flusher : flushers_) {
    if (flusher->ask_to_tick()) engine_.driver().kick(*flusher);
  }
}

// The end of a write whose object is to leave: by the target's wish, or because this context is retired.
DirtyList::EndWrite WritebackContext::end_write(WriteSlot& slot, WorkKind kind, Instant now) {
  WritebackContext* to = heir();
  if (to == nullptr && slot.move_to != kNoContext) to = engine_.context(slot.move_to);
  const bool moves = to != nullptr && to != this && &to->target_ == &target_ &&
                     (slot.outcome == WriteOutcome::kWritten || slot.outcome == WriteOutcome::kGivenUp);
  if (!moves) return list_->end_write(slot, kind, now);
  DirtyList::EndWrite ended;
  bool moved = false;
  {
    MutexLock guard(lock_);
    // What it was dirtied with meanwhile a sync may have to find here.
    if (sync_covers() == Instant::min()) {
      moved = true;
      slot.heir = to->list_.get();
      const SwitchHold hold = target_.begin_switch(*slot.object);
      ended = list_->end_write(slot, kind, now);  // it may be gone from here on
      engine_.move_counts(*this, *to, hold.bytes, ended.moved ? 1 : 0);
      target_.end_switch(hold);
    }
  }
  if (!moved) return list_->end_write(slot, kind, now);
  if (ended.moved && ended.lazy) {
    to->note_lazy();
  } else if (ended.moved) {
    to->note_listed();
  }
  engine_.look_for_waiters(*this);
  return ended;
}

// ---- many ----

OwnerSwitch::OwnerSwitch(WritebackContext& from, WritebackContext& to) : from_(from), to_(to) {
  TW_ASSERT(&from != &to, "an owner's objects are switched to itself");
  TW_ASSERT(&from.target() == &to.target(), "owners of two targets can't have each other's objects");
  SelectionRequest request;
  request.kind = WorkKind::kSync;  // all there is, the ladder included; what is left over goes back in front
  request.now = from.engine().clock().now();
  request.dirtied_before = request.now;
  selection_ = from.list().select(request);
}

OwnerSwitch::~OwnerSwitch() = default;

bool OwnerSwitch::step() {
  if (ended_) return false;
  FsyncBatch* carrier = from_.acquire_fsync_batch();
  if (carrier == nullptr) {
    ended_ = true;  // the engine stops
    return false;
  }
  const Instant now = from_.engine().clock().now();
  from_.begin_batch(carrier->batch, WorkKind::kFsync);
  std::array<DirtyObject*, kStep> claimed{};
  carrier->batch.held_.changing();
  const std::size_t got = selection_->claim(claimed);
  bool any_put_back = false;
  // From the back, so that what is put back ends up in front in its old order.
  for (std::size_t i = got; i-- > 0;) {
    if (from_.hand_over(carrier->batch, *claimed[i], to_, now)) {
      ++moved_;
    } else {
      ++put_back_;
      any_put_back = true;
    }
  }
  carrier->batch.held_.holds(Instant::max());
  from_.end_batch(carrier->batch, any_put_back);
  from_.release_fsync_batch(*carrier);
  // What is put back comes to the selection again: it would be met for as long as the sync lasts.
  ended_ = got == 0 || any_put_back;
  if (ended_) selection_.reset();
  return !ended_;
}

// ---- the engine's side ----

WritebackContext* WritebackEngine::context(std::uint16_t id) const {
  WritebackContext* context = raw_context(id);
  while (context != nullptr && context->heir() != nullptr) context = context->heir();
  return context;
}

// The caller looks for waiters, once it holds no lock.
void WritebackEngine::move_counts(WritebackContext& from, WritebackContext& to, std::uint64_t bytes,
                                  std::int64_t objects) {
  bytes += static_cast<std::uint64_t>(objects) * options_.object_overhead_bytes;
  to.counts_.add(static_cast<std::int64_t>(bytes), objects);
  from.counts_.add(-static_cast<std::int64_t>(bytes), -objects);
  if (bytes == 0) return;
  // What has come to an owner counts against its limit, though nobody asked: its writers wait the longer.
  if (to.allowance_ != nullptr) {
    to.allowance_->take_over(bytes);
    look_at_own_background(to);
  }
  if (from.allowance_ != nullptr) from.allowance_->give_back(bytes);
}

// False: it was dirtied, or switched, meanwhile.
bool WritebackEngine::switch_clean(DirtyObject& object, WritebackContext& from, WritebackContext& to) {
  std::uint32_t was = DirtyState(DirtyPhase::kClean, 0, 0, from.id()).word();
  const std::uint32_t is = DirtyState(DirtyPhase::kClean, 0, 0, to.id()).word();
  const SwitchHold hold = from.target_.begin_switch(object);
  const bool done = object.state_.compare_exchange(was, is, std::memory_order_seq_cst);
  // Somebody may have accounted for it and be about to mark it.
  if (done) move_counts(from, to, hold.bytes, 0);
  from.target_.end_switch(hold);
  look_for_waiters(from);
  return done;
}

WritebackEngine::Switched WritebackEngine::switch_owner(DirtyObject& object, WritebackContext& to) {
  TW_ASSERT(to.heir() == nullptr, "an object is switched to an owner that was retired");
  for (;;) {
    const DirtyState state = object.state();
    TW_ASSERT(state.context() < kMaxContexts, "an object without a context is switched");
    if (state.context() == to.id()) return Switched::kAlready;
    WritebackContext& from = *raw_context(state.context());
    TW_ASSERT(&from.target_ == &to.target_, "owners of two targets can't have each other's objects");
    if (state.clean()) {
      if (switch_clean(object, from, to)) return Switched::kDone;
      continue;
    }
    if (state.in_batch()) return Switched::kBusy;
    FsyncBatch* carrier = from.acquire_fsync_batch();
    if (carrier == nullptr) return Switched::kBusy;
    from.begin_batch(carrier->batch, WorkKind::kFsync);
    carrier->batch.held_.changing();
    const DirtyList::TakeOut taken = from.list_->claim_one(object);
    const bool claimed = taken == DirtyList::TakeOut::kTaken;
    const bool moved = claimed && from.hand_over(carrier->batch, object, to, clock_->now());
    carrier->batch.held_.holds(Instant::max());
    from.end_batch(carrier->batch, claimed && !moved);
    from.release_fsync_batch(*carrier);
    if (moved) return Switched::kDone;
    if (claimed || taken == DirtyList::TakeOut::kInBatch) return Switched::kBusy;
  }
}

// Nothing dirty, no sync, and nobody lists here any more.
bool WritebackContext::drained_for_heir() {
  MutexLock guard(lock_);
  return counts_.objects() == 0 && active_batches_.load(std::memory_order_seq_cst) == 0 &&
         queued_sync_ == nullptr && running_sync_ == nullptr;
}

// What writers had accounted there and marked in the heir's context. Once nobody is about to take back there
// what he has just counted.
void WritebackEngine::inherit_counts(WritebackContext& context) {
  move_counts(context, *this->context(context.id()), context.counts_.total(), 0);
  look_for_waiters(context);
}

Result<void> WritebackEngine::retire_context(WritebackContext& context, WritebackContext& heir) {
  if (&context == &heir || &context.target_ != &heir.target_ || heir.heir() != nullptr ||
      context.heir() != nullptr) {
    return TW_FAIL(kInvalidArgument);
  }
  if (stopping()) return TW_FAIL(kShutDown);
  context.heir_.store(&heir, std::memory_order_seq_cst);
  context.list_->close();
  while (!context.drained_for_heir()) {
    if (stopping()) return TW_FAIL(kShutDown);
    OwnerSwitch all(context, heir);
    while (all.step()) {
    }
    if (context.drained_for_heir()) break;
    MutexLock guard(context.lock_);
    CondVar nobody;
    driver_->wait(context.lock_, nobody, kDrainPause);
  }
  context.retire();
  return {};
}

void WritebackEngine::forget_context(WritebackContext& context) {
  TW_ASSERT(context.heir() != nullptr, "a context is forgotten that was not retired");
  inherit_counts(context);
  {
    WriterLock guard(contexts_lock_);
    for (std::uint32_t i = 0; i < contexts_added_; ++i) {
      const WritebackContext* each = raw_context(static_cast<std::uint16_t>(i));
      TW_ASSERT(each == nullptr || each->heir() != &context, "an heir is forgotten before what it inherited");
    }
    contexts_[context.id()].store(nullptr, std::memory_order_release);
  }
  while (context.pins_.load(std::memory_order_acquire) != 0) yield_thread();
  delete &context;
}

Result<void> WritebackEngine::sync_all(WritebackTarget& target) {
  struct Part {
    WritebackContext* context;
    std::shared_ptr<SyncRun> run;
  };
  std::vector<Part> parts;
  {
    ReaderLock guard(contexts_lock_);
    for (std::uint32_t i = 0; i < contexts_added_; ++i) {
      WritebackContext* context = raw_context(static_cast<std::uint16_t>(i));
      if (context == nullptr || &context->target_ != &target) continue;
      context->pins_.fetch_add(1, std::memory_order_relaxed);
      parts.push_back({context, nullptr});
    }
  }
  // All are told before any begins: from then on nothing that is dirty changes owner before it is written.
  for (Part& part : parts) part.run = part.context->announce_sync();
  for (Part& part : parts) {
    if (part.run != nullptr) part.context->release_sync(*part.run);
  }
  Error first;
  for (Part& part : parts) {
    // Null: it is being removed or retired, and empty; or the engine stops.
    const Error error = part.run != nullptr ? part.context->await_written(*part.run) : Error{};
    if (first.code == Reason::kOk) first = error;
    part.context->pins_.fetch_sub(1, std::memory_order_release);
  }
  const Result<void> flushed = target.flush();
  if (stopping()) return TW_FAIL(kShutDown);
  if (first.code != Reason::kOk) return Unexpected(first);
  return flushed;
}

}  // namespace tidewheel
