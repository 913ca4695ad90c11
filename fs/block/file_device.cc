// Requests under way, in the ring or in the pool; finding and opening the file is in file_open.cc.
#include "fs/block/file_device.h"

#include <liburing.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/log.h"

namespace tidewheel {

namespace {

LockClass file_class("file-device", LockRank::kDevice);

// A piece that the kernel puts off (EINTR, EAGAIN) goes out again so many times before it is an error.
constexpr std::uint32_t kMaxPutOff = 64;

// The kernel gets segments as they are.
static_assert(sizeof(IoSegment) == sizeof(iovec) && offsetof(IoSegment, data) == offsetof(iovec, iov_base) &&
              offsetof(IoSegment, len_bytes) == offsetof(iovec, iov_len));

// Each piece durable by itself: a disk's own FUA under O_DIRECT, else as fdatasync of that range.
int write_flags(const IoRequest& request) { return request.fua ? RWF_DSYNC : 0; }

}  // namespace

// The submission side is under lock_, the completion side belongs to the completion thread.
struct FileDevice::Ring {
  io_uring uring = {};
  bool made = false;
  ~Ring() {
    if (made) io_uring_queue_exit(&uring);
  }
};

FileDevice::FileDevice(const FileDeviceOptions& options, int fd, std::uint64_t size_bytes, bool direct,
                       bool created)
    : options_(options),
      fd_(fd),
      size_bytes_(size_bytes),
      direct_(direct),
      created_(created),
      lock_(file_class) {}

Result<void> FileDevice::start() { return options_.io_uring ? start_ring() : start_pool(); }

Result<void> FileDevice::start_ring() {
  auto ring = std::make_unique<Ring>();
  // The completion ring is twice as large, and no more than queue_depth are in flight: it cannot overflow.
  const int rc = io_uring_queue_init(options_.queue_depth, &ring->uring, 0);
  if (rc < 0) {
    log_warning(options_.path, "io_uring is not to be had (" + std::string(std::strerror(-rc)) + "): " +
                                   std::to_string(kPoolThreads) +
                                   " threads with pread and pwrite take its place, and figures include them. "
                                   "See kernel.io_uring_disabled and the container's seccomp profile");
    return start_pool();
  }
  ring->made = true;
  ring_ = std::move(ring);
  auto thread = Thread::start("tw-dev-done", [this] { run_completions(); });
  if (!thread) return Unexpected(thread.error());
  threads_.push_back(std::move(thread).value());
  return {};
}

FileDevice::~FileDevice() {
  {
    MutexLock lock(lock_);
    TW_ASSERT(in_flight_ == 0, "a device ends with requests in flight");
    ending_ = true;
    work_.notify_all();
    if (ring_ != nullptr && !threads_.empty()) {
      io_uring_sqe* sqe = io_uring_get_sqe(&ring_->uring);
      TW_ASSERT(sqe != nullptr, "the submission ring is full");
      io_uring_prep_nop(sqe);
      io_uring_sqe_set_data(sqe, nullptr);
      enter_locked();
    }
  }
  for (Thread& thread : threads_) thread.join();
  ring_.reset();
  ::close(fd_);
}

// Lives in IoRequest::device_private from submit() to completion; under lock_.
struct FileDevice::Progress {
  std::uint64_t segment = 0;         // the first that is not all moved
  std::uint64_t segment_offset = 0;  // bytes of it that are
  std::uint64_t moved = 0;           // bytes of the request that are
  iovec rest = {};                   // the piece in the kernel, when it begins inside a segment
  std::uint32_t piece_bytes = 0;
  std::uint32_t put_off = 0;         // times in a row
  bool flushing = false;             // a write whose preflush is not over: nothing of it is handed over

