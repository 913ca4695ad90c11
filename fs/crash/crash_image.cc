#include "fs/crash/crash_image.h"

#include <cstring>

namespace tidewheel {

namespace {

LockClass image_class("crash-image", LockRank::kDevice, LockCounting::kClassOnly);
const BlockMap kNothing;

}  // namespace

CrashImage::CrashImage() : lock_(image_class) {}

std::uint64_t CrashImage::reset(const BaseImage& base, const Cut& cut, const StateSpec& spec) {
  MutexLock lock(lock_);
  size_bytes_ = base.size_bytes;
  base_ = &base;
  durable_ = &cut.durable;
  hash_beneath_ = cut.hash;
  operations_ = 0;
  over_.clear();
  arena_.reset();
  return apply(base, cut, spec, over_, arena_);
}

void CrashImage::reset(const BaseImage& base) {
  MutexLock lock(lock_);
  size_bytes_ = base.size_bytes;
  base_ = &base;
  durable_ = &kNothing;
  hash_beneath_ = base.hash;
  operations_ = 0;
  over_.clear();
  arena_.reset();
}

std::uint64_t CrashImage::content_hash() {
  MutexLock lock(lock_);
  std::uint64_t hash = hash_beneath_;
  for (BlockMap::Entry& entry : over_.entries()) {
    if (entry.own != nullptr) entry.ref.hash = hash_of_block(entry.block, entry.own);
    hash += entry.ref.hash - look_up(*base_, *durable_, entry.block).hash;
  }
  return hash;
}

bool CrashImage::is_exhausted() const {
  MutexLock lock(lock_);
  return operations_ > operation_limit_;
}

void CrashImage::set_operation_limit(std::uint64_t limit) {
  MutexLock lock(lock_);
  operation_limit_ = limit;
}

BlockRef CrashImage::find_locked(std::uint64_t block) const {
  const BlockMap::Entry* entry = over_.find(block);
  return entry != nullptr ? entry->ref : look_up(*base_, *durable_, block);
}

void CrashImage::submit(IoRequest& request) {
  Result<void> result = check(request);
  if (result) {
    MutexLock lock(lock_);
    result = ++operations_ > operation_limit_ ? Result<void>(TW_FAIL(kIo)) : transfer_locked(request);
  }
  counts_.count(request, result);
  request.done(request, result);
}

Result<void> CrashImage::transfer_locked(const IoRequest& request) {
  if (request.op == IoOp::kFlush) return {};
  std::uint64_t block = request.offset_bytes / kCrashBlockBytes;
  for (const IoSegment& segment : request.segments) {
    auto* memory = static_cast<std::byte*>(segment.data);
    for (std::uint64_t at = 0; at < segment.len_bytes; at += kCrashBlockBytes, ++block) {
      if (request.op == IoOp::kRead) {
        const std::byte* bytes = find_locked(block).bytes;
        if (bytes != nullptr) {
          std::memcpy(memory + at, bytes, kCrashBlockBytes);
        } else {
          std::memset(memory + at, 0, kCrashBlockBytes);
        }
        continue;
      }
      BlockMap::Entry* entry = over_.find(block);
      std::byte* own = entry != nullptr && entry->own != nullptr ? entry->own : arena_.take();
      std::memcpy(own, memory + at, kCrashBlockBytes);
      over_.set(block, {own, 0}, own);
    }
  }
  return {};
}

Result<void> read_base(BlockDevice& device, BaseImage& base) {
  base.size_bytes = device.size_bytes();
  base.blocks.assign(base.size_bytes / kCrashBlockBytes, BlockRef{});
  base.hash = 0;
  base.memory.reset();
  std::byte* bytes = nullptr;
  for (std::uint64_t block = 0; block < base.blocks.size(); ++block) {
    if (bytes == nullptr) bytes = base.memory.take();
    TW_TRY(device.read(block * kCrashBlockBytes, {bytes, kCrashBlockBytes}));
    const std::uint64_t hash = hash_of_block(block, bytes);
    if (hash == 0) continue;  // zeros: no memory
    base.blocks[block] = {bytes, hash};
    base.hash += hash;
    bytes = nullptr;
  }
  return {};
}

}  // namespace tidewheel
