#include "bench/worker.h"

#include <algorithm>

#include "bench/interrupt.h"

namespace tidewheel::bench {

namespace {

// Ctrl-C: a file of which no more than this is left is finished, of a larger one there may be hours left.
constexpr std::uint64_t kFinishBytes = 64ULL << 20;

}  // namespace

Worker::Worker(WorkerShared& shared, std::uint32_t thread)
    : shared_(shared),
      thread_(thread),
      directory_(thread % static_cast<std::uint32_t>(shared.options.directories.size())),
      access_(shared.target.make_thread(thread)),
      data_(shared.options),
      latencies_(std::make_unique<std::array<LatencyHistogram, kCalls>>()) {}

CallSummaries Worker::take_calls() {
  const CallSummaries taken = calls_;
  calls_ = {};
  return taken;
}

FileRef Worker::file(std::uint32_t loop, std::uint64_t number) {
  FileRef ref{.thread = thread_, .loop = loop, .number = number, .directory = directory_, .path = nullptr};
  if (!shared_.target.has_names()) return ref;
  if (shared_.names.make(thread_, loop, number, name_)) {
    ref.path = name_;
  } else {
    fail("-r: " + std::to_string(shared_.options.random_bytes) +
         " random characters are too few for this many files");
    ref.path = "";
  }
  return ref;
}

bool Worker::stopped() const {
  return shared_.stop.load(std::memory_order_relaxed) || shared_.full.load(std::memory_order_relaxed) ||
         interrupted();
}

std::uint64_t Worker::note(Call call, std::uint64_t from) {
  const std::uint64_t to = shared_.ticks.now();
  const std::uint64_t ns = shared_.ticks.to_ns(from, to);
  (*latencies_)[static_cast<std::size_t>(call)].record(ns);
  calls_[static_cast<std::size_t>(call)].record(ns);
  timed_ns_ += ns;
  return to;
}

std::string Worker::label_of(const FileRef& file) const {
  if (file.path != nullptr) return shared_.options.directories[file.directory] + "/" + file.path;
  return "file " + std::to_string(file.number) + " of thread " + std::to_string(file.thread) + ", loop " +
         std::to_string(file.loop);
}

void Worker::fail(std::string line) {
  if (error_.empty()) error_ = std::move(line);
  shared_.stop.store(true, std::memory_order_relaxed);
}

void Worker::fail(const char* what, const FileRef& file, Error error) {
  fail(std::string(what) + " " + label_of(file) + ": " + std::string(error.sentence()));
}

// True: the file exists and is acknowledged.
bool Worker::create_one(const FileRef& file) {
  const WorkloadOptions& options = shared_.options;
  std::uint64_t tick = shared_.ticks.now();
  const char* what = "create";
  Result<void> done;
  const Result<FileHandle> handle = access_->create(file);
  tick = note(Call::kCreate, tick);
  if (handle) {
    what = "write";
    std::uint64_t offset = 0;
    do {  // a file of size 0 gets one write of 0 bytes
      const std::uint64_t len = std::min(options.write_bytes, options.file_bytes - offset);
      const std::span<const std::byte> data = data_.fill(file, offset, len);
      if (!options.zero && len != 0) tick = shared_.ticks.now();
      done = access_->write(*handle, offset, data);
      tick = note(Call::kWrite, tick);
      if (!done) break;
      written_bytes_ += len;
      offset += len;
      if (options.file_bytes - offset > kFinishBytes && interrupted()) done = TW_FAIL(kInterrupted);
    } while (done && offset < options.file_bytes);
    if (done && options.sync_method == 1) {
      what = "fsync";
      done = access_->fsync(*handle);
      tick = note(Call::kFsync, tick);
    }
    const Result<void> closed = access_->close(*handle);
    note(Call::kClose, tick);
    if (done && !closed) {
      what = "close";
      done = closed;
    }
    if (done) return true;
    // Half a file is no file: what is left is exactly what was acknowledged.
    (void)access_->unlink(file);
  } else {
    done = Unexpected(handle.error());
  }
  // Told to end, where the rest would take long: much of it, or a device that may never take what is dirty.
  if (done.error().code == Reason::kInterrupted && interrupted()) return false;
  if (options.until_full && done.error().code == Reason::kNoSpace) {
    shared_.full.store(true, std::memory_order_relaxed);
  } else {
    fail(what, file, done.error());
  }
  return false;
}

void Worker::create_loop(std::uint32_t loop) {
  const WorkloadOptions& options = shared_.options;
  started_ = SteadyClock::instance().now();
  timed_ns_ = 0;
  std::uint64_t made = 0;
  while (made < options.files_per_thread && !stopped()) {
    const FileRef ref = file(loop, made);
    if (!error_.empty() || !create_one(ref)) break;
    ++made;
    acknowledged_.store(acknowledged_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  if (!shared_.one_is_through.exchange(true, std::memory_order_relaxed)) shared_.note_progress();
  made_.resize(loop + 1, 0);
  made_[loop] = made;
  operations_ = made;
  if (options.sync_method >= 2) sync_after_loop(loop);
  ended_ = SteadyClock::instance().now();
  const auto elapsed = static_cast<std::uint64_t>((ended_ - started_).ns);
  app_overhead_ns_ = elapsed > timed_ns_ ? elapsed - timed_ns_ : 0;
}

void Worker::fsync_one(const FileRef& ref) {
  // The column counts open, fsync and close together.
  const std::uint64_t tick = shared_.ticks.now();
  const Result<FileHandle> handle = access_->open(ref);
  if (!handle) return fail("open", ref, handle.error());
  const Result<void> synced = access_->fsync(*handle);
  const Result<void> closed = access_->close(*handle);
  note(Call::kFsync, tick);
  if (!synced) return fail("fsync", ref, synced.error());
  if (!closed) return fail("close", ref, closed.error());
}

void Worker::sync_after_loop(std::uint32_t loop) {
  const std::uint32_t method = shared_.options.sync_method;
  const std::uint64_t made = made_[loop];
  if (method == 2 || method == 4 || method == 6) {
    // One sync of the target, when all threads' files are there; everyone waits for it.
    if (shared_.meeting.wait()) {
      const std::uint64_t tick = shared_.ticks.now();
      const Result<void> synced = shared_.target.sync();
      note(Call::kSync, tick);
      if (!synced) fail("sync: " + std::string(synced.error().sentence()));
    }
    shared_.meeting.wait();
  }
  const auto go_on = [&] {
    return error_.empty() && !shared_.stop.load(std::memory_order_relaxed) && !interrupted();
  };
  if (method == 2) {
    if (made > 0 && go_on()) fsync_one(file(loop, 0));
  } else if (method == 3 || method == 4) {
    for (std::uint64_t i = made; i > 0 && go_on(); --i) fsync_one(file(loop, i - 1));
  } else {
    for (std::uint64_t i = 0; i < made && go_on(); ++i) fsync_one(file(loop, i));
  }
}

template <class Body>
void Worker::for_each_file(Until until, Body body) {
  started_ = SteadyClock::instance().now();
  operations_ = 0;
  const auto ended = [&] {
    return until == Until::kTrouble && (shared_.stop.load(std::memory_order_relaxed) || interrupted());
  };
  for (std::uint32_t loop = 0; loop < made_.size() && !ended(); ++loop) {
    for (std::uint64_t i = 0; i < made_[loop] && !ended(); ++i) {
      given_up_ = false;
      body(file(loop, i));
      if (!given_up_) ++operations_;
    }
  }
  ended_ = SteadyClock::instance().now();
}

void Worker::stat_files() {
  for_each_file(Until::kTrouble, [this](const FileRef& ref) {
    const std::uint64_t tick = shared_.ticks.now();
    const Result<std::uint64_t> size = access_->stat(ref);
    note(Call::kStat, tick);
    if (!size) return fail("stat", ref, size.error());
    if (*size != shared_.options.file_bytes) {
      fail("stat " + label_of(ref) + ": its size is " + std::to_string(*size) + ", not " +
           std::to_string(shared_.options.file_bytes));
    }
  });
}

void Worker::read_files() {
  const WorkloadOptions& options = shared_.options;
  read_buffer_.resize(std::max<std::uint64_t>(std::min(options.write_bytes, options.file_bytes), 1));
  for_each_file(Until::kTrouble, [&](const FileRef& ref) {
    const Result<FileHandle> handle = access_->open(ref);
    if (!handle) return fail("open", ref, handle.error());
    for (std::uint64_t offset = 0; offset < options.file_bytes; offset += options.write_bytes) {
      given_up_ = options.file_bytes - offset > kFinishBytes && interrupted();
      if (given_up_) break;
      const std::uint64_t len = std::min(options.write_bytes, options.file_bytes - offset);
      const std::uint64_t tick = shared_.ticks.now();
      const Result<std::uint64_t> got = access_->read(*handle, offset, {read_buffer_.data(), len});
      note(Call::kRead, tick);
      if (!got || *got != len) {
        fail("read", ref, got ? Error{.code = Reason::kShortIo, .line = __LINE__, .detail = 0} : got.error());
        break;
      }
    }
    if (const Result<void> closed = access_->close(*handle); !closed) fail("close", ref, closed.error());
  });
}

void Worker::verify_files() {
  const WorkloadOptions& options = shared_.options;
  read_buffer_.resize(std::max<std::uint64_t>(std::min(options.write_bytes, options.file_bytes), 1));
  for_each_file(Until::kTrouble, [&](const FileRef& ref) {
    const Result<std::uint64_t> size = access_->stat(ref);
    if (!size) return fail("verify", ref, size.error());
    if (*size != options.file_bytes) {
      return fail("verify " + label_of(ref) + ": its size is " + std::to_string(*size) + ", not " +
                  std::to_string(options.file_bytes));
    }
    const Result<FileHandle> handle = access_->open(ref);
    if (!handle) return fail("verify", ref, handle.error());
    for (std::uint64_t offset = 0; offset < options.file_bytes; offset += options.write_bytes) {
      given_up_ = options.file_bytes - offset > kFinishBytes && interrupted();
      if (given_up_) break;
      const std::uint64_t len = std::min(options.write_bytes, options.file_bytes - offset);
      const std::span<std::byte> into{read_buffer_.data(), len};
      const Result<std::uint64_t> got = access_->read(*handle, offset, into);
      if (!got || *got != len) {
        fail("verify", ref,
             got ? Error{.code = Reason::kShortIo, .line = __LINE__, .detail = 0} : got.error());
        break;
      }
      if (const auto wrong = data_.first_difference(ref, offset, into)) {
        fail("verify " + label_of(ref) + ": byte " + std::to_string(*wrong) + " is not what was written");
        break;
      }
    }
    if (const Result<void> closed = access_->close(*handle); !closed) fail("verify", ref, closed.error());
  });
}

void Worker::unlink_files() {
  for_each_file(Until::kTheEnd, [this](const FileRef& ref) {
    const std::uint64_t tick = shared_.ticks.now();
    const Result<void> gone = access_->unlink(ref);
    note(Call::kUnlink, tick);
    if (!gone) fail("unlink", ref, gone.error());
  });
}

}  // namespace tidewheel::bench
