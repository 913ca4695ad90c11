// fs/block/file_device.h: a regular file or a block device, through io_uring; where the system forbids that
// (containers, kernel.io_uring_disabled), through a few threads that call pread, pwrite and fdatasync.
// Owns:      the descriptor (locked against a second opener: flock, and O_EXCL on a block device), the
//            ring and a completion thread, or the threads of the pool.
// Threads:   submit() from any thread; it blocks while queue_depth requests are in flight. All
//            completions run on the completion thread, or on those of the pool.
// Locks:     lock_ (rank kDevice): submission side of the ring or the pool's queue, and the count in flight.
//            It is held across the system call that hands a request over to the ring, never while the pool
//            moves data or a completion runs, nor while the kernel asks to be tried again later.
// Units:     blocks of 4 KiB, which every disk's own blocks divide; memory aligned to 4 KiB under O_DIRECT,
//            else to 1.
// Durable:   a flush is fdatasync, a preflush an fdatasync whose completion sends the write out, FUA is
//            RWF_DSYNC on each piece (a disk's own FUA under O_DIRECT).
// Errors:    by completion: kNoSpace when the host file system is full (a sparse image promises nothing),
//            kIo, kShortIo (the file was cut short under us). From open(): see there.
// Invariant: one piece of a request is in the kernel at a time; it is at most kMaxPieceSegments long and
//            the next one goes out from the completion thread, in the request's own slot of the ring, so
//            that continuing never waits for room. In the pool the thread that has the request goes on.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/sync.h"
#include "base/thread.h"
#include "fs/block/block_device.h"
#include "fs/block/io_counts.h"

namespace tidewheel {

struct FileDeviceOptions {
  std::string path;
  std::uint64_t size_bytes = 0;  // 0: as large as it is. An empty file grows to it, sparse; one with
                                 // content keeps its size until grow(). Smaller than the file: the first
                                 // size_bytes are used; the file is never cut.
  bool create = true;            // make the file when it is missing (mode 0644)
  bool read_only = false;
  bool direct = true;            // O_DIRECT where it works; else buffered, with one warning in the log
  bool io_uring = true;          // where it works; else the pool, with one warning in the log
  std::uint32_t queue_depth = 128;
};

class FileDevice final : public BlockDevice {
 public:
  static constexpr std::uint32_t kBlockBytes = 4096;
  static constexpr std::size_t kMaxPieceSegments = 1024;        // IOV_MAX
  static constexpr std::uint64_t kMaxPieceBytes = 1ULL << 30;   // the kernel moves at most 2 GiB - 4 KiB
  static constexpr std::uint32_t kPoolThreads = 8;              // as many requests at once, not queue_depth

  // Errors: kNotFound, kAccess, kBusy (open elsewhere, or a mounted disk), kNotAFile (a directory, pipe,
  // socket, terminal), kNotEmpty (content of less than a block: nobody's device), kInvalidArgument (empty,
  // and no size given), kFileTooLarge and kNoSpace (it cannot be so large), kOutOfRange (the disk is
  // smaller), kNoThread, kSystem with the errno.
  static Result<std::unique_ptr<FileDevice>> open(const FileDeviceOptions& options);
  ~FileDevice() override;

  std::string_view name() const override { return options_.path; }
  std::uint64_t size_bytes() const override { return size_bytes_; }
  std::uint32_t block_bytes() const override { return kBlockBytes; }
  std::uint32_t memory_alignment() const override { return direct_ ? kBlockBytes : 1; }
  void submit(IoRequest& request) override TW_EXCLUDES(lock_);
  DeviceStats stats() const override { return counts_.stats(); }
  Result<void> grow(std::uint64_t size_bytes) override;
  Result<bool> holds_data() override;
  Result<void> renew(std::uint64_t size_bytes) override;

  // Takes the file's name away; the device goes on. Under the lock: a second opener finds no file, or looks
  // again when it had opened this one.
  void unlink_file();

  bool direct() const { return direct_; }
  bool uses_io_uring() const { return ring_ != nullptr; }
  // True when open() made the file.
  bool created() const { return created_; }
  // Longest piece handed to the kernel from now on, so that a test sees requests continued.
  void set_max_piece_bytes_for_test(std::uint64_t bytes) { max_piece_bytes_ = bytes; }
  // Runs in open(), when it has made the file and not yet locked it.
  static void set_after_create_for_test(void (*hook)(const char* path));
  // The kernel answers EAGAIN to the next submission; the hook runs where the submitter sleeps.
  void set_busy_once_for_test(std::function<void()> hook) { busy_once_ = std::move(hook); }
  // The kernel moves at most so much of a piece from now on, without having been asked for less: a short
  // transfer. Multiples of a block under O_DIRECT; 0 = all again.
  void set_short_transfers_for_test(std::uint64_t bytes) { short_transfer_bytes_ = bytes; }

 private:
  struct Ring;      // liburing's
  struct Progress;  // of one request, in its device_private
  struct Piece;     // of a request, as the kernel gets it
  FileDevice(const FileDeviceOptions& options, int fd, std::uint64_t size_bytes, bool direct, bool created);
  Result<void> start();
  Result<void> start_ring();
  Result<void> start_pool();
  // Decides how far the request goes at once.
  Piece next_piece_locked(IoRequest& request) TW_REQUIRES(lock_);
  void hand_over_locked(IoRequest& request) TW_REQUIRES(lock_);
  // Drops the lock while the kernel is short of memory.
  void enter_locked() TW_REQUIRES(lock_);
  // What a piece's result makes of its request: true when it is over, with `result` set.
  bool advance(IoRequest& request, int moved, Result<void>& result);
  void run_completions() TW_EXCLUDES(lock_);
  void run_pool() TW_EXCLUDES(lock_);
  IoRequest* take_waiting() TW_EXCLUDES(lock_);
  int move_piece(const IoRequest& request, const Piece& piece) const;

  // ---- constant while requests are in flight ----
  const FileDeviceOptions options_;
  const int fd_;
  std::uint64_t size_bytes_;
  const bool direct_;
  const bool created_;
  std::uint64_t max_piece_bytes_ = kMaxPieceBytes;
  std::uint64_t short_transfer_bytes_ = 0;
  std::function<void()> busy_once_;

  // ---- under lock_ ----
  Mutex lock_ TW_ACQUIRED_AFTER(kRankArena) TW_ACQUIRED_BEFORE(kRankCompletion);
  CondVar room_;
  std::uint32_t in_flight_ TW_GUARDED_BY(lock_) = 0;
  // The submission queue is under lock_; the completion queue belongs to the completion thread. None: the
  // pool does its work.
  std::unique_ptr<Ring> ring_;
  // The pool's: requests that no thread of it has taken yet, oldest first, through IoRequest::next.
  CondVar work_;
  IoRequest* waiting_ TW_GUARDED_BY(lock_) = nullptr;
  IoRequest* waiting_last_ TW_GUARDED_BY(lock_) = nullptr;
  bool ending_ TW_GUARDED_BY(lock_) = false;

  IoCounts counts_;
  std::vector<Thread> threads_;  // the completion thread, or the pool
};

}  // namespace tidewheel