  static Progress& of(IoRequest& request) {
    return *std::launder(reinterpret_cast<Progress*>(request.device_private));
  }
};

void FileDevice::submit(IoRequest& request) {
  static_assert(sizeof(Progress) <= sizeof(request.device_private));
  if (Result<void> refused = check(request); !refused) {
    counts_.count(request, refused);
    return request.done(request, refused);
  }
  ::new (request.device_private) Progress{};
  Progress::of(request).flushing = request.preflush;
  MutexLock lock(lock_);
  while (in_flight_ >= options_.queue_depth) room_.wait(lock_);
  ++in_flight_;
  trace_issue(request);
  hand_over_locked(request);
}

// No segments: a flush, or the one before a write.
struct FileDevice::Piece {
  const iovec* segments = nullptr;
  unsigned count = 0;
  std::uint64_t offset_bytes = 0;
};

FileDevice::Piece FileDevice::next_piece_locked(IoRequest& request) {
  Progress& progress = Progress::of(request);
  if (request.op == IoOp::kFlush || progress.flushing) return {};
  const IoSegment* segments = request.segments.data() + progress.segment;
  const std::size_t left = request.segments.size() - progress.segment;
  const iovec* vector = reinterpret_cast<const iovec*>(segments);
  std::size_t count = 0;
  std::uint64_t bytes = 0;
  while (progress.segment_offset == 0 && count < left && count < kMaxPieceSegments &&
         bytes + segments[count].len_bytes <= max_piece_bytes_) {
    bytes += segments[count++].len_bytes;
  }
  if (count == 0) {  // inside a segment, or at the start of one that is too long for a piece
    progress.rest.iov_base = static_cast<std::byte*>(segments[0].data) + progress.segment_offset;
    progress.rest.iov_len = std::min(segments[0].len_bytes - progress.segment_offset, max_piece_bytes_);
    bytes = progress.rest.iov_len;
    vector = &progress.rest;
    count = 1;
  }
  progress.piece_bytes = static_cast<std::uint32_t>(bytes);
  if (short_transfer_bytes_ != 0 && short_transfer_bytes_ < bytes) {
    progress.rest = *vector;
    progress.rest.iov_len = std::min<std::uint64_t>(progress.rest.iov_len, short_transfer_bytes_);
    vector = &progress.rest;
    count = 1;
  }
  return {vector, static_cast<unsigned>(count), request.offset_bytes + progress.moved};
}

// To the pool's queue, or the next piece into the ring: a slot is free, since each request in flight has at
// most one there.
void FileDevice::hand_over_locked(IoRequest& request) {
  if (ring_ == nullptr) {
    request.next = nullptr;
    (waiting_ == nullptr ? waiting_ : waiting_last_->next) = &request;
    waiting_last_ = &request;
    return work_.notify_one();
  }
  const Piece piece = next_piece_locked(request);
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_->uring);
  TW_ASSERT(sqe != nullptr, "the submission ring is full");
  if (piece.segments == nullptr) {
    io_uring_prep_fsync(sqe, fd_, IORING_FSYNC_DATASYNC);
  } else if (request.op == IoOp::kRead) {
    io_uring_prep_readv(sqe, fd_, piece.segments, piece.count, piece.offset_bytes);
  } else {
    io_uring_prep_writev2(sqe, fd_, piece.segments, piece.count, piece.offset_bytes, write_flags(request));
  }
  io_uring_sqe_set_data(sqe, &request);
  enter_locked();
}

void FileDevice::enter_locked() {
  // Another submitter may have handed over what is ours while the lock was dropped.
  while (io_uring_sq_ready(&ring_->uring) != 0) {
    std::function<void()> hook = std::exchange(busy_once_, nullptr);
    const int submitted = hook ? -EAGAIN : io_uring_submit(&ring_->uring);
    if (submitted >= 0) continue;
    // Anything else means that the ring itself is broken: nothing in flight would ever complete.
    TW_ASSERT(submitted == -EINTR || submitted == -EAGAIN || submitted == -EBUSY,
              "io_uring refuses the ring");
    // The kernel is short of memory for the moment; what it has in hand goes on without us.
    if (submitted == -EINTR) continue;
    lock_.unlock();
    if (hook) {
      hook();
    } else {
      sleep_for(microseconds(100));
    }
    lock_.lock();
  }
}

bool FileDevice::advance(IoRequest& request, int moved, Result<void>& result) {
  Progress& progress = Progress::of(request);
  if (moved == -EINTR || moved == -EAGAIN) {
    if (++progress.put_off <= kMaxPutOff) return false;
    result = TW_FAIL_WITH(kIo, -moved);
    return true;
  }
  if (moved < 0) {
    result = TW_FAIL_WITH(kIo, -moved);
    if (reason_of_errno(-moved) == Reason::kNoSpace) result = TW_FAIL_WITH(kNoSpace, -moved);
    return true;
  }
  if (request.op == IoOp::kFlush) {
    result = {};
    return true;
  }
  if (progress.flushing) {  // the write itself goes out next
    progress.flushing = false;
    progress.put_off = 0;
    return false;
  }
  progress.put_off = 0;
  std::uint64_t bytes = static_cast<std::uint64_t>(moved);
  TW_ASSERT(bytes <= progress.piece_bytes, "more was moved than asked");
  // A piece cut inside a block cannot be continued there under O_DIRECT: the block moves again.
  if (bytes < progress.piece_bytes && direct_) bytes -= bytes % kBlockBytes;
  if (bytes == 0) {
    result = TW_FAIL(kShortIo);
    return true;
  }
  progress.moved += bytes;
  while (bytes != 0) {
    const std::uint64_t left = request.segments[progress.segment].len_bytes - progress.segment_offset;
    if (bytes < left) {
      progress.segment_offset += bytes;
      break;
    }
    bytes -= left;
    ++progress.segment;
    progress.segment_offset = 0;
  }
  result = {};
  return progress.segment == request.segments.size();
}

