#include "inode/lab/experiment.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>

#include "base/clock.h"
#include "inode/engine_sink.h"
#include "inode/inode_cache.h"
#include "writeback/context.h"
#include "writeback/driver_virtual.h"
#include "writeback/engine.h"

namespace tidewheel::lab {

namespace {

constexpr std::uint64_t kLeastMemory = 4ULL << 20;

// One transfer after the other; each is complete `latency` after its last byte.
class ModelDevice {
 public:
  ModelDevice(const ExperimentOptions& o) : latency_(o.device_latency), bytes_per_s_(o.device_bytes_per_s) {}
  Instant submit(Instant now, std::uint64_t bytes) {
    const double ns = static_cast<double>(bytes) * 1e9 / static_cast<double>(bytes_per_s_);
    free_at_ = std::max(now, free_at_) + Duration{static_cast<std::int64_t>(ns)};
    return free_at_ + latency_;
  }

 private:
  const Duration latency_;
  const std::uint64_t bytes_per_s_;
  Instant free_at_ = Instant::min();
};

class World final : public WritebackTarget, public InodeSource, public DirtySink {
 public:
  explicit World(const ExperimentOptions& options)
      : options_(options),
        driver_(new VirtualDriver(clock_)),
        device_(options),
        budget_(options.memory_bytes, 0) {}
  ~World() override;
  std::string set_up();
  void run(const std::vector<Access>& accesses, Experiment& into);

  // ---- the engine's target ----
  WriteEstimate estimate(const DirtyObject& object) const override {
    const Inode& inode = Inode::from(object);
    return {inode.number(), inode.mapping().dirty_bytes()};
  }
  void write_batch(Batch& batch) override;
  void end_batch(Batch& batch) override;
  Result<void> flush() override { return {}; }

  // ---- where the page cache reads ----
  Result<void> load(Inode& inode) override {
    inode.set_size(sizes_.at(inode.number()));
    inode.set_context(context_->id());
    inode.set_hash(static_cast<std::uint8_t>(inode.number()));
    return {};
  }
  Result<void> read_pages(Inode&, std::uint64_t, std::span<Page* const> pages) override {
    for (Page* page : pages) std::memset(page->data, 0, kPageBytes);
    ++row_.device_reads;
    driver_->run_until(device_.submit(clock_.now(), pages.size() * kPageBytes));
    return {};
  }
  void truncate(Inode&, std::uint64_t) override {}
  void evict(Inode&) override {}
  void inactivate(Inode&) override {}

  // ---- between page cache and engine ----
  Result<DirtyTicket> balance_dirty_pages(Inode& inode, std::uint64_t bytes, TaskThrottle* task) override;
  void mark_dirty(Inode& inode, std::uint32_t classes, Instant now, DirtyTicket* ticket) override {
    sink_->mark_dirty(inode, classes, now, ticket);
  }
  void account_dirtied(Inode& inode, std::uint64_t bytes, DirtyTicket* ticket) override {
    row_.dirtied_bytes += bytes;
    sink_->account_dirtied(inode, bytes, ticket);
  }
  void account_writeback_started(Inode& inode, std::uint64_t bytes) override {
    sink_->account_writeback_started(inode, bytes);
  }
  void account_cleaned(Inode& inode, std::uint64_t bytes) override {
    row_.cleaned_bytes += bytes;
    sink_->account_cleaned(inode, bytes);
  }
  void account_redirtied(Inode& inode, std::uint64_t bytes) override {
    sink_->account_redirtied(inode, bytes);
  }
  void account_cancelled(Inode& inode, std::uint64_t bytes) override {
    row_.cleaned_bytes += bytes;
    sink_->account_cancelled(inode, bytes);
  }
  void cancel(Inode& inode) override { sink_->cancel(inode); }
  // The page cache would wait for it in real time, and here only the caller can make time go on.
  bool request_writeback(std::uint64_t) override { return false; }

 private:
  std::string access_one(const Access& access);
  bool present(Inode& inode, std::uint64_t index);
  bool under_writeback(Inode& inode, std::uint64_t index);
  void take_sample();
  static void sample(void* world, std::uint64_t);
  static void written(void*, std::uint64_t batch) { reinterpret_cast<Batch*>(batch)->complete(); }

