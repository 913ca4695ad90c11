#include "writeback/flusher.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/trace.h"
#include "writeback/context.h"
#include "writeback/driver.h"
#include "writeback/engine.h"

namespace tidewheel {
namespace {

// Something of it was written, and what was not is as old.
bool left_a_part(Batch& batch) {
  return std::any_of(batch.slots().begin(), batch.slots().end(),
                     [](const WriteSlot& slot) { return slot.outcome == WriteOutcome::kPartial; });
}

// Timestamps of this moment and before have their maximum age.
Instant lazy_before(Duration expire, Instant now) {
  if (expire.ns <= 0 || now.ns < INT64_MIN + expire.ns) return Instant::min();
  return now - expire;
}

}  // namespace

Flusher::Flusher(WritebackContext& context, std::uint32_t index, std::vector<Batch*> batches)
    : context_(context),
      engine_(context.engine()),
      index_(index),
      schedule_(engine_.options().expire, engine_.options().interval, context.batch_bytes_),
      free_batches_(std::move(batches)),
      policy_(&engine_.work_policy_in_force()) {
  for (Batch* batch : free_batches_) {
    batch->on_complete_ = &Flusher::complete;
    batch->owner_ = this;
  }
}

Flusher::~Flusher() { TW_ASSERT(in_flight_ == 0, "a flusher ends with batches in flight"); }

// ---- completions ----

void Flusher::complete(Batch& batch) {
  auto& flusher = *static_cast<Flusher*>(batch.owner_);
  WritebackContext& context = flusher.context_;
  context.completing_.fetch_add(1, std::memory_order_acq_rel);
  Batch* head = flusher.completed_.load(std::memory_order_relaxed);
  do {
    batch.next_ = head;
  } while (!flusher.completed_.compare_exchange(head, &batch, std::memory_order_acq_rel));
  context.engine().driver().kick(flusher);
  // The last touch, as in complete_fsync().
  context.completing_.fetch_sub(1, std::memory_order_acq_rel);
}

bool Flusher::reap(Instant now) {
  Batch* newest_first = completed_.exchange(nullptr, std::memory_order_acq_rel);
  if (newest_first == nullptr) return false;
  Batch* oldest_first = nullptr;
  while (newest_first != nullptr) {
    Batch* next = newest_first->next_;
    newest_first->next_ = oldest_first;
    oldest_first = newest_first;
    newest_first = next;
  }
  while (oldest_first != nullptr) {
    Batch& batch = *oldest_first;
    oldest_first = batch.next_;
    const bool moved_on = context_.finish_batch(batch, now);
    if (moved_on) {
      schedule_.wrote();
    } else if (batch.kind_ != WorkKind::kSync) {
      schedule_.met_only_busy(now);
    }
    // The tick may have found its list empty while this part was written.
    if (batch.kind_ == WorkKind::kPeriodic && left_a_part(batch)) schedule_.goes_on_periodic();
    free_batches_.push_back(&batch);
    --in_flight_;
  }
  background_starved_ = false;  // something may have come back
  return true;
}

// ---- a step ----

Flusher::Step Flusher::step(Instant now) {
  wakeups_.fetch_add(1, std::memory_order_relaxed);
  // One thread's readings of a clock that goes on never fall.
  engine_.note_reading(now, std::exchange(last_step_, now));
  if (arm_asked_.exchange(false, std::memory_order_seq_cst)) {
    schedule_.arm(now);
    background_starved_ = false;
  }
  if (tick_asked_.exchange(false, std::memory_order_seq_cst)) schedule_.tick_at_once(now);
  const bool reaped = reap(now);
  if (closed_.load(std::memory_order_seq_cst)) {
    selection_.reset();
    return {false, Instant::max(), in_flight_ == 0};
  }
  if (free_batches_.empty()) return {reaped, Instant::max(), false};

  const WorkSignals seen = signals(now);
  const WorkDecision decision = schedule_.next_work(seen);
  if (!decision.work) {
    selection_.reset();
    if (reaped) return {true, {}, false};
    return fall_asleep(now, decision.wake_at, seen);
  }
  write_batch_of(decision.kind, now);
  return {true, {}, false};
}

// What the work policy in force says. Answers when to drain, max() aside.
Instant Flusher::ask_policy(WorkSignals& s) {
  const WorkPolicy& policy = engine_.work_policy_in_force();
  WorkFacts facts{.now = s.now,
                  .expire = engine_.options().expire,
                  .interval = engine_.options().interval,
                  .writers_held = engine_.throttled_.load(std::memory_order_relaxed) != 0};
  const std::int64_t activity_ns = context_.device_->last_activity_ns.load(std::memory_order_seq_cst);
  activity_seen_ns_ = activity_ns;
  if (policy.watches_activity()) facts.last_activity = Instant{activity_ns};
  const WorkRules rules = policy.rules(facts);
  schedule_.set_ages(rules.expire, rules.interval);
  if (policy_ != &policy) {  // where there were no ticks before, there may be something for them
    policy_ = &policy;
    schedule_.arm(s.now);
  }
  s.background_may_start = rules.background || facts.writers_held;
  std::int64_t drained_ns = context_.drained_activity_ns_.load(std::memory_order_seq_cst);
  if (rules.drain_at == Instant::max() || drained_ns == activity_ns) return Instant::max();
  if (s.now < rules.drain_at) return rules.drain_at;
  const bool mine =
      context_.drained_activity_ns_.compare_exchange(drained_ns, activity_ns, std::memory_order_seq_cst);
  if (mine && s.now - rules.drain_at <= kDrainStale && context_.counts().objects() != 0) {
    context_.begin_drain();
  }
  return Instant::max();
}

WorkSignals Flusher::signals(Instant now) {
  WorkSignals s;
  s.now = now;
  s.drain_at = ask_policy(s);
  s.sync_ready = context_.sync_ready(*this, now, s.sync_retry_at);
  if (s.sync_ready) return s;
  s.reclaim_bytes = context_.reclaim_bytes_.load(std::memory_order_acquire);
  s.background_excess_bytes = std::max(engine_.background_excess_bytes(), context_.own_excess_bytes());
  s.writers_wait = engine_.anybody_before(context_);
  s.background_starved = background_starved_;
  s.next_retry = context_.list_->next_retry();
  s.next_lazy = context_.list_->next_lazy();
  return s;
}

SelectionRequest Flusher::request(WorkKind kind, Instant now) const {
  SelectionRequest r;
  r.kind = kind;
  r.now = now;
  r.dirtied_before = kind == WorkKind::kPeriodic ? schedule_.dirtied_before(now) : Instant::max();
  r.lazy_before = lazy_before(engine_.options().lazytime_expire, now);
  r.flusher = index_;
  r.flushers = static_cast<std::uint32_t>(context_.flushers().size());
  return r;
}

// One batch of this kind of work. False: there was nothing to claim.
bool Flusher::write_batch_of(WorkKind kind, Instant now) {
  Selection* selection = nullptr;
  std::uint64_t came_back_before = 0;
  if (kind == WorkKind::kSync) {
    came_back_before = context_.came_back();
    selection = context_.sync_selection();
  } else {
    if (selection_ != nullptr && selection_kind_ != kind) selection_.reset();
    if (selection_ == nullptr) {
      if (kind == WorkKind::kPeriodic) schedule_.began_periodic(now);
      selection_ = context_.list_->select(request(kind, now));
      TW_TRACE(writeback_queue, context_.id(), static_cast<std::uint64_t>(kind), engine_.dirty_bytes());
      selection_kind_ = kind;
      selection_found_ = false;
      context_.works_.fetch_add(1, std::memory_order_relaxed);
    }
    selection = selection_.get();
  }

  std::uint64_t limit_bytes = UINT64_MAX;
  std::uint64_t claimed_excess = 0;
  if (kind == WorkKind::kBackground) {
    // Never more than one batch: what this one leaves, other flushers can take.
    limit_bytes = context_.batch_bytes_ +
                  context_.batch_objects_ * engine_.options().object_overhead_bytes;
    // False: another flusher has claimed the excess.
    if (!engine_.claim_background(context_, limit_bytes)) return true;
    claimed_excess = limit_bytes;
  } else if (kind == WorkKind::kReclaim) {
    reclaim_seen_ = context_.reclaim_bytes_.load(std::memory_order_acquire);
    limit_bytes = std::max<std::uint64_t>(1, reclaim_seen_);
  }

  Batch& batch = *free_batches_.back();
  free_batches_.pop_back();
  context_.begin_batch(batch, kind);
  const bool more = gather(batch, *selection, limit_bytes, now);
  if (batch.slots_.empty()) {
    context_.end_batch(batch, false);
    free_batches_.push_back(&batch);
    if (claimed_excess != 0) engine_.unclaim_background(context_, claimed_excess);
    if (kind == WorkKind::kSync) {
      context_.sync_found_nothing(*this, came_back_before);
    } else {
      end_work(now, !selection_found_);
    }
    return false;
  }

  selection_found_ = selection_found_ || kind != WorkKind::kSync;
  TW_TRACE(writeback_queue_io, context_.id(),
           static_cast<std::uint64_t>(request(kind, now).dirtied_before.ns), batch.slots_.size(),
           static_cast<std::uint64_t>(kind));
  std::sort(batch.slots_.begin(), batch.slots_.end(),
            [](const WriteSlot& a, const WriteSlot& b) { return a.sort_key < b.sort_key; });
  const std::uint64_t bytes = batch.bytes_;
  const std::uint64_t objects = batch.slots_.size();
  ++in_flight_;
  context_.submit_batch(batch, now);  // complete() may have come: the batch is no longer ours to look at
  if (claimed_excess != 0) {
    engine_.unclaim_background(context_, claimed_excess);
    schedule_.wrote_background(now);
  }
  mean_object_bytes_ = bytes / objects;
  if (kind == WorkKind::kReclaim) {
    std::uint64_t left = context_.reclaim_bytes_.load(std::memory_order_acquire);
    while (!context_.reclaim_bytes_.compare_exchange(left, left > bytes ? left - bytes : 0,
                                                     std::memory_order_acq_rel)) {
    }
    if (left <= bytes) selection_.reset();
  } else if (kind == WorkKind::kPeriodic && !more) {
    end_work(now, false);
  }
  return true;
}

// Fills the batch up to its bounds; one object alone may exceed the bytes. False: the selection is empty.
bool Flusher::gather(Batch& batch, Selection& selection, std::uint64_t limit_bytes, Instant now) {
  const EngineOptions& o = engine_.options();
  const std::uint64_t batch_bytes = context_.batch_bytes_;
  const bool whole = batch.kind_ == WorkKind::kSync;
  std::array<DirtyObject*, kClaimAtOnce> claimed{};
  std::uint64_t charged = 0;  // data and overhead, as the thresholds count
  std::uint64_t mean = mean_object_bytes_;
  Instant least = Instant::max();  // of what is in the batch
  while (batch.slots_.size() < context_.batch_objects_ && batch.bytes_ < batch_bytes &&
         charged < limit_bytes) {
    // About as many as there is room for: what is claimed beyond goes back under the shard lock.
    const std::uint64_t mean_charge = std::max<std::uint64_t>(mean + o.object_overhead_bytes, 1);
    const std::uint64_t by_limit =
        std::min<std::uint64_t>((limit_bytes - charged) / mean_charge, kClaimAtOnce) + 1;
    const std::uint64_t by_bytes = mean == 0 ? kClaimAtOnce : (batch_bytes - batch.bytes_) / mean + 1;
    const std::uint64_t room = context_.batch_objects_ - batch.slots_.size();
    const auto want =
        static_cast<std::size_t>(std::min<std::uint64_t>({kClaimAtOnce, by_limit, by_bytes, room}));
    batch.held_.changing();
    const std::size_t got = selection.claim(std::span(claimed.data(), want));
    Instant least_claimed = least;
    for (std::size_t i = 0; i < got; ++i) {
      least_claimed = std::min(least_claimed, claimed[i]->dirtied_when());
    }
    batch.held_.holds(least_claimed);
    if (got == 0) return false;
    for (std::size_t i = 0; i < got; ++i) {
      DirtyObject& object = *claimed[i];
      const WriteEstimate estimate = context_.target_.estimate(object);
      // A large object gets a slice of one batch and comes again: it takes turns with the small ones.
      const std::uint64_t slice = whole ? UINT64_MAX : batch_bytes;
      const std::uint64_t bytes = std::min(estimate.bytes, slice);
      const std::uint64_t charge = bytes + o.object_overhead_bytes;
      if (!batch.slots_.empty() && (bytes > batch_bytes - std::min(batch_bytes, batch.bytes_) ||
                                    charge > limit_bytes - std::min(limit_bytes, charged))) {
        // From the back, so that the oldest ends up in front.
        batch.held_.changing();
        for (std::size_t j = got; j-- > i;) context_.put_back(batch, *claimed[j], now);
        batch.held_.holds(least);
        return true;
      }
      WriteSlot slot;
      slot.object = &object;
      slot.sort_key = estimate.sort_key;
      slot.bytes = estimate.bytes;
      slot.limit_bytes = slice;
      batch.slots_.push_back(slot);
      least = std::min(least, object.dirtied_when());
      batch.bytes_ += bytes;
      charged += charge;
    }
    mean = batch.bytes_ / batch.slots_.size();
  }
  return true;
}

void Flusher::end_work(Instant now, bool found_nothing) {
  switch (selection_kind_) {
    case WorkKind::kPeriodic:
      schedule_.ended_periodic(now, found_nothing);
      may_disarm_ = true;
      break;
    case WorkKind::kReclaim:
      // All there was has been written: no promise to write what comes later. A request that was raised
      // meanwhile stands.
      context_.reclaim_bytes_.compare_exchange(reclaim_seen_, 0, std::memory_order_acq_rel);
      break;
    case WorkKind::kBackground:
      if (found_nothing && !background_starved_) {
        background_starved_ = true;
        // The excess may lie in other contexts, whose flushers left it to this one.
        engine_.driver().kick_all();
      }
      break;
    case WorkKind::kSync:
    case WorkKind::kFsync:
      break;
  }
  selection_.reset();
}

// Nothing to do at `now`. Looks once more after it has said so to those who could make that untrue.
Flusher::Step Flusher::fall_asleep(Instant now, Instant wake_at, const WorkSignals& seen) {
  DirtyList& list = *context_.list_;
  // Background: writers look at background_armed_ after they have counted. (An excess that was seen and not
  // worked on is plugged, and wake_at allows for it, or starved.)
  if (seen.background_excess_bytes == 0) {
    engine_.background_armed_.store(0, std::memory_order_seq_cst);
    context_.own_background_armed_.store(0, std::memory_order_seq_cst);
    const bool engine_wide = engine_.background_excess_bytes() != 0;
    if (engine_wide || context_.own_excess_bytes() != 0) {
      (engine_wide ? engine_.background_armed_ : context_.own_background_armed_)
          .store(1, std::memory_order_seq_cst);
      return {true, {}, false};
    }
  }
  // Activity: who notes it looks at activity_armed_ afterwards.
  if (seen.drain_at == Instant::max() && engine_.work_policy_in_force().watches_activity()) {
    engine_.activity_armed_.store(false, std::memory_order_seq_cst);
    if (context_.device_->last_activity_ns.load(std::memory_order_seq_cst) != activity_seen_ns_) {
      return {true, {}, false};
    }
  }
  // Listings: writers look at armed_ after they have listed.
  const bool disarm = may_disarm_ && schedule_.armed() && list.oldest() == Instant::max();
  may_disarm_ = false;
  if (disarm || background_starved_) {
    const bool armed = context_.armed_.exchange(false, std::memory_order_seq_cst);
    if (list.any_listed(index_, static_cast<std::uint32_t>(context_.flushers().size()))) {
      // Also when it is there but not to be had (another flusher's sync has it): look again, not at once.
      // Without a word to the others: two that tell each other would look for ever. Where it was set, who
      // set it has told all of them since they cleared it; else who lists next tells them.
      background_starved_ = false;
      schedule_.arm(now);
      if (armed) context_.armed_.store(true, std::memory_order_seq_cst);
      return {false, std::min(wake_at, now + kStarvedPause), false};
    }
    if (disarm) {
      schedule_.disarm();
      return {true, {}, false};  // without the tick there is another moment to wake at
    }
  }
  if (timestamps_came(seen)) return {false, std::min(wake_at, now + kStarvedPause), false};
  return {false, wake_at, false};
}

// Timestamps: writers look at lazy_armed_ after they have listed some. It is given up where there seem to be
// none, or background work has found nothing; elsewhere wake_at allows for the oldest, and others come later.
bool Flusher::timestamps_came(const WorkSignals& seen) {
  const bool due_some_day = seen.next_lazy != Instant::max() || engine_.options().lazytime_expire.ns == 0;
  if (due_some_day && !background_starved_) return false;
  const bool armed = context_.lazy_armed_.exchange(false, std::memory_order_seq_cst);
  if (!armed && !background_starved_) return false;
  if (!context_.list_->any_lazy()) return false;
  if (armed) {
    context_.lazy_armed_.store(true, std::memory_order_seq_cst);  // as above
    // One who has looked at it meanwhile has no timer for them; nor has this one, if it is starved.
    if (!background_starved_) context_.kick();
  }
  background_starved_ = false;
  return true;
}

}  // namespace tidewheel