void FileDevice::run_completions() {
  struct Over {
    IoRequest* request;
    Result<void> result;
  };
  constexpr std::size_t kReap = 32;
  bool stop = false;
  while (!stop) {
    io_uring_cqe* cqe = nullptr;
    const int rc = io_uring_wait_cqe(&ring_->uring, &cqe);
    if (rc == -EINTR || rc == -EAGAIN) continue;
    TW_ASSERT(rc == 0, "io_uring cannot be waited for");
    struct Reaped {
      IoRequest* request;
      int moved;
    } reaped[kReap];
    std::size_t n = 0;
    for (; n < kReap && (n == 0 || io_uring_peek_cqe(&ring_->uring, &cqe) == 0); ++n) {
      reaped[n] = {static_cast<IoRequest*>(io_uring_cqe_get_data(cqe)), cqe->res};
      io_uring_cqe_seen(&ring_->uring, cqe);
    }
    Over over[kReap];
    std::size_t ended = 0;
    {
      // Also what orders this thread after the submitters, whose stores the kernel's hand-over hides from
      // the language: a request is not looked at before.
      MutexLock lock(lock_);
      for (std::size_t i = 0; i < n; ++i) {
        if (reaped[i].request == nullptr) {
          stop = true;  // the destructor's; nothing else is in flight
          continue;
        }
        Result<void> result;
        if (advance(*reaped[i].request, reaped[i].moved, result)) {
          over[ended++] = {reaped[i].request, result};
        } else {
          hand_over_locked(*reaped[i].request);
        }
      }
      in_flight_ -= static_cast<std::uint32_t>(ended);
      if (ended != 0) room_.notify_all();
    }
    for (std::size_t i = 0; i < ended; ++i) {
      counts_.count(*over[i].request, over[i].result);
      trace_complete(*over[i].request, over[i].result);
      over[i].request->done(*over[i].request, over[i].result);
    }
  }
}

// ---- without io_uring ----

Result<void> FileDevice::start_pool() {
  for (std::uint32_t i = 0; i < std::min(kPoolThreads, options_.queue_depth); ++i) {
    auto thread = Thread::start("tw-dev-" + std::to_string(i), [this] { run_pool(); });
    // One is enough to go on with.
    if (!thread && i == 0) return Unexpected(thread.error());
    if (!thread) break;
    threads_.push_back(std::move(thread).value());
  }
  return {};
}

// The number of bytes, or -errno: as the ring has it.
int FileDevice::move_piece(const IoRequest& request, const Piece& piece) const {
  const auto offset = static_cast<off_t>(piece.offset_bytes);
  const auto count = static_cast<int>(piece.count);
  ssize_t n = 0;
  if (piece.segments == nullptr) {
    n = ::fdatasync(fd_);
  } else if (request.op == IoOp::kRead) {
    n = ::preadv(fd_, piece.segments, count, offset);
  } else {
    n = ::pwritev2(fd_, piece.segments, count, offset, write_flags(request));
  }
  return n < 0 ? -errno : static_cast<int>(n);  // a piece has at most kMaxPieceBytes
}

// Null: the device ends.
IoRequest* FileDevice::take_waiting() {
  MutexLock lock(lock_);
  while (waiting_ == nullptr && !ending_) work_.wait(lock_, CondVar::For::kWork);
  IoRequest* const request = waiting_;
  if (request != nullptr) waiting_ = request->next;
  return request;
}

void FileDevice::run_pool() {
  while (IoRequest* const request = take_waiting()) {
    Result<void> result;
    for (bool over = false; !over;) {
      Piece piece;
      {
        MutexLock lock(lock_);
        piece = next_piece_locked(*request);
      }
      const int moved = move_piece(*request, piece);
      MutexLock lock(lock_);
      over = advance(*request, moved, result);
      if (!over) continue;
      --in_flight_;
      room_.notify_one();
    }
    counts_.count(*request, result);
    trace_complete(*request, result);
    request->done(*request, result);
  }
}

}  // namespace tidewheel
