// Transactions and durability: what callers of the log do.
#include "fs/log/log.h"

#include <algorithm>

#include "base/assert.h"
#include "base/clock.h"
#include "base/thread_state.h"

namespace tidewheel {
namespace {

LockClass log_class{"log", LockRank::kIclog};

// An image takes more in memory than in the log: its class, its place; a few bytes several times as many.
constexpr std::uint64_t kMemoryPerByte = 2;
// Of soft_memory_bytes, what images may take in all: twice in the open checkpoint, which is closed from once
// on; as much in the one being laid out; once in spare ones.
constexpr std::uint64_t kMemoryParts = 5;
// The log's most of the budget.
constexpr std::uint64_t kBudgetPart = 4;
constexpr std::uint64_t kLeastSoftMemory = 64 * 1024;
// Of the log buffers, those that a checkpoint fills for which a force does not wait for its turn: they are
// written beside the commit record that is under way.
constexpr std::uint64_t kEarlyClosePart = 2;
// Less is not worth to be counted: in a small log its space is the limit.
constexpr std::uint64_t kUsualSoftMemory = 1 << 20;

CilLimits limits(const LogPlace& place, const LogOptions& options) {
  const std::uint64_t log_bytes = std::uint64_t{place.sectors} * kLogSectorBytes;
  const std::uint64_t soft =
      options.soft_bytes != 0 ? options.soft_bytes : disk::soft_checkpoint_bytes(log_bytes);
  std::uint64_t memory = std::max(kMemoryPerByte * soft, kUsualSoftMemory);
  if (options.budget != nullptr) {
    const std::uint64_t most = options.budget->limit_bytes() / kBudgetPart / kMemoryParts;
    memory = std::min(memory, std::max(most, kLeastSoftMemory));
  }
  return {.soft_bytes = soft, .soft_memory_bytes = memory};
}

}  // namespace

Log::Log(BlockDevice& device, const LogPlace& place, const LogPosition& position, const LogOptions& options,
         LogShutdownListener& listener)
    : place_(place),
      options_(options),
      listener_(listener),
      reserve_head_(size_bytes()),
      write_head_(size_bytes()),
      tickets_(device),
      ring_(new IclogRing(device, tickets_, place, options.buffers, options.buffer_bytes, *this)),
      costs_{.payload_bytes = ring_->payload_bytes(), .header_bytes = ring_->header_bytes()},
      limits_(limits(place, options)),
      cil_(costs_, limits_, position.next_sequence),
      early_close_bytes_(options.buffers / kEarlyClosePart * std::uint64_t{costs_.payload_bytes}),
      memory_limit_(static_cast<std::int64_t>(kMemoryParts * limits_.soft_memory_bytes)),
      memory_step_(static_cast<std::int64_t>(limits_.soft_memory_bytes / 2)),
      memory_margin_(cil_.memory_error_bytes()),
      lock_(log_class),
      head_(position.head),
      previous_sector_(position.previous_sector),
      published_tail_(position.tail),
      stable_sequence_(position.next_sequence - 1),
      closed_sequence_(position.next_sequence - 1) {
  const std::uint64_t used = log_distance_bytes(position.tail, position.head, place.sectors) + kOwnBytes;
  reserve_head_.take_unchecked(used);
  write_head_.take_unchecked(used);
  if (options.budget == nullptr) memory_charged_.store(memory_limit_, std::memory_order_relaxed);
}

Log::~Log() {
  stop();
  ring_.reset();
  TW_ASSERT(reserve_granted_bytes() == 0 && write_granted_bytes() == 0, "the log ends with tickets out");
  if (options_.budget != nullptr) {
    options_.budget->uncharge(MemoryKind::kLog, static_cast<std::uint64_t>(memory_charged_bytes()));
  }
}

void Log::start(Ail& ail) {
  TW_ASSERT(ail_ == nullptr, "a log is started twice");
  ail_ = &ail;
  Lsn tail;
  {
    MutexLock hold(lock_);
    tail = published_tail_;
  }
  ail.checkpoint_stable(tail);
  thread_ = Thread("log-worker", [this] { run_worker(); });
}

// ---- transactions ----

Result<LogTicket> Log::reserve(std::uint32_t payload_bytes, std::uint32_t units, bool rolls) {
  TW_DASSERT(!this_thread_state().frees_log_space, "a thread that frees log space waits for log space");
  const std::uint64_t unit = costs_.most_bytes(payload_bytes);
  if (unit > UINT32_MAX) return TW_FAIL(kNoSpace);  // what a ticket can say
  const std::uint64_t all = unit * std::max(units, 1U);
  // A checkpoint of this size beside the one before it, which is on its way home, must fit.
  if (all > size_bytes() / 2) return TW_FAIL(kNoSpace);
  if (unmounted_.load(std::memory_order_acquire) || is_shut_down()) return TW_FAIL(kShutDown);
  if (!memory_admits()) TW_TRY(wait_for_memory());
  TW_TRY(reserve_head_.take(all, *this));
  write_head_.take_unchecked(all);
  return LogTicket{.unit_bytes = static_cast<std::uint32_t>(unit),
                   .units_left = std::max(units, 1U) - 1,
                   .available_bytes = static_cast<std::int64_t>(unit),
                   .rolls = rolls};
}

std::uint64_t Log::commit(std::span<LogItem* const> items, LogTicket& ticket) {
  TW_ASSERT(!ticket.must_regrant, "a transaction commits without log space");
  const Cil::Committed committed = cil_.commit(items, ticket);
  // A dead log's worker must hear of what comes after it looked last.
  if (committed.fill == Cil::Fill::kLow && !is_shut_down()) return committed.sequence;
  MutexLock hold(lock_);
  want_locked(committed.sequence);
  if (committed.fill == Cil::Fill::kHard) {
    if (closed_sequence_ < committed.sequence) ++throttled_;
    // For the switch, not for the checkpoint to shrink: that has been asked for, and will come.
    while (closed_sequence_ < committed.sequence && !is_shut_down()) changed_.wait(lock_);
  }
  return committed.sequence;
}

void Log::give_back(std::int64_t bytes) {
  TW_ASSERT(bytes >= 0, "log space of less than nothing is given back");
  reserve_head_.give_back(static_cast<std::uint64_t>(bytes));
  write_head_.give_back(static_cast<std::uint64_t>(bytes));
}

Result<void> Log::roll(LogTicket& ticket) {
  TW_ASSERT(ticket.rolls, "a transaction rolls that was not reserved for it");
  give_back(ticket.available_bytes);
  ticket.available_bytes = 0;
  if (ticket.units_left != 0) {
    --ticket.units_left;
  } else {
    reserve_head_.take_unchecked(ticket.unit_bytes);
    ticket.must_regrant = true;
    TW_TRY(write_head_.take(ticket.unit_bytes, *this));
    ticket.must_regrant = false;
  }
  ticket.available_bytes = ticket.unit_bytes;
  return {};
}

void Log::end(LogTicket& ticket) {
  if (ticket.must_regrant) reserve_head_.give_back(ticket.unit_bytes);
  give_back(ticket.available_bytes + std::int64_t{ticket.units_left} * ticket.unit_bytes);
  ticket = {};
  // What it has logged lies in the open checkpoint now: who still waits may need that to be written.
  if (reserve_head_.has_waiters() || write_head_.has_waiters()) space_wanted();
}

// ---- durability ----

void Log::want_locked(std::uint64_t sequence) {
  if (wanted_sequence_ >= sequence) return;
  wanted_sequence_ = sequence;
  worker_.notify_one();
}

// No earlier than its commit record can be submitted: what is committed and forced until then shares it.
void Log::want_forced_locked(std::uint64_t sequence) {
  if (forced_sequence_ >= sequence) return;
  forced_sequence_ = sequence;
  worker_.notify_one();
}

Result<void> Log::force(std::uint64_t sequence) {
  if (sequence == 0) return {};
  TW_ASSERT(sequence <= cil_.last_used_sequence(), "a force of a sequence that no commit has answered");
  forces_.fetch_add(1, std::memory_order_relaxed);
  MutexLock hold(lock_);
  // One comparison answers for checkpoints that are open, being closed, in flight, and long gone.
  while (stable_sequence_ < sequence) {
    if (is_shut_down()) return TW_FAIL(kShutDown);
    want_forced_locked(sequence);
    changed_.wait(lock_);
  }
  return {};
}

void Log::force(ForceMode mode) {
  const std::uint64_t sequence = cil_.last_used_sequence();
  if (mode == ForceMode::kWait) {
    static_cast<void>(force(sequence));  // a dead log has nothing more to wait for
    return;
  }
  forces_.fetch_add(1, std::memory_order_relaxed);
  MutexLock hold(lock_);
  want_forced_locked(sequence);
}

std::uint64_t Log::stable_sequence() const {
  MutexLock hold(lock_);
  return stable_sequence_;
}

// ---- life ----

Result<void> Log::unmount() {
  TW_ASSERT(cil_.last_used_sequence() == stable_sequence(), "a log is unmounted before it was forced");
  TW_ASSERT(ail_->empty(), "a log is unmounted before everything is at home");
  unmounted_.store(true, std::memory_order_release);
  MutexLock hold(lock_);
  unmount_wanted_ = true;
  worker_.notify_one();
  while (!unmount_stable_ && !is_shut_down()) changed_.wait(lock_);
  if (!unmount_stable_) return TW_FAIL(kShutDown);
  return {};
}

void Log::shut_down(Error error) {
  bool was_dead = false;
  // compare_exchange: of many who find an error one tells.
  if (!dead_.compare_exchange(was_dead, true, std::memory_order_acq_rel)) return;
  reserve_head_.shut_down();
  write_head_.shut_down();
  ring_->fail();
  {
    MutexLock hold(lock_);
    changed_.notify_all();
    worker_.notify_one();
  }
  listener_.log_shut_down(error);
  MutexLock hold(lock_);
  told_ = true;
  changed_.notify_all();
}

void Log::stop() {
  if (!thread_.joinable()) return;
  {
    MutexLock hold(lock_);
    stopping_ = true;
    worker_.notify_one();
  }
  thread_.join();
  ring_->wait_idle();
}

// ---- where it stands ----

Lsn Log::published_tail() const {
  MutexLock hold(lock_);
  return published_tail_;
}

Lsn Log::head() const {
  MutexLock hold(lock_);
  return head_;
}

std::int64_t Log::granted_bytes(const GrantHead& grants) const {
  MutexLock hold(lock_);
  const std::uint64_t in_use = log_distance_bytes(published_tail_, head_, place_.sectors);
  return grants.used_bytes() - kOwnBytes - static_cast<std::int64_t>(in_use);
}

std::int64_t Log::reserve_granted_bytes() const { return granted_bytes(reserve_head_); }
std::int64_t Log::write_granted_bytes() const { return granted_bytes(write_head_); }

LogStats Log::stats() const {
  LogStats stats;
  stats.cil = cil_.stats();
  stats.buffers = ring_->stats();
  stats.flushes = tickets_.stats();
  stats.forces = forces_.load(std::memory_order_relaxed);
  stats.waits_for_space = reserve_head_.waits() + write_head_.waits();
  MutexLock hold(lock_);
  stats.checkpoints = checkpoints_;
  stats.aborted_checkpoints = aborted_;
  stats.tail_records = tail_records_;
  stats.throttled = throttled_;
  stats.waits_for_memory = waits_for_memory_;
  return stats;
}

}  // namespace tidewheel
