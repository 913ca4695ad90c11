#include "bench/flat_target.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/memory_budget.h"
#include "bench/default_image.h"
#include "bench/designs.h"
#include "bench/numbers.h"
#include "fs/block/open_device.h"
#include "fs/block/ram_device.h"
#include "fs/flat/flat_header.h"
#include "fs/flat/flat_store.h"
#include "writeback/driver_thread.h"
#include "writeback/engine.h"

namespace tidewheel::bench {

namespace {

// What writeback itself may need when everything else is full; the smallest --memory is 16 times that.
constexpr std::uint64_t kBudgetReserveBytes = 1ULL << 20;

// What the threads have in common. The store goes and comes back at a remount.
struct FlatAccess {
  WritebackEngine* engine = nullptr;
  FlatStore* store = nullptr;
  std::uint64_t files_per_loop = 0;
};

class FlatThread final : public TargetThread {
 public:
  FlatThread(const FlatAccess& access, std::uint32_t thread)
      : access_(access), task_(access.store->make_task(thread % access.store->owners())) {}

  Result<FileHandle> create(const FileRef& file) override {
    return hold(access_.store->create(key_of(file), &task_));
  }
  Result<FileHandle> open(const FileRef& file) override { return hold(access_.store->open(key_of(file))); }

  Result<void> write(FileHandle handle, std::uint64_t offset, std::span<const std::byte> data) override {
    FlatFile& file = open_[handle];
    while (!data.empty()) {
      // Fewer bytes than asked: the rest is asked for again, which tells why.
      const Result<std::uint64_t> n = access_.store->write(file, offset, data, &task_);
      if (!n) return Unexpected(n.error());
      if (*n == 0) return TW_FAIL(kShortIo);
      offset += *n;
      data = data.subspan(*n);
    }
    return {};
  }
  Result<std::uint64_t> read(FileHandle handle, std::uint64_t offset, std::span<std::byte> into) override {
    return access_.store->read(open_[handle], offset, into);
  }
  Result<void> fsync(FileHandle handle) override { return access_.store->fsync(open_[handle]); }
  Result<void> close(FileHandle handle) override {
    open_[handle].close();
    return {};
  }
  Result<std::uint64_t> stat(const FileRef& file) override { return access_.store->stat(key_of(file)); }
  Result<void> unlink(const FileRef& file) override { return access_.store->unlink(key_of(file)); }