  const ExperimentOptions options_;
  VirtualClock clock_{Instant{0} + seconds(1000)};
  const Instant start_ = clock_.now();
  VirtualDriver* const driver_;  // the engine's, once there is one
  ModelDevice device_;
  MemoryBudget budget_;
  std::unique_ptr<WritebackEngine> engine_;
  WritebackContext* context_ = nullptr;
  std::unique_ptr<EngineSink> sink_;
  std::unique_ptr<PageArena> arena_;
  std::unique_ptr<PageCache> pages_;
  std::unique_ptr<InodeCache> inodes_;
  std::map<InodeNumber, std::uint64_t> sizes_;
  std::map<InodeNumber, InodeHold> held_;
  std::vector<std::unique_ptr<WritebackPages>> free_pages_;
  std::uint64_t next_index_ = 0;  // the page that is being written
  TimelineRow row_;
  std::vector<TimelineRow>* timeline_ = nullptr;
  bool sampling_ = false;
  std::vector<std::byte> buffer_;
};

std::string World::set_up() {
  EngineOptions o;
  o.design = options_.design;
  o.throttle = options_.throttle;
  o.expire = options_.expire;
  o.interval = options_.interval;
  o.background_bytes = options_.background_bytes;
  o.dirty_bytes = options_.dirty_bytes;
  if (options_.batch_bytes != 0) o.batch_bytes = options_.batch_bytes;
  o.counter_chunk_bytes = 0;  // thresholds are noticed to the byte
  o.clock = &clock_;
  auto made = WritebackEngine::make(o, std::unique_ptr<Driver>(driver_));
  if (!made) return "the engine does not accept these options (limits, expire, interval)";
  engine_ = std::move(*made);
  context_ = engine_->add_context(*this);
  sink_ = std::make_unique<EngineSink>(*engine_);
  auto arena = PageArena::make(
      budget_, {.max_bytes = options_.memory_bytes, .reserve_bytes = 16 * kPageBytes, .huge_pages = false});
  if (!arena) return "no memory for the pages";
  arena_ = std::move(*arena);
  pages_ = std::make_unique<PageCache>(*arena_, *this, PageCacheOptions{.reclaim = options_.reclaim});
  inodes_ = std::make_unique<InodeCache>(
      *pages_, *this, InodeCacheOptions{.memory_limit_bytes = 1 << 20, .reclaim = "two-list"});
  return {};
}

World::~World() {
  if (engine_ == nullptr) {
    // make() takes the driver along also when it fails.
    return;
  }
  for (auto& [number, inode] : held_) {
    sink_->cancel(*inode);
    pages_->drop_all(*inode);
    inode.reset();
  }
  inodes_.reset();
  pages_.reset();
  engine_->stop();
}

void World::write_batch(Batch& batch) {
  std::unique_ptr<WritebackPages> all;
  if (free_pages_.empty()) {
    all = std::make_unique<WritebackPages>();
  } else {
    all = std::move(free_pages_.back());
    free_pages_.pop_back();
  }
  all->clear();
  const bool integrity = batch.kind() == WorkKind::kSync || batch.kind() == WorkKind::kFsync;
  for (WriteSlot& slot : batch.slots()) {
    const std::size_t first = all->pages.size();
    const std::uint64_t most = std::clamp<std::uint64_t>(slot.limit_bytes / kPageBytes, 1, UINT32_MAX);
    Inode& inode = Inode::from(*slot.object);
    if (integrity) pages_->tag_to_write(inode, *all);
    pages_->begin_writeback(inode, *all, static_cast<std::uint32_t>(most),
                            integrity ? PageTag::kToWrite : PageTag::kDirty);
    slot.outcome = all->more ? WriteOutcome::kPartial : WriteOutcome::kWritten;
    const std::size_t taken = all->pages.size() - first;
    slot.written_bytes = taken * kPageBytes;
    slot.target_data = reinterpret_cast<void*>(taken);
  }
  const std::uint64_t bytes = all->bytes();
  batch.io = {all->pages.size(), bytes, 1};
  batch.target_data = all.release();
  ++row_.device_writes;
  driver_->post(device_.submit(clock_.now(), bytes), &World::written, nullptr,
                reinterpret_cast<std::uint64_t>(&batch));
}

void World::end_batch(Batch& batch) {
  std::unique_ptr<WritebackPages> all(static_cast<WritebackPages*>(batch.target_data));
  std::span<Page* const> rest = all->pages;
  for (WriteSlot& slot : batch.slots()) {
    const auto count = reinterpret_cast<std::size_t>(slot.target_data);
    Inode& inode = Inode::from(*slot.object);
    pages_->end_writeback(inode, rest.first(count), true);
    inodes_->end_write(inode);
    rest = rest.subspan(count);
  }
  free_pages_.push_back(std::move(all));
}

// Once it is granted, time goes on until the page may be written: a page under writeback is stable, and the
// page cache would wait for it where nothing but this thread can end that.
Result<DirtyTicket> World::balance_dirty_pages(Inode& inode, std::uint64_t bytes, TaskThrottle* task) {
  Result<DirtyTicket> ticket = sink_->balance_dirty_pages(inode, bytes, task);
  if (!ticket) return ticket;
  if (const Duration paused = ticket->grant.paused(); paused.ns != 0) {
    ++row_.pauses;
    row_.paused += paused;
  }
  while (under_writeback(inode, next_index_)) {
    if (!driver_->run_one()) return TW_FAIL(kIo);  // a batch that never ends
  }
  return ticket;
}

bool World::present(Inode& inode, std::uint64_t index) {
  MutexLock lock(inode.mapping().mutex());
  return inode.mapping().find_locked(index) != nullptr;
}

bool World::under_writeback(Inode& inode, std::uint64_t index) {
  MutexLock lock(inode.mapping().mutex());
  const Page* page = inode.mapping().find_locked(index);
  return page != nullptr && page->tagged(PageTag::kWriteback);
}

std::string World::access_one(const Access& access) {
  InodeHold& hold = held_[access.inode];
  if (!hold) {
    auto got = inodes_->get(access.inode);
    if (!got) return "inode " + std::to_string(access.inode) + " does not fit into memory";
    hold = std::move(*got);
  }
  Inode& inode = *hold;
  const std::uint64_t end = access.offset + access.length;
  for (std::uint64_t at = access.offset; at < end;) {
    const std::uint64_t index = at / kPageBytes;
    const std::uint64_t length = std::min(end, (index + 1) * kPageBytes) - at;
    const bool hit = present(inode, index);
    ++row_.accesses;
    ++(hit ? row_.hits : row_.misses);
    // Page by page: what the page cache does between two pages of one call would take no virtual time.
    next_index_ = index;
    const std::span<std::byte> part = std::span(buffer_).first(length);
    const Result<std::uint64_t> done = access.kind == AccessKind::kWrite
                                           ? pages_->write(inode, at, part, clock_.now())
                                           : pages_->read(inode, at, part);
    if (!done && done.error().code == Reason::kNoMemory) {
      return "no page is free and reclaim policy '" + options_.reclaim + "' gives none back";
    }
    if (!done) return std::string(sentence_of(done.error().code));
    at += length;
  }
  return {};
}

void World::take_sample() {
  const PageCacheStats pages = pages_->stats();
  row_.at = clock_.now() - start_;
  row_.dirty_bytes = pages.dirty_pages * kPageBytes;
  row_.writeback_bytes = pages.writeback_pages * kPageBytes;
  row_.cached_bytes = pages.pages * kPageBytes;
  row_.charged_bytes = engine_->charged_bytes();
  timeline_->push_back(row_);
}

void World::sample(void* world, std::uint64_t) {
  auto& self = *static_cast<World*>(world);
  if (!self.sampling_) return;
  self.take_sample();
  self.driver_->post(self.clock_.now() + self.options_.sample, &World::sample, world);
}

void World::run(const std::vector<Access>& accesses, Experiment& into) {
  for (const Access& access : accesses) {
    std::uint64_t& size = sizes_[access.inode];
    size = std::max(size, access.offset + access.length);
  }
  buffer_.assign(kPageBytes, std::byte{0x77});
  timeline_ = &into.timeline;
  sampling_ = true;
  sample(this, 0);
  for (const Access& access : accesses) {
    if (clock_.now() < start_ + access.at) driver_->run_until(start_ + access.at);
    into.error = access_one(access);
    if (!into.error.empty()) break;
  }
  if (into.error.empty() && !engine_->sync(*context_)) into.error = "the last sync failed";
  sampling_ = false;
  take_sample();
}

std::string flaw_of(const ExperimentOptions& o, const std::vector<Access>& accesses) {
  if (find_dirty_list_design(o.design) == nullptr) return "design '" + o.design + "' is not registered";
  if (find_throttle_policy(o.throttle) == nullptr) return "throttle '" + o.throttle + "' is not registered";
  if (make_reclaim_policy(o.reclaim) == nullptr) {
    return "reclaim policy '" + o.reclaim + "' is not registered";
  }
  if (o.memory_bytes < kLeastMemory) return "memory_bytes is at least 4 MiB";
  if (o.dirty_bytes > o.memory_bytes / 2) return "dirty_bytes is at most half of memory_bytes";
  if (o.device_bytes_per_s == 0) return "device_bytes_per_s is at least 1";
  if (o.device_latency.ns < 0) return "device_latency is not negative";
  if (o.sample.ns <= 0) return "sample is more than 0";
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    const Access& a = accesses[i];
    const std::string which = "access " + std::to_string(i + 1);
    if (i != 0 && a.at < accesses[i - 1].at) return which + " is earlier than the one before it";
    if (a.at.ns < 0) return which + " is before the beginning";
    if (a.length == 0 || a.length > kLongestAccess) return which + ": a length is from 1 byte to 1 GiB";
    if (a.offset > static_cast<std::uint64_t>(INT64_MAX) - a.length) return which + " ends beyond 2^63 - 1";
  }
  return {};
}

}  // namespace

