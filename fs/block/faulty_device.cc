#include "fs/block/faulty_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/rng.h"

namespace tidewheel {

namespace {

LockClass faulty_class("faulty-device", LockRank::kDevice);

}  // namespace

FaultyDevice::FaultyDevice(std::unique_ptr<BlockDevice> beneath)
    : beneath_(std::move(beneath)), name_("faulty " + std::string(beneath_->name())), lock_(faulty_class) {}

FaultyDevice::~FaultyDevice() { TW_ASSERT(stalled() == 0, "a device ends with requests held back"); }

void FaultyDevice::add(FaultRule rule) {
  MutexLock lock(lock_);
  rules_.push_back({rule, 0});
}

void FaultyDevice::clear_rules() {
  MutexLock lock(lock_);
  rules_.clear();
}

std::size_t FaultyDevice::stalled() const {
  MutexLock lock(lock_);
  return stalled_.size();
}

void FaultyDevice::wait_stalled(std::size_t n) {
  MutexLock lock(lock_);
  while (stalled_.size() < n) held_.wait(lock_);
}

std::size_t FaultyDevice::release_stalled() {
  std::vector<IoRequest*> held;
  {
    MutexLock lock(lock_);
    held.swap(stalled_);
  }
  for (IoRequest* request : held) beneath_->submit(*request);
  return held.size();
}

std::uint64_t FaultyDevice::injected() const {
  MutexLock lock(lock_);
  return injected_;
}

void FaultyDevice::submit(IoRequest& request) {
  bool hit = false;
  FaultEffect effect = FaultEffect::kIoError;
  std::uint64_t seed = 0;
  {
    MutexLock lock(lock_);
    for (Armed& armed : rules_) {
      if (armed.rule.op != request.op) continue;
      const std::uint64_t n = armed.seen++;
      // The first rule that applies decides; all of them count the request.
      if (!hit && n >= armed.rule.first && n - armed.rule.first < armed.rule.count) {
        hit = true;
        effect = armed.rule.effect;
        seed = armed.rule.seed + n;
      }
    }
    if (hit && effect == FaultEffect::kStall) {
      stalled_.push_back(&request);
      held_.notify_all();
      return;
    }
    if (hit && effect != FaultEffect::kDropped && effect != FaultEffect::kLoseUnflushed) ++injected_;
  }
  if (!hit) return beneath_->submit(request);
  if (effect == FaultEffect::kLoseUnflushed) {
    const Result<void> lost = beneath_->lose_unflushed();
    if (!lost) return request.done(request, lost);
    return beneath_->submit(request);
  }
  const bool partly = effect == FaultEffect::kShort || effect == FaultEffect::kTorn;
  if (partly && request.op == IoOp::kWrite && check(request)) return store_part(request, effect, seed);
  answer(request, effect);
}

void FaultyDevice::answer(IoRequest& request, FaultEffect effect) {
  Result<void> result = TW_FAIL(kIo);
  if (effect == FaultEffect::kNoSpace) result = TW_FAIL(kNoSpace);
  if (effect == FaultEffect::kShort) result = TW_FAIL(kShortIo);
  if (effect == FaultEffect::kDropped) result = {};
  request.done(request, result);
}

// What the device beneath gets instead of the write: the same place, old and new sectors mixed.
struct FaultyDevice::Partial {
  IoRequest child;
  IoSegment segment;
  std::unique_ptr<std::byte, void (*)(void*)> memory{nullptr, std::free};
  IoRequest* parent = nullptr;
  FaultyDevice* device = nullptr;
  FaultEffect effect = FaultEffect::kTorn;
};

void FaultyDevice::store_part(IoRequest& request, FaultEffect effect, std::uint64_t seed) {
  const std::uint64_t len = request.len_bytes();
  const std::size_t alignment = std::max<std::size_t>(memory_alignment(), alignof(std::max_align_t));
  auto partial = std::make_unique<Partial>();
  partial->memory.reset(
      static_cast<std::byte*>(std::aligned_alloc(alignment, (len + alignment - 1) / alignment * alignment)));
  std::byte* bytes = partial->memory.get();
  if (bytes == nullptr || !beneath_->read(request.offset_bytes, {bytes, len}, request.cause)) {
    return answer(request, effect);
  }
  const std::uint64_t sectors = len / kSectorBytes;
  Rng rng(seed);
  const std::uint64_t gone = rng.below(sectors);                         // kTorn: one that is surely old
  const std::uint64_t kept = 1 + rng.below(std::max<std::uint64_t>(sectors - 1, 1));  // kShort
  std::uint64_t sector = 0;
  for (const IoSegment& segment : request.segments) {
    const auto* from = static_cast<const std::byte*>(segment.data);
    for (std::uint64_t at = 0; at < segment.len_bytes; at += kSectorBytes, ++sector) {
      const bool stored = effect == FaultEffect::kShort ? sector < kept : rng.chance(2) && sector != gone;
      if (stored) std::memcpy(bytes + sector * kSectorBytes, from + at, kSectorBytes);
    }
  }
  partial->segment = {bytes, len};
  partial->parent = &request;
  partial->device = this;
  partial->effect = effect;
  partial->child = IoRequest{.op = IoOp::kWrite,
                             .cause = request.cause,
                             .preflush = request.preflush,
                             .offset_bytes = request.offset_bytes,
                             .segments = {&partial->segment, 1},
                             .done =
                                 [](IoRequest& child, Result<void>) {
                                   const std::unique_ptr<Partial> over(static_cast<Partial*>(child.owner));
                                   over->device->answer(*over->parent, over->effect);
                                 },
                             .owner = partial.get()};
  BlockDevice& beneath = *beneath_;
  beneath.submit(partial.release()->child);
}

DeviceStats FaultyDevice::stats() const {
  DeviceStats s = beneath_->stats();
  s.errors += injected();
  return s;
}

}  // namespace tidewheel
