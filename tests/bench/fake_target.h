// tests/bench/fake_target.h: a target in memory that writes down what it is asked, fills up, and fails on
// command.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/sync.h"
#include "bench/target.h"

namespace tidewheel::bench {

inline LockClass g_fake_target_lock("test_fake_target", LockRank::kNone);

class FakeTarget final : public WorkloadTarget {
 public:
  struct Plan {
    std::uint64_t capacity_bytes = UINT64_MAX;
    std::string fail_call = {};     // "create", "write", "fsync", "close", "stat", "read", "unlink", "sync"
    std::uint64_t fail_at = 0;      // the how-many-eth such call fails; 0: none
    Reason fail_reason = Reason::kIo;
    bool names = true;
    std::optional<std::uint64_t> flip_byte_on_read = {};
    std::function<void(const std::string& call)> on_call = {};
  };
  FakeTarget() : FakeTarget(Plan{}) {}
  explicit FakeTarget(Plan plan) : plan_(std::move(plan)), lock_(g_fake_target_lock) {}

  std::string_view name() const override { return "fake"; }
  std::string description() const override { return "a fake"; }
  bool has_names() const override { return plan_.names; }
  Result<void> make_directories(std::uint32_t subdirectories) override {
    subdirectories_made = subdirectories;
    return {};
  }
  std::unique_ptr<TargetThread> make_thread(std::uint32_t) override {
    return std::make_unique<Access>(*this);
  }
  Result<void> sync() override { return note("sync", ""); }
  void interrupt() override {
    MutexLock hold(lock_);
    interrupted_ = true;
    interrupted_now_.notify_all();
  }
  // What a call that waits for room does. False: nobody ended the wait for half a minute.
  bool wait_interrupted() {
    MutexLock hold(lock_);
    while (!interrupted_) {
      if (interrupted_now_.wait_for(lock_, seconds(30)) == CondVar::Wake::kTimedOut) return interrupted_;
    }
    return true;
  }
  Result<bool> remount() override {
    (void)note("remount", "");
    return true;
  }
  Result<void> shut_down() override { return {}; }
  std::uint32_t used_percent() override { return 7; }
  void start_observation() override {}
  TargetGauges gauges() override { return {}; }
  double oldest_dirty_age_ms() override { return 0; }
  std::optional<LoadMoments> moments() override { return LoadMoments{}; }
  TargetFigures figures() override { return {}; }

  // "call key", in the order they came.
  std::vector<std::string> log() {
    MutexLock hold(lock_);
    return log_;
  }
  std::vector<std::string> log_of(const std::string& call) {
    std::vector<std::string> found;
    for (const std::string& line : log()) {
      if (line.rfind(call + " ", 0) == 0) found.push_back(line.substr(call.size() + 1));
    }
    return found;
  }
  std::map<std::string, std::string> files() {
    MutexLock hold(lock_);
    return files_;
  }
  std::size_t open_files() {
    MutexLock hold(lock_);
    return open_.size();
  }
  std::uint32_t subdirectories_made = 0;