 private:
  // Numbers run on from loop to loop, so that the index stays dense however small the loops are.
  FileKey key_of(const FileRef& file) const {
    const std::uint64_t running = file.loop * access_.files_per_loop + file.number;
    return FileKey::of(static_cast<std::uint16_t>(file.thread), static_cast<std::uint16_t>(running >> 32),
                       static_cast<std::uint32_t>(running));
  }
  Result<FileHandle> hold(Result<FlatFile> file) {
    if (!file) return Unexpected(file.error());
    // One file at a time is what the workload opens.
    std::size_t slot = 0;
    while (slot < open_.size() && open_[slot]) ++slot;
    if (slot == open_.size()) open_.emplace_back();
    open_[slot] = std::move(file).value();
    return static_cast<FileHandle>(slot);
  }
  const FlatAccess& access_;
  TaskThrottle task_;
  std::vector<FlatFile> open_;
};

std::string name_of_device(const DeviceOptions& device) {
  switch (device.kind) {
    case DeviceKind::kImage: return (device.image_is_default ? "" : "--image ") + device.image_path;
    case DeviceKind::kRam: return "--ram " + format_size(device.ram_bytes);
    case DeviceKind::kNull: break;
  }
  return "--null";
}

std::string foreign(const DeviceOptions& device) {
  return name_of_device(device) +
         ": what it holds is neither nothing nor a flat store: name another file, or remove it first";
}

std::string describe_device_failure(const DeviceOptions& device, Error error) {
  if (error.code == Reason::kNoThread) return kNoThreadLine;
  std::string why(error.sentence());
  if (error.code == Reason::kNoMemory) why = "the system does not give so much memory";
  if (error.code == Reason::kSystem && error.detail != 0) why = std::strerror(static_cast<int>(error.detail));
  return name_of_device(device) + ": " + why;
}

DeviceFigures difference(const DeviceStats& now, const DeviceStats& then) {
  return {.reads = now.reads - then.reads,
          .writes = now.writes - then.writes,
          .read_bytes = now.read_bytes - then.read_bytes,
          .write_bytes = now.write_bytes - then.write_bytes,
          .flushes = now.flushes - then.flushes,
          .data_bytes = now.write_bytes_data - then.write_bytes_data,
          .log_bytes = now.write_bytes_log - then.write_bytes_log,
          .metadata_bytes = now.write_bytes_metadata - then.write_bytes_metadata};
}

DirtyListFigures list_figures(const WritebackStats& stats) {
  const DirtyListStats& list = stats.dirty_list;
  return {.inserts = list.inserts,
          .insert_waits = list.insert_waits,
          .redirties = list.redirties,
          .removals = list.removals,
          .detached_buckets = list.detached_buckets,
          .elements_under_lock = list.elements_under_lock,
          .max_elements_per_hold = list.max_elements_per_hold,
          .shards = list.shards};
}

WritebackFigures writeback_figures(const WritebackStats& stats) {
  return {.works = stats.works,
          .objects = stats.objects,
          .pages = stats.pages,
          .io_bytes = stats.io_bytes,
          .ios = stats.ios,
          .batches = stats.batches,
          .oldest_age_max_ms = stats.oldest_age_max.seconds() * 1e3};
}

class FlatTarget final : public WorkloadTarget {
 public:
  FlatTarget(const FsmarkOptions& options, std::unique_ptr<BlockDevice> device, RamDevice* ram,
             std::optional<DefaultImage> image)
      : options_(options),
        image_(std::move(image)),
        device_(std::move(device)),
        ram_(ram),
        budget_(options.writeback.memory_bytes, kBudgetReserveBytes) {
    access_.files_per_loop = options.workload.files_per_thread;
  }
  ~FlatTarget() override {
    store_.reset();  // what is dirty is dropped, if shut_down() was not called or failed
    if (engine_ != nullptr) engine_->stop();
  }

  // The reason, or nothing.
  std::string start();

  std::string_view name() const override { return "flat"; }
  std::string description() const override;
  bool has_names() const override { return false; }
  bool keeps_data() const override { return device_->keeps_data(); }
  Result<void> make_directories(std::uint32_t) override { return {}; }
  std::unique_ptr<TargetThread> make_thread(std::uint32_t thread) override {
    return std::make_unique<FlatThread>(access_, thread);
  }
  Result<void> sync() override { return store_->sync(); }
  void interrupt() override { engine_->interrupt_waiters(); }
  Result<bool> remount() override;
  Result<void> shut_down() override {
    if (store_ == nullptr) return {};
    TW_TRY(store_->unmount());
    store_.reset();
    return {};
  }
  std::uint32_t used_percent() override {
    const FlatStoreStats stats = store_->stats();
    if (stats.total_blocks == 0) return 0;
    return static_cast<std::uint32_t>((stats.total_blocks - stats.free_blocks) * 100 / stats.total_blocks);
  }
  void start_observation() override {
    engine_->start_observation();
    device_at_start_ = device_->stats();
    most_charged_.store(0, std::memory_order_relaxed);
  }
  TargetGauges gauges() override;
  double oldest_dirty_age_ms() override { return engine_->stats().oldest_dirty_age.seconds() * 1e3; }
  std::optional<LoadMoments> moments() override;
  TargetFigures figures() override;

 private:
  FlatStoreOptions store_options() const;

