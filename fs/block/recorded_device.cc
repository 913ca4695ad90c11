#include "fs/block/recorded_device.h"

#include <algorithm>
#include <cstring>

namespace tidewheel {

namespace {

LockClass recorded_class("recorded-device", LockRank::kDevice);

const char* name_of(IoCause cause) {
  switch (cause) {
    case IoCause::kData: return "data";
    case IoCause::kLog: return "log";
    case IoCause::kMetadata: return "metadata";
  }
  return "?";
}

}  // namespace

std::string IoTrace::describe(std::uint32_t index) const {
  const Op& op = ops[index];
  if (op.op == IoOp::kFlush) return "flush " + std::to_string(index);
  std::string text = "write " + std::to_string(index) + " (" + name_of(op.cause) + ", " +
                     std::to_string(op.len_bytes) + " bytes at " + std::to_string(op.offset_bytes);
  if (op.preflush) text += ", preflush";
  if (op.fua) text += ", fua";
  return text + ")";
}

RecordedDevice::RecordedDevice(BlockDevice& beneath)
    : beneath_(beneath), name_("recorded " + std::string(beneath.name())), lock_(recorded_class) {}

RecordedDevice::~RecordedDevice() {
  MutexLock lock(lock_);
  TW_ASSERT(in_flight_ == 0, "a device ends with requests in flight");
}

void RecordedDevice::note(std::uint64_t what, std::uint64_t value) {
  MutexLock lock(lock_);
  trace_.events.push_back(
      {IoTrace::EventKind::kNote, static_cast<std::uint32_t>(trace_.notes.size())});
  trace_.notes.push_back({what, value});
}

void RecordedDevice::clear() {
  MutexLock lock(lock_);
  TW_ASSERT(in_flight_ == 0, "a trace is cleared with requests in flight");
  trace_.events.clear();
  trace_.ops.clear();
  trace_.notes.clear();
  for (Piece& piece : pieces_) piece.used = 0;
  piece_ = 0;
}

std::byte* RecordedDevice::take_memory_locked(std::uint64_t len_bytes) {
  while (piece_ < pieces_.size() && pieces_[piece_].len - pieces_[piece_].used < len_bytes) ++piece_;
  if (piece_ == pieces_.size()) {
    const std::uint64_t len = std::max(len_bytes, kPieceBytes);
    pieces_.push_back({std::make_unique_for_overwrite<std::byte[]>(len), len, 0});
  }
  Piece& piece = pieces_[piece_];
  std::byte* memory = piece.bytes.get() + piece.used;
  piece.used += len_bytes;
  return memory;
}

void RecordedDevice::submit(IoRequest& request) {
  if (request.op == IoOp::kRead || !check(request)) return beneath_.submit(request);
  Pending* pending;
  {
    MutexLock lock(lock_);
    if (free_.empty()) {
      pending = &records_.emplace_back();
      pending->device = this;
      // Room for all of them, so that a completion allocates nothing.
      free_.reserve(records_.size());
    } else {
      pending = free_.back();
      free_.pop_back();
    }
    ++in_flight_;
    pending->parent = &request;
    pending->op = static_cast<std::uint32_t>(trace_.ops.size());
    IoTrace::Op& op = trace_.ops.emplace_back(IoTrace::Op{.op = request.op, .cause = request.cause});
    op.preflush = request.preflush;
    op.fua = request.fua;
    op.submitted = static_cast<std::uint32_t>(trace_.events.size());
    if (request.op == IoOp::kWrite) {
      op.offset_bytes = request.offset_bytes;
      op.len_bytes = request.len_bytes();
      std::byte* copy = take_memory_locked(op.len_bytes);
      op.content = copy;
      for (const IoSegment& segment : request.segments) {
        std::memcpy(copy, segment.data, segment.len_bytes);
        copy += segment.len_bytes;
      }
    }
    trace_.events.push_back({IoTrace::EventKind::kSubmitted, pending->op});
  }
  pending->child = IoRequest{.op = request.op,
                             .cause = request.cause,
                             .preflush = request.preflush,
                             .fua = request.fua,
                             .offset_bytes = request.offset_bytes,
                             .segments = request.segments,
                             .done = child_done,
                             .owner = pending};
  beneath_.submit(pending->child);
}

void RecordedDevice::child_done(IoRequest& child, Result<void> result) {
  auto* pending = static_cast<Pending*>(child.owner);
  RecordedDevice& device = *pending->device;
  IoRequest& parent = *pending->parent;
  {
    MutexLock lock(device.lock_);
    IoTrace& trace = device.trace_;
    IoTrace::Op& op = trace.ops[pending->op];
    op.ok = result.has_value();
    op.completed = static_cast<std::uint32_t>(trace.events.size());
    trace.events.push_back({IoTrace::EventKind::kCompleted, pending->op});
    device.free_.push_back(pending);
    --device.in_flight_;
  }
  // The caller may destroy the device from here on.
  parent.done(parent, result);
}

}  // namespace tidewheel
