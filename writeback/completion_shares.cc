#include "writeback/completion_shares.h"

#include <algorithm>

namespace tidewheel {
namespace {

LockClass shares_class("completion-shares", LockRank::kStatistics);

std::uint64_t halved(std::uint64_t n, std::uint64_t times) { return times >= 64 ? 0 : n >> times; }

}  // namespace

CompletionShares::CompletionShares() : lock_(shares_class) {}

void CompletionShares::join(Part& part) {
  MutexLock guard(lock_);
  ++parts_;
  part = {0, period_};
}

void CompletionShares::leave(Part& part) {
  MutexLock guard(lock_);
  --parts_;
  age(part);
  bytes_ -= std::min(bytes_, part.bytes);
}

void CompletionShares::age(Instant now) {
  // (A clock that was set back begins a period anew.)
  if (period_began_ == Instant::min() || now < period_began_) {
    period_began_ = now;
    return;
  }
  const auto passed = static_cast<std::uint64_t>((now - period_began_).ns / kPeriod.ns);
  if (passed == 0) return;
  period_began_ = period_began_ + kPeriod * static_cast<std::int64_t>(passed);
  // Only the period that ends now can have seen anything: the others were idle.
  if (!wrote_) return;
  wrote_ = false;
  bytes_ = halved(bytes_, 1);
  ++period_;
}

void CompletionShares::age(Part& part) {
  part.bytes = halved(part.bytes, period_ - part.period);
  part.period = period_;
}

void CompletionShares::add(Part& part, std::uint64_t bytes, Instant now) {
  MutexLock guard(lock_);
  age(now);
  age(part);
  part.bytes += bytes;
  bytes_ += bytes;
  wrote_ = wrote_ || bytes != 0;
}

std::uint64_t CompletionShares::share(Part& part, Instant now) {
  MutexLock guard(lock_);
  age(now);
  age(part);
  if (bytes_ == 0) return kWhole / std::max(parts_, 1U);
  const auto share = static_cast<std::uint64_t>((static_cast<unsigned __int128>(part.bytes) << 16) / bytes_);
  return std::min(share, kWhole);
}

}  // namespace tidewheel