  const FsmarkOptions options_;
  const std::optional<DefaultImage> image_;  // ends after the device
  const std::unique_ptr<BlockDevice> device_;
  RamDevice* const ram_;  // device_, or what lies beneath it; null: another kind
  MemoryBudget budget_;
  std::unique_ptr<WritebackEngine> engine_;
  std::unique_ptr<FlatStore> store_;
  FlatAccess access_;
  DeviceStats device_at_start_;
  // By the sampler's thread, which has ended when it is read. Relaxed.
  Atomic<std::uint64_t> most_charged_{0};
};

FlatStoreOptions FlatTarget::store_options() const {
  FlatStoreOptions store;
  store.memory_limit_bytes = options_.writeback.memory_bytes;
  store.device_bytes = options_.device.image_bytes.value_or(0);
  store.seed = options_.workload.seed;
  store.owners = options_.writeback.owners;
  return store;
}

std::string FlatTarget::start() {
  const WritebackOptions& writeback = options_.writeback;
  EngineOptions engine;
  engine.design = writeback.design;
  engine.shards = writeback.shards;
  engine.flushers = writeback.flushers != 0 ? writeback.flushers : default_flushers(writeback.design);
  engine.expire = writeback.expire;
  engine.interval = writeback.interval;
  engine.throttle = writeback.throttle;
  engine.background_bytes = writeback.background_bytes;
  engine.dirty_bytes = writeback.dirty_bytes;
  auto made = WritebackEngine::make(engine, std::make_unique<ThreadDriver>());
  if (!made) return "--design " + writeback.design + ": " + std::string(made.error().sentence());
  engine_ = std::move(made).value();
  access_.engine = engine_.get();
  auto store = FlatStore::format(*device_, *engine_, budget_, store_options());
  if (!store) {
    if (store.error().code == Reason::kNotEmpty) return foreign(options_.device);
    if (store.error().code == Reason::kNoMemory) {
      return "--memory: " + format_size(options_.writeback.memory_bytes) + " is more than the system gives";
    }
    return describe_device_failure(options_.device, store.error());
  }
  store_ = std::move(store).value();
  access_.store = store_.get();
  start_observation();
  return "";
}

std::string FlatTarget::description() const {
  std::string text = "flat store on " + std::string(device_->name()) + ", " + options_.writeback.design;
  if (options_.writeback.throttle != "hard-limit") text += ", throttle " + options_.writeback.throttle;
  if (options_.writeback.owners != 1) text += ", " + std::to_string(options_.writeback.owners) + " owners";
  if (options_.device.bandwidth != 0) text += ", device " + format_size(options_.device.bandwidth) + "/s";
  return text + ", memory " + about_size(options_.writeback.memory_bytes) + ", background " +
         about_size(options_.writeback.background_bytes) + ", dirty " +
         about_size(options_.writeback.dirty_bytes);
}

Result<bool> FlatTarget::remount() {
  TW_TRY(store_->unmount());
  store_.reset();
  access_.store = nullptr;
  auto store = FlatStore::mount(*device_, *engine_, budget_, store_options());
  if (!store) return Unexpected(store.error());
  store_ = std::move(store).value();
  access_.store = store_.get();
  return true;
}

TargetGauges FlatTarget::gauges() {
  const DeviceStats device = device_->stats();
  const std::uint64_t dirty = engine_->dirty_bytes();
  const std::uint64_t both = engine_->dirty_and_writeback_bytes();
  const std::uint64_t charged = engine_->charged_bytes();
  if (charged > most_charged_.load(std::memory_order_relaxed)) {
    most_charged_.store(charged, std::memory_order_relaxed);
  }
  return {.dirty_bytes = dirty,
          // Read one after the other while both move: never below 0.
          .writeback_bytes = both > dirty ? both - dirty : 0,
          .device_writes = device.writes,
          .device_write_bytes = device.write_bytes,
          .log_bytes = device.write_bytes_log,
          .throttled_threads = engine_->throttled_threads()};
}

std::optional<LoadMoments> FlatTarget::moments() {
  LoadMoments moments;
  if (const Instant at = engine_->background_passed_at(); at != Instant::max()) {
    moments.background_passed = at;
  }
  if (const Instant at = engine_->first_throttled_at(); at != Instant::max()) moments.first_throttled = at;
  return moments;
}

TargetFigures FlatTarget::figures() {
  const WritebackStats stats = engine_->stats();
  TargetFigures out;
  out.dirty_list = list_figures(stats);
  out.writeback = writeback_figures(stats);
  for (std::uint32_t owner = 0; store_->owners() > 1 && owner < store_->owners(); ++owner) {
    const WritebackStats own = engine_->stats(store_->context(owner));
    out.owners.push_back({list_figures(own), writeback_figures(own)});
  }
  out.throttle = ThrottleFigures{.policy = std::string(engine_->throttle()),
                                 .pauses = stats.throttle_pauses,
                                 .ns = stats.throttle_ns,
                                 .most_charged_bytes = most_charged_.load(std::memory_order_relaxed),
                                 .limit_bytes = engine_->options().dirty_bytes};
  if (const LatencySummary marks = engine_->mark_dirty_times(); marks.count != 0) out.mark_dirty = marks;
  if (const LatencySummary pauses = engine_->throttle_pauses(); pauses.count != 0) {
    out.throttle_pause = pauses;
  }
  out.device = difference(device_->stats(), device_at_start_);
  const FlatStoreStats store = store_->stats();
  out.memory = MemoryFigures{.limit = options_.writeback.memory_bytes,
                             .pages = store_->page_stats().pages * kPageBytes,
                             .inodes = store_->inode_stats().bytes,
                             .buffers = 0,
                             .index = store.index.bytes(),
                             .device = ram_ == nullptr ? 0 : ram_->resident_bytes()};
  return out;
}

}  // namespace

std::variant<std::unique_ptr<WorkloadTarget>, std::string> make_flat_target(const FsmarkOptions& options) {
  const DeviceOptions& device = options.device;
  std::optional<DefaultImage> image;
  DeviceSpec spec;
  spec.limits = {.bytes_per_s = device.bandwidth, .latency = device.latency};
  switch (device.kind) {
    case DeviceKind::kImage: {
      spec.kind = DeviceSpec::Kind::kFile;
      spec.path = device.image_path;
      spec.size_bytes = device.image_bytes.value_or(kDefaultImageBytes);
      if (device.image_is_default) {
        if (!device.image_is_locked) {
          auto locked = DefaultImage::lock(device.image_path);
          if (auto* why = std::get_if<std::string>(&locked)) return std::move(*why);
          image.emplace(std::get<0>(std::move(locked)));
        }
      } else if (!device.image_bytes) {
        std::error_code none;  // the open says why
        if (std::filesystem::file_size(device.image_path, none) > 0 && !none) spec.size_bytes = 0;
      }
      break;
    }
    case DeviceKind::kRam:
      spec.kind = DeviceSpec::Kind::kRam;
      spec.size_bytes = device.ram_bytes;
      break;
    case DeviceKind::kNull:
      spec.kind = DeviceSpec::Kind::kNull;
      spec.size_bytes = device.image_bytes.value_or(kDefaultImageBytes);
      break;
  }
  auto opened = open_device(spec);
  if (!opened) return describe_device_failure(device, opened.error());
  if (device.kind == DeviceKind::kImage && device.image_is_default) {
    // Away with the last run's store, which frees its space: in the same file, which is locked, and only when
    // it is a store or nothing.
    const auto content = probe_device(**opened);
    if (!content && content.error().code == Reason::kNotEmpty) return foreign(device);
    if (!content && content.error().code != Reason::kCorrupt) {
      return describe_device_failure(device, content.error());
    }
    const Result<void> renewed = (*opened)->renew(spec.size_bytes);
    if (!renewed && renewed.error().code != Reason::kUnsupported) {
      return describe_device_failure(device, renewed.error());
    }
  }
  RamDevice* ram = dynamic_cast<RamDevice*>(opened->get());
  if (auto* limited = dynamic_cast<LimitedDevice*>(opened->get()); limited != nullptr) {
    ram = dynamic_cast<RamDevice*>(&limited->beneath());
  }
  auto target = std::make_unique<FlatTarget>(options, std::move(opened).value(), ram, std::move(image));
  if (std::string why = target->start(); !why.empty()) return why;
  return std::unique_ptr<WorkloadTarget>(std::move(target));
}

}  // namespace tidewheel::bench
