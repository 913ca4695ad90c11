// Reads, read-ahead and writes of buffers.
#include "fs/buf/buffer_cache.h"

#include <array>
#include <new>
#include <utility>

#include "fs/buf/delwri_queue.h"

namespace tidewheel {

disk::VerifyContext BufferCache::context_of(const Buffer& buffer) const {
  return {.geometry = &buffer.target_->geometry_,
          .address = buffer.address_,
          .owner = buffer.owner_,
          .newest = buffer.target_->newest_lsn()};
}

Result<LockedBuffer> BufferCache::read(BufferTarget& target, DeviceAddress address,
                                       std::uint32_t length_blocks, disk::BlockType type,
                                       std::uint64_t owner) {
  auto held = hold(target, address, length_blocks);
  if (!held) return Unexpected(held.error());
  (*held)->lock();
  LockedBuffer buffer(held->detach());
  TW_TRY(read_locked_buffer(*buffer, type, owner));
  return buffer;
}

Result<void> BufferCache::read_locked_buffer(Buffer& buffer, disk::BlockType type, std::uint64_t owner) {
  buffer.stale_ = false;
  if (buffer.done_) {
    // What it was read as must be what is asked for now: a block in use has one type and one owner.
    if (buffer.type_ != type) return TW_FAIL_WITH(kCorrupt, disk::Fault::kMagic);
    if (owner != disk::kAnyOwner && owner != buffer.owner_) {
      // Where nobody has said yet whose it is, it says so itself.
      const bool is_known = buffer.owner_ != disk::kAnyOwner;
      if (is_known || !disk::belongs_to(type, std::as_const(buffer).bytes(), owner)) {
        return TW_FAIL_WITH(kCorrupt, disk::Fault::kOwner);
      }
      buffer.owner_ = owner;
    }
    return {};
  }
  buffer.set_type(type, owner);
  start(buffer, Buffer::Direction::kRead, true);
  return wait_io(buffer);
}

void BufferCache::read_ahead(BufferTarget& target, DeviceAddress address, std::uint32_t length_blocks,
                             disk::BlockType type, std::uint64_t owner) {
  auto held = hold(target, address, length_blocks);
  if (!held) return;
  Buffer& buffer = **held;
  if (!buffer.try_lock()) {
    read_aheads_dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (buffer.done_) {
    buffer.unlock();
    return;
  }
  buffer.stale_ = false;
  buffer.set_type(type, owner);
  read_aheads_.fetch_add(1, std::memory_order_relaxed);
  // Lock and hold go with the request.
  (void)held->detach();
  start(buffer, Buffer::Direction::kRead, false);
}

Result<LockedBuffer> BufferCache::make_uncached(BufferTarget& target, DeviceAddress address,
                                                std::uint32_t length_blocks) {
  TW_TRY(check_range(target, address, length_blocks));
  auto made = allocate_buffer(ChargeBy::kAnyone);
  if (!made) return Unexpected(made.error());
  if (auto memory = allocate_memory(**made, length_blocks, ChargeBy::kAnyone); !memory) {
    free_buffer(*made);
    return Unexpected(memory.error());
  }
  initialise(**made, target, address, hash_of(target.id_, address));
  (*made)->cached_ = false;
  (*made)->lock();
  return LockedBuffer(*made);
}

Result<void> BufferCache::read_uncached(Buffer& buffer) {
  TW_ASSERT(!buffer.cached_, "read() is for cached buffers");
  buffer.done_ = false;
  start(buffer, Buffer::Direction::kRead, true);
  return wait_io(buffer);
}

Result<void> BufferCache::write(Buffer& buffer) {
  start(buffer, Buffer::Direction::kWrite, true);
  return wait_io(buffer);
}

void BufferCache::write_async(LockedBuffer buffer) {
  start(*buffer.detach(), Buffer::Direction::kWrite, false);
}

void BufferCache::start(Buffer& buffer, Buffer::Direction direction, bool sync) {
  if (prepare(buffer, direction, sync)) send(buffer);
}

// From here on the buffer belongs to the request: a hold of its own is not needed while a waiter has one, and
// an asynchronous request was given one. False: it is over already.
bool BufferCache::prepare(Buffer& buffer, Buffer::Direction direction, bool sync) {
  TW_DASSERT(buffer.locked(), "I/O is started under the buffer's lock");
  BufferTarget& target = *buffer.target_;
  buffer.direction_ = direction;
  buffer.io_sync_ = sync;
  buffer.io_over_ = false;
  {
    MutexLock lock(io_lock_);
    ++target.in_flight_;
  }
  if (direction == Buffer::Direction::kRead) {
    reads_.fetch_add(1, std::memory_order_relaxed);
  } else {
    TW_DASSERT(buffer.done_, "a buffer is written that has content");
    TW_ASSERT(!buffer.pinned(), "a buffer is written before the log has its image");
    // Any queue it is on has nothing left to do; it unlinks the buffer when it comes to it.
    buffer.delwri_ = false;
    writes_.fetch_add(1, std::memory_order_relaxed);
  }
  if (target.is_shut_down()) {
    finish(buffer, TW_FAIL(kShutDown));
    return false;
  }
  if (direction == Buffer::Direction::kRead) return true;
  const disk::Verdict verdict =
      disk::verify_write(buffer.type_, buffer.bytes(), context_of(buffer), buffer.write_lsn_);
  if (verdict.good()) return true;
  corrupt_writes_.fetch_add(1, std::memory_order_relaxed);
  finish(buffer, verdict.result());
  return false;
}

void BufferCache::send(Buffer& buffer) {
  const bool reads = buffer.direction_ == Buffer::Direction::kRead;
  buffer.segment_ = {buffer.memory_, buffer.length_bytes()};
  buffer.request_ = IoRequest{.op = reads ? IoOp::kRead : IoOp::kWrite,
                              .cause = IoCause::kMetadata,
                              .offset_bytes = buffer.address_.bytes(),
                              .segments = {&buffer.segment_, 1},
                              .done = io_done,
                              .owner = &buffer};
  buffer.target_->device_.submit(buffer.request_);
}

void BufferCache::io_done(IoRequest& request, Result<void> result) {
  auto& buffer = *static_cast<Buffer*>(request.owner);
  buffer.cache_->finish(buffer, result);
}

// On the completion thread, or the starter's.
void BufferCache::finish(Buffer& buffer, Result<void> result) {
  BufferTarget& target = *buffer.target_;
  result = buffer.direction_ == Buffer::Direction::kRead ? finish_read(buffer, result)
                                                         : finish_write(buffer, result);
  buffer.error_ = result.error();
  if (buffer.io_sync_) {
    // The waiter has the hold: once it has seen io_over_ it may release the buffer, and what follows must
    // not touch it. It cannot see it before the wait lock, which is the cache's, is free.
    MutexLock wait(wait_lock_of(buffer));
    buffer.io_over_ = true;
    buffer.changed_.notify_all();
  } else {
    buffer.unlock();
    buffer.release();
  }
  end_request(target);
}

void BufferCache::end_request(BufferTarget& target) {
  MutexLock lock(io_lock_);
  if (--target.in_flight_ == 0) io_idle_.notify_all();
}

Result<void> BufferCache::wait_io(Buffer& buffer) {
  Mutex& wait_lock = wait_lock_of(buffer);
  MutexLock wait(wait_lock);
  while (!buffer.io_over_) buffer.changed_.wait(wait_lock);
  if (buffer.error_.code != Reason::kOk) return Unexpected(buffer.error_);
  return {};
}

Result<void> BufferCache::finish_read(Buffer& buffer, Result<void> result) {
  buffer.done_ = false;
  if (!result) {
    read_errors_.fetch_add(1, std::memory_order_relaxed);
    return result;
  }
  const disk::Verdict verdict = disk::verify_read(buffer.type_, buffer.bytes(), context_of(buffer));
  if (!verdict.good()) {
    corrupt_reads_.fetch_add(1, std::memory_order_relaxed);
    return verdict.result();
  }
  buffer.done_ = true;
  buffer.write_failures_ = 0;
  return {};
}

Result<void> BufferCache::finish_write(Buffer& buffer, Result<void> result) {
  if (result) {
    buffer.write_failures_ = 0;
    buffer.write_alone_ = false;
    if (buffer.client_ != nullptr) buffer.client_->written(buffer);
    return result;
  }
  const Error error = result.error();
  if (error.code == Reason::kShutDown || error.code == Reason::kCorrupt) {
    lose_write(buffer, error);
    return result;
  }
  write_errors_.fetch_add(1, std::memory_order_relaxed);
  ++buffer.write_failures_;
  const WriteErrorAction action =
      buffer.target_->policy_->on_write_error(buffer, error, buffer.write_failures_);
  const bool somebody_retries = buffer.client_ != nullptr || buffer.io_sync_;
  if (action == WriteErrorAction::kGiveUp || !somebody_retries) {
    lose_write(buffer, error);
  } else if (buffer.client_ != nullptr) {
    buffer.client_->write_failed(buffer, error, true);
  }
  return result;
}

// The policy first: whoever hears of the lost write through the client finds the mount shutting down.
void BufferCache::lose_write(Buffer& buffer, Error error) {
  buffer.target_->policy_->on_lost_write(buffer, error);
  if (buffer.client_ != nullptr) buffer.client_->write_failed(buffer, error, false);
}

// ---- runs: neighbours written by one request ----

struct BufferCache::Run {
  IoRequest request;
  std::uint32_t count = 0;
  std::array<Buffer*, DelwriQueue::kMostRunBuffers> buffers{};
  std::array<IoSegment, DelwriQueue::kMostRunBuffers> segments{};
};

void BufferCache::write_run(std::span<Buffer* const> buffers) {
  std::unique_ptr<Run> run(buffers.size() > 1 ? new (std::nothrow) Run : nullptr);
  if (run == nullptr) {
    for (Buffer* const buffer : buffers) start(*buffer, Buffer::Direction::kWrite, false);
    return;
  }
  std::array<bool, DelwriQueue::kMostRunBuffers> ready{};
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    ready[i] = prepare(*buffers[i], Buffer::Direction::kWrite, false);  // what is not: no longer ours
  }
  for (std::size_t at = 0; at < buffers.size();) {
    if (!ready[at]) {
      ++at;
      continue;
    }
    std::size_t end = at + 1;
    while (end < buffers.size() && ready[end]) ++end;
    if (end == at + 1) {
      send(*buffers[at]);
    } else {
      if (run == nullptr) run.reset(new (std::nothrow) Run);
      if (run == nullptr) {
        for (std::size_t i = at; i < end; ++i) send(*buffers[i]);
      } else {
        Run& sent = *run.release();  // its completion's from here on
        send_run(sent, buffers.subspan(at, end - at));
      }
    }
    at = end;
  }
}

void BufferCache::send_run(Run& run, std::span<Buffer* const> buffers) {
  runs_.fetch_add(1, std::memory_order_relaxed);
  for (Buffer* const buffer : buffers) {
    run.segments[run.count] = {buffer->memory_, buffer->length_bytes()};
    run.buffers[run.count++] = buffer;
  }
  run.request = IoRequest{.op = IoOp::kWrite,
                          .cause = IoCause::kMetadata,
                          .offset_bytes = buffers.front()->address_.bytes(),
                          .segments = {run.segments.data(), run.count},
                          .done = run_done,
                          .owner = &run};
  buffers.front()->target_->device_.submit(run.request);
}

void BufferCache::run_done(IoRequest& request, Result<void> result) {
  const std::unique_ptr<Run> run(static_cast<Run*>(request.owner));
  BufferCache& cache = *run->buffers[0]->cache_;
  if (!result) cache.failed_runs_.fetch_add(1, std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < run->count; ++i) {
    Buffer& buffer = *run->buffers[i];
    if (result) {
      cache.finish(buffer, result);
    } else {
      cache.finish_of_failed_run(buffer, result.error());
    }
  }
}

// Any part of the run may be on the device, and one buffer's place may be the reason: nobody's failure
// counts. Each stays dirty, and is written by itself the next time.
void BufferCache::finish_of_failed_run(Buffer& buffer, Error error) {
  BufferTarget& target = *buffer.target_;
  buffer.write_alone_ = true;
  buffer.error_ = error;
  if (buffer.client_ != nullptr) buffer.client_->write_failed(buffer, error, true);
  buffer.unlock();
  buffer.release();
  end_request(target);
}

}  // namespace tidewheel