Experiment run_experiment(const ExperimentOptions& options, const std::vector<Access>& accesses) {
  Experiment experiment;
  experiment.error = flaw_of(options, accesses);
  if (!experiment.error.empty()) return experiment;
  World world(options);
  experiment.error = world.set_up();
  if (experiment.error.empty()) world.run(accesses, experiment);
  return experiment;
}

Experiment run_experiment(const ExperimentOptions& options, const Accesses& accesses) {
  if (!accesses.error.empty()) return {.error = accesses.error, .timeline = {}};
  return run_experiment(options, accesses.list);
}

double Experiment::hit_ratio() const {
  if (timeline.empty() || timeline.back().accesses == 0) return 0;
  return static_cast<double>(timeline.back().hits) / static_cast<double>(timeline.back().accesses);
}

std::string Experiment::to_csv() const {
  std::string csv =
      "time_s,dirty_bytes,writeback_bytes,cached_bytes,accesses,hits,misses,pauses,paused_ms,dirtied_bytes,"
      "cleaned_bytes,device_reads,device_writes,charged_bytes\n";
  char line[320];
  for (const TimelineRow& r : timeline) {
    const auto u = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
    const int length = std::snprintf(
        line, sizeof(line),
        "%lld.%06lld,%llu,%llu,%llu,%llu,%llu,%llu,%llu,%lld.%03lld,%llu,%llu,%llu,%llu,%llu\n",
        static_cast<long long>(r.at.ns / 1'000'000'000), static_cast<long long>(r.at.ns / 1000 % 1'000'000),
        u(r.dirty_bytes), u(r.writeback_bytes), u(r.cached_bytes), u(r.accesses), u(r.hits), u(r.misses),
        u(r.pauses), static_cast<long long>(r.paused.ns / 1'000'000),
        static_cast<long long>(r.paused.ns / 1000 % 1000), u(r.dirtied_bytes), u(r.cleaned_bytes),
        u(r.device_reads), u(r.device_writes), u(r.charged_bytes));
    csv.append(line, static_cast<std::size_t>(length));
  }
  return csv;
}

}  // namespace tidewheel::lab
