#include "fs/block/block_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace tidewheel {

namespace {

LockClass wait_class("device-wait", LockRank::kCompletion);

}  // namespace

BlockDevice::BlockDevice() : wait_lock_(wait_class) {}

// ---- tracing ----

std::uint64_t IoTraceFlags::packed() const {
  return static_cast<std::uint64_t>(op) | static_cast<std::uint64_t>(cause) << 8 |
         std::uint64_t{preflush} << 16 | std::uint64_t{fua} << 17 | static_cast<std::uint64_t>(error) << 32;
}

IoTraceFlags IoTraceFlags::unpacked(std::uint64_t flags) {
  return {.op = static_cast<IoOp>(flags & 0xFF),
          .cause = static_cast<IoCause>(flags >> 8 & 0xFF),
          .preflush = (flags >> 16 & 1) != 0,
          .fua = (flags >> 17 & 1) != 0,
          .error = static_cast<Reason>(flags >> 32)};
}

void BlockDevice::record_issue(const IoRequest& request) const {
  const IoTraceFlags flags{request.op, request.cause, request.preflush, request.fua, Reason::kOk};
  TW_TRACE(block_rq_issue, reinterpret_cast<std::uintptr_t>(this), request.offset_bytes,
           request.len_bytes(), flags.packed());
}

void BlockDevice::record_complete(const IoRequest& request, Result<void> result) const {
  const IoTraceFlags flags{request.op, request.cause, request.preflush, request.fua,
                           result ? Reason::kOk : result.error().code};
  TW_TRACE(block_rq_complete, reinterpret_cast<std::uintptr_t>(this), request.offset_bytes,
           request.len_bytes(), flags.packed());
}

// ---- what a device may have more of ----

Result<void> BlockDevice::grow(std::uint64_t size) {
  if (size > size_bytes()) return TW_FAIL(kUnsupported);
  return {};
}

// Through the device itself, a MiB at a time.
Result<bool> BlockDevice::holds_data() {
  if (!keeps_data()) return false;
  constexpr std::uint64_t kPiece = 1ULL << 20;
  const std::size_t alignment = std::max<std::size_t>(memory_alignment(), alignof(std::max_align_t));
  const std::unique_ptr<void, void (*)(void*)> buffer(std::aligned_alloc(alignment, kPiece), std::free);
  if (buffer == nullptr) return TW_FAIL(kNoMemory);
  for (std::uint64_t offset = 0; offset < size_bytes(); offset += kPiece) {
    const std::span<std::byte> part(static_cast<std::byte*>(buffer.get()),
                                    std::min(kPiece, size_bytes() - offset));
    TW_TRY(read(offset, part, IoCause::kMetadata));
    if (!all_zero(part)) return true;
  }
  return false;
}

Result<void> BlockDevice::renew(std::uint64_t) { return TW_FAIL(kUnsupported); }

Result<void> BlockDevice::lose_unflushed() { return TW_FAIL(kUnsupported); }

// Compared with itself, one byte on: as fast as memory.
bool all_zero(std::span<const std::byte> bytes) {
  return bytes.empty() ||
         (bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

Result<void> BlockDevice::check(const IoRequest& request) const {
  if (request.op != IoOp::kWrite && (request.preflush || request.fua)) return TW_FAIL(kInvalidArgument);
  if (request.op == IoOp::kFlush) return {};
  const std::uint64_t block_mask = block_bytes() - 1;
  const std::uint64_t memory_mask = memory_alignment() - 1;
  std::uint64_t bits = request.offset_bytes & block_mask;
  const std::uint64_t size = size_bytes();
  if (request.offset_bytes > size) return TW_FAIL(kOutOfRange);
  std::uint64_t room = size - request.offset_bytes;
  for (const IoSegment& segment : request.segments) {
    bits |= segment.len_bytes & block_mask;
    bits |= reinterpret_cast<std::uintptr_t>(segment.data) & memory_mask;
    if (segment.len_bytes == 0) return TW_FAIL(kMisaligned);
    if (segment.len_bytes > room) return TW_FAIL(kOutOfRange);
    room -= segment.len_bytes;
  }
  if (bits != 0 || request.segments.empty()) return TW_FAIL(kMisaligned);
  return {};
}

Result<void> BlockDevice::submit_and_wait(IoRequest& request) {
  struct Wait {
    BlockDevice* device;
    Result<void> result;
    bool over = false;  // under device->wait_lock_
  } wait{this, {}};
  request.owner = &wait;
  request.done = [](IoRequest& done, Result<void> result) {
    auto& waiter = *static_cast<Wait*>(done.owner);
    BlockDevice& device = *waiter.device;
    MutexLock lock(device.wait_lock_);
    waiter.result = result;
    waiter.over = true;
    // All waiters of the device: few, since whoever has much to do uses submit().
    device.wait_done_.notify_all();
  };
  submit(request);
  MutexLock lock(wait_lock_);
  while (!wait.over) wait_done_.wait(wait_lock_);
  return wait.result;
}

Result<void> BlockDevice::read(std::uint64_t offset_bytes, std::span<std::byte> into, IoCause cause) {
  const IoSegment segment{into.data(), into.size()};
  IoRequest request{
      .op = IoOp::kRead, .cause = cause, .offset_bytes = offset_bytes, .segments = {&segment, 1}};
  return submit_and_wait(request);
}

Result<void> BlockDevice::write(std::uint64_t offset_bytes, std::span<const std::byte> from, IoCause cause) {
  // A write only reads its segments.
  const IoSegment segment{const_cast<std::byte*>(from.data()), from.size()};
  IoRequest request{
      .op = IoOp::kWrite, .cause = cause, .offset_bytes = offset_bytes, .segments = {&segment, 1}};
  return submit_and_wait(request);
}

Result<void> BlockDevice::write_durably(std::uint64_t offset_bytes, std::span<const std::byte> from,
                                        IoCause cause) {
  const IoSegment segment{const_cast<std::byte*>(from.data()), from.size()};
  IoRequest request{.op = IoOp::kWrite,
                    .cause = cause,
                    .preflush = true,
                    .fua = true,
                    .offset_bytes = offset_bytes,
                    .segments = {&segment, 1}};
  return submit_and_wait(request);
}

Result<void> BlockDevice::flush(IoCause cause) {
  IoRequest request{.op = IoOp::kFlush, .cause = cause};
  return submit_and_wait(request);
}

}  // namespace tidewheel
