#include "writeback/context.h"

#include <algorithm>
#include <utility>

#include "base/thread.h"
#include "writeback/driver.h"
#include "writeback/flusher.h"

namespace tidewheel {
namespace {

LockClass context_class("writeback-context", LockRank::kContext);

// A chunk as the engine's is to its limit, so that credit in shards is small beside the limit.
std::unique_ptr<DirtyAllowance> own_allowance(const EngineOptions& engine, const ContextOptions& own) {
  const bool none = own.dirty_bytes == ContextOptions::kNone && own.background_bytes == ContextOptions::kNone;
  if (none) return nullptr;
  const std::uint64_t limit = std::min<std::uint64_t>(own.dirty_bytes, INT64_MAX / 2);
  return std::make_unique<DirtyAllowance>(limit, std::min(engine.counter_chunk_bytes, limit / 2048));
}

}  // namespace

WritebackContext::WritebackContext(WritebackEngine& engine, WritebackTarget& target,
                                   const ContextOptions& options, std::uint16_t id,
                                   std::unique_ptr<DirtyList> list)
    : engine_(engine),
      target_(target),
      name_(options.name),
      id_(id),
      list_(std::move(list)),
      device_(options.device != nullptr
                  ? options.device
                  : std::make_shared<BackingDevice>(BackingDeviceOptions{.name = options.name})),
      dirty_limit_bytes_(options.dirty_bytes),
      background_bytes_(options.dirty_bytes == ContextOptions::kNone
                            ? options.background_bytes
                            : std::min(options.background_bytes, options.dirty_bytes / 2)),
      allowance_(own_allowance(engine.options(), options)),
      lock_(context_class) {
  // All the memory that writing needs is here before the first object is dirty.
  const EngineOptions& o = engine.options();
  const auto or_engine = [](std::uint32_t own, std::uint32_t engine_wide) {
    return own != 0 ? own : engine_wide;
  };
  batch_objects_ = or_engine(options.batch_objects, o.batch_objects);
  batch_bytes_ = options.batch_bytes != 0 ? options.batch_bytes : o.batch_bytes;
  if (options.batch_bytes == 0 && options.dirty_bytes != ContextOptions::kNone) {
    batch_bytes_ = std::min(batch_bytes_, default_batch_bytes(options.dirty_bytes));
  }
  const std::uint32_t flushers = or_engine(options.flushers, o.flushers);
  for (std::uint32_t f = 0; f < flushers; ++f) {
    std::vector<Batch*> own;
    for (std::uint32_t i = 0; i < or_engine(options.batches_in_flight, o.batches_in_flight); ++i) {
      auto batch = std::make_unique<Batch>();
      batch->reserve(batch_objects_);
      own.push_back(batch.get());
      batch_table_.push_back(batch.get());
      batches_.push_back(std::move(batch));
    }
    flushers_.push_back(std::make_unique<Flusher>(*this, f, std::move(own)));
  }
  MutexLock guard(lock_);
  for (std::uint32_t i = 0; i < kFsyncBatches; ++i) {
    auto fsync = std::make_unique<FsyncBatch>();
    fsync->batch.reserve(1);
    fsync->batch.on_complete_ = &WritebackContext::complete_fsync;
    fsync->batch.owner_ = fsync.get();
    batch_table_.push_back(&fsync->batch);
    free_fsync_.push_back(fsync.get());
    fsync_batches_.push_back(std::move(fsync));
  }
  for (std::size_t i = 0; i < batch_table_.size(); ++i) {
    batch_table_[i]->id_ = static_cast<std::uint16_t>(i);
    batch_table_[i]->context_ = this;
  }
  active_.assign(batch_table_.size(), false);
}

WritebackContext::~WritebackContext() {
  // A completion thread may still be between its last look at a batch and the end of complete().
  while (completing_.load(std::memory_order_acquire) != 0) yield_thread();
  for (const auto& flusher : flushers_) engine_.driver().forget(*flusher);
  device_->detach(counts_);
  TW_ASSERT(list_->listed() == 0, "a context is destroyed with dirty objects: sync or cancel them first");
}

void WritebackContext::arm() {
  if (armed_.exchange(true, std::memory_order_seq_cst)) return;
  for (const auto& flusher : flushers_) {
    flusher->ask_to_arm();
    engine_.driver().kick(*flusher);
  }
}

void WritebackContext::retire() {
  end_waits();
  {
    MutexLock guard(lock_);
    if (life_ != Life::kAlive) {
      while (life_ != Life::kRetired) engine_.driver().wait(lock_, caller_left_, Duration::max());
      return;
    }
    life_ = Life::kRetiring;
  }
  for (const auto& flusher : flushers_) engine_.driver().remove(*flusher);
  drop_running_sync();
  MutexLock guard(lock_);
  while (callers_ != 0) engine_.driver().wait(lock_, caller_left_, Duration::max());
  if (std::exchange(failing_, false)) engine_.set_failing(*this, {});
  life_ = Life::kRetired;
  caller_left_.notify_all();
}

void WritebackContext::kick() {
  for (const auto& flusher : flushers_) engine_.driver().kick(*flusher);
}

Instant WritebackContext::oldest_dirty() const {
  return list_->oldest_stamp([this] {
    Instant least = Instant::max();
    for (const Batch* batch : batch_table_) least = std::min(least, batch->held_.read());
    return least;
  });
}

std::uint64_t WritebackContext::own_excess_bytes() const {
  if (allowance_ == nullptr || background_bytes_ == ContextOptions::kNone) return 0;
  const std::int64_t excess = static_cast<std::int64_t>(counts_.dirty()) -
                              own_claimed_.load(std::memory_order_seq_cst) -
                              static_cast<std::int64_t>(background_bytes_);
  return excess > 0 ? static_cast<std::uint64_t>(excess) : 0;
}

bool WritebackContext::all_tried(std::uint64_t failures) const {
  if (retries_at_once_.load(std::memory_order_relaxed)) return failures >= 2 * counts_.objects();
  // In this order: what is claimed is in a batch that was active before, what comes back from it is listed
  // before it is inactive.
  return active_batches_.load(std::memory_order_seq_cst) == 0 && list_->oldest() == Instant::max() &&
         list_->oldest_lazy() == Instant::max() && active_batches_.load(std::memory_order_seq_cst) == 0;
}

void WritebackContext::raise_reclaim(std::uint64_t bytes) {
  std::uint64_t now = reclaim_bytes_.load(std::memory_order_relaxed);
  do {
    if (now >= bytes) return;  // asked for already, and the flushers know
  } while (!reclaim_bytes_.compare_exchange(now, bytes, std::memory_order_acq_rel));
  kick();
}

}  // namespace tidewheel
