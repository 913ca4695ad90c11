#include "writeback/backing_device.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace tidewheel {
namespace {

LockClass device_class("backing-device", LockRank::kCompletion);

using Wide = unsigned __int128;

std::uint64_t part_of(std::uint64_t n, std::uint64_t millionths) {
  return static_cast<std::uint64_t>(Wide{n} * millionths / BackingDevice::kWholePart);
}

}  // namespace

std::uint64_t share_of_threshold(std::uint64_t threshold, std::uint64_t share,
                                 const BackingDeviceOptions& options, std::uint32_t least_parts) {
  const std::uint64_t rest = part_of(threshold, BackingDevice::kWholePart - least_parts);
  const auto floating = static_cast<std::uint64_t>(Wide{rest} * share / CompletionShares::kWhole);
  return std::min(floating + part_of(threshold, options.least_part), part_of(threshold, options.most_part));
}

BackingDevice::BackingDevice(BackingDeviceOptions options)
    : options_(std::move(options)), lock_(device_class) {}

BackingDevice::~BackingDevice() {
  MutexLock guard(lock_);
  TW_ASSERT(counts_.empty(), "a backing device ends before its contexts");
}

bool BackingDevice::attach(const ByteCounts& counts, Domain& domain) {
  MutexLock guard(lock_);
  if (domain_ != nullptr && domain_ != &domain) return false;
  if (domain_ == nullptr) {
    std::uint32_t parts = domain.least_parts.load(std::memory_order_relaxed);
    do {
      if (options_.least_part >= kWholePart - parts || options_.most_part > kWholePart) return false;
    } while (!domain.least_parts.compare_exchange(parts, parts + options_.least_part,
                                                  std::memory_order_relaxed));
    domain_ = &domain;
    domain.shares.join(part_);
  }
  counts_.push_back(&counts);
  return true;
}

void BackingDevice::detach(const ByteCounts& counts) {
  MutexLock guard(lock_);
  std::erase(counts_, &counts);
  if (!counts_.empty() || domain_ == nullptr) return;
  domain_->shares.leave(part_);
  domain_->least_parts.fetch_sub(options_.least_part, std::memory_order_relaxed);
  domain_ = nullptr;
  sampled_at_ = Instant::min();
  rated_at_ = Instant::min();
}

BandwidthEstimate BackingDevice::estimate() const {
  MutexLock guard(lock_);
  return estimate_;
}

std::uint64_t BackingDevice::dirty_locked() const {
  std::uint64_t bytes = 0;
  for (const ByteCounts* counts : counts_) bytes += counts->total();
  return bytes;
}

void BackingDevice::begin_sample_locked(Instant now) {
  sampled_at_ = now;
  sampled_written_ = written_bytes();
}

void BackingDevice::batch_started(Instant now) {
  MutexLock guard(lock_);
  if (batches_++ != 0) return;
  moved_at_ = now;
  const bool never = sampled_at_ == Instant::min();
  if (never || now < sampled_at_ || now - sampled_at_ > BandwidthEstimate::kIdle) begin_sample_locked(now);
}

void BackingDevice::batch_ended(const Update& update) {
  MutexLock guard(lock_);
  --batches_;
  moved_at_ = update.now;
  const std::uint64_t written = written_bytes();
  if (domain_ != nullptr) domain_->shares.add(part_, written - shared_written_, update.now);
  shared_written_ = written;
  update_locked(update);
}

// Sampled by writers alone: while none is held to the rates, what they dirty says nothing about them.
void BackingDevice::update_rates_locked(const Update& update) {
  const std::uint64_t written = written_bytes();
  // All that was ever dirtied is what is dirty now and what has been written or dropped.
  const std::uint64_t dirtied = dirty_locked() + written;
  const bool never = rated_at_ == Instant::min() || update.now < rated_at_;
  const Duration elapsed = never ? Duration::max() : update.now - rated_at_;
  if (elapsed < BandwidthEstimate::kSampling) return;
  if (elapsed <= BandwidthEstimate::kIdle) {
    RateSample sample;
    sample.elapsed = elapsed;
    sample.written_bytes = written - rated_written_;
    // What was cancelled meanwhile was never dirtied.
    sample.dirtied_bytes = dirtied > rated_dirtied_ ? dirtied - rated_dirtied_ : 0;
    estimate_.rates = update.next_rates(update.asker, look_locked(update.now, update.limits), sample);
  }
  rated_at_ = update.now;
  rated_written_ = written;
  rated_dirtied_ = dirtied;
}

void BackingDevice::update_locked(const Update& update) {
  if (update.next_rates != nullptr) update_rates_locked(update);
  if (sampled_at_ == Instant::min() || update.now < sampled_at_) return begin_sample_locked(update.now);
  RateSample sample;
  sample.elapsed = update.now - sampled_at_;
  if (sample.elapsed < BandwidthEstimate::kSampling) return;
  if (batches_ == 0 && sample.elapsed > BandwidthEstimate::kIdle) return begin_sample_locked(update.now);
  const std::uint64_t written = written_bytes();
  sample.written_bytes = written - sampled_written_;
  sampled_at_ = update.now;
  sampled_written_ = written;
  estimate_ = update_bandwidth(estimate_, sample);
}

ThrottleDevice BackingDevice::look_locked(Instant now, const ThrottleLimits& limits) const {
  ThrottleDevice seen;
  seen.estimate = estimate_;
  seen.dirty_bytes = dirty_locked();
  const std::uint64_t share =
      domain_ == nullptr ? CompletionShares::kWhole : domain_->shares.share(part_, now);
  const std::uint32_t least =
      domain_ == nullptr ? 0 : domain_->least_parts.load(std::memory_order_relaxed);
  seen.dirty_limit_bytes = share_of_threshold(limits.dirty_limit_bytes, share, options_, least);
  seen.background_bytes = share_of_threshold(limits.background_bytes, share, options_, least);
  seen.strict_limit = options_.strict_limit;
  if (batches_ != 0 && now > moved_at_) seen.stalled_for = now - moved_at_;
  return seen;
}

ThrottleDevice BackingDevice::look(const Update& update) {
  MutexLock guard(lock_);
  update_locked(update);
  return look_locked(update.now, update.limits);
}

ThrottleDevice BackingDevice::look(Instant now, const ThrottleLimits& limits) const {
  MutexLock guard(lock_);
  return look_locked(now, limits);
}

}  // namespace tidewheel