 private:
  class Access final : public TargetThread {
   public:
    explicit Access(FakeTarget& target) : target_(target) {}
    Result<FileHandle> create(const FileRef& file) override {
      TW_TRY(target_.note("create", key_of(file)));
      MutexLock hold(target_.lock_);
      if (!target_.files_.emplace(key_of(file), "").second) return TW_FAIL(kExists);
      return target_.open_locked(key_of(file));
    }
    Result<FileHandle> open(const FileRef& file) override {
      TW_TRY(target_.note("open", key_of(file)));
      MutexLock hold(target_.lock_);
      if (target_.files_.count(key_of(file)) == 0) return TW_FAIL(kNotFound);
      return target_.open_locked(key_of(file));
    }
    Result<void> write(FileHandle handle, std::uint64_t offset, std::span<const std::byte> data) override {
      TW_TRY(target_.note("write", std::to_string(data.size())));
      MutexLock hold(target_.lock_);
      if (target_.used_ + data.size() > target_.plan_.capacity_bytes) return TW_FAIL(kNoSpace);
      std::string& content = target_.files_[target_.open_.at(handle)];
      EXPECT_EQ(content.size(), offset) << "writes come one after the other";
      content.append(reinterpret_cast<const char*>(data.data()), data.size());
      target_.used_ += data.size();
      return {};
    }
    Result<std::uint64_t> read(FileHandle handle, std::uint64_t offset, std::span<std::byte> into) override {
      TW_TRY(target_.note("read", std::to_string(into.size())));
      MutexLock hold(target_.lock_);
      std::string content = target_.files_[target_.open_.at(handle)];
      if (const auto flip = target_.plan_.flip_byte_on_read; flip && *flip < content.size()) {
        content[*flip] ^= 1;
      }
      if (offset >= content.size()) return std::uint64_t{0};
      const std::uint64_t n = std::min<std::uint64_t>(into.size(), content.size() - offset);
      std::memcpy(into.data(), content.data() + offset, n);
      return n;
    }
    Result<void> fsync(FileHandle handle) override { return target_.note("fsync", target_.name_of(handle)); }
    Result<void> close(FileHandle handle) override {
      const std::string key = target_.name_of(handle);
      {
        MutexLock hold(target_.lock_);
        target_.open_.erase(handle);
      }
      return target_.note("close", key);
    }
    Result<std::uint64_t> stat(const FileRef& file) override {
      TW_TRY(target_.note("stat", key_of(file)));
      MutexLock hold(target_.lock_);
      const auto found = target_.files_.find(key_of(file));
      if (found == target_.files_.end()) return TW_FAIL(kNotFound);
      return static_cast<std::uint64_t>(found->second.size());
    }
    Result<void> unlink(const FileRef& file) override {
      TW_TRY(target_.note("unlink", key_of(file)));
      MutexLock hold(target_.lock_);
      const auto found = target_.files_.find(key_of(file));
      if (found == target_.files_.end()) return TW_FAIL(kNotFound);
      target_.used_ -= found->second.size();
      target_.files_.erase(found);
      return {};
    }

   private:
    static std::string key_of(const FileRef& file) {
      if (file.path != nullptr) return std::to_string(file.directory) + ":" + file.path;
      return "t" + std::to_string(file.thread) + "/l" + std::to_string(file.loop) + "/n" +
             std::to_string(file.number);
    }
    FakeTarget& target_;
  };

  Result<void> note(const std::string& call, const std::string& key) {
    if (plan_.on_call) plan_.on_call(call);
    MutexLock hold(lock_);
    log_.push_back(call + " " + key);
    if (call == plan_.fail_call && ++seen_ == plan_.fail_at) {
      return Unexpected(Error{.code = plan_.fail_reason, .line = 1, .detail = 0});
    }
    return {};
  }
  FileHandle open_locked(const std::string& key) TW_REQUIRES(lock_) {
    open_[++last_handle_] = key;
    return last_handle_;
  }
  std::string name_of(FileHandle handle) {
    MutexLock hold(lock_);
    return open_.at(handle);
  }

  const Plan plan_;
  Mutex lock_;
  std::vector<std::string> log_ TW_GUARDED_BY(lock_);
  std::map<std::string, std::string> files_ TW_GUARDED_BY(lock_);
  std::map<FileHandle, std::string> open_ TW_GUARDED_BY(lock_);
  FileHandle last_handle_ TW_GUARDED_BY(lock_) = 0;
  std::uint64_t used_ TW_GUARDED_BY(lock_) = 0;
  std::uint64_t seen_ TW_GUARDED_BY(lock_) = 0;
  CondVar interrupted_now_;
  bool interrupted_ TW_GUARDED_BY(lock_) = false;
};

}  // namespace tidewheel::bench
