#include "fs/block/faulty_device.h"

#include <utility>

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
  {
    MutexLock lock(lock_);
    for (Armed& armed : rules_) {
      if (armed.rule.op != request.op) continue;
      const std::uint64_t n = armed.seen++;
      // The first rule that applies decides; all of them count the request.
      if (!hit && n >= armed.rule.first && n - armed.rule.first < armed.rule.count) {
        hit = true;
        effect = armed.rule.effect;
      }
    }
    if (hit && effect == FaultEffect::kStall) {
      stalled_.push_back(&request);
      held_.notify_all();
      return;
    }
    if (hit) ++injected_;
  }
  if (!hit) return beneath_->submit(request);
  Result<void> result = TW_FAIL(kIo);
  if (effect == FaultEffect::kNoSpace) result = TW_FAIL(kNoSpace);
  request.done(request, result);
}

DeviceStats FaultyDevice::stats() const {
  DeviceStats s = beneath_->stats();
  s.errors += injected();
  return s;
}

}  // namespace tidewheel
