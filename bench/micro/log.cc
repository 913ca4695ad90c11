// Question: what does a commit cost in memory, in time, locks, allocations and bytes of log, with one thread
// and with two? What does a force cost, and how many device flushes do many of them take together? How often
// does each variant of the AIL's pusher force the log?
// Expected: a commit of one small item 60 to 90 ns beyond formatting it (grants, one lock, one order id),
// and nothing allocated while it is relogged or finds what written checkpoints gave back; two threads meet
// on the grant heads and the order id alone. A force costs two hand-overs between threads; eight threads
// share checkpoints. walk-async forces at most once per walk, pass at most once per pass.
//
// Ways: `small` an item of an inode's size, by the log's own calls; `buffer` a transaction that changes 64
// bytes of one block, the same each time; `create` one that changes an inode's item, a group's header, a
// block of its tree and the next 64 bytes of a directory's block, half of which is dirty on average.
// `format` is the floor: a small item is locked and formatted, and nothing else. The device drops what is
// written.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "base/lock_class.h"
#include "base/rng.h"
#include "base/thread.h"
#include "bench/micro/interleaved.h"
#include "fs/block/limited_device.h"
#include "fs/block/null_device.h"
#include "fs/format/log_sizes.h"
#include "fs/item/log_image.h"
#include "fs/trans/transaction.h"

namespace {
bool counting = false;  // written while one thread runs
std::uint64_t allocations = 0;
}  // namespace

// Not inlined: the compiler would take free() beside its own operator new for a mistake.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (__builtin_expect(static_cast<int>(counting), 0) != 0) {
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
  }
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tidewheel {
namespace {

constexpr std::uint64_t kDeviceBlocks = 1 << 20;
constexpr std::uint64_t kLogStart = 1 << 18;  // block
constexpr std::uint32_t kObjects = 1024;      // of each kind, per thread
constexpr std::uint32_t kBlocks = 2 * kObjects;  // the second half for creates
constexpr std::uint32_t kMaxThreads = 8;
constexpr std::uint32_t kPushAllEvery = 4'000;  // changes of one thread

LockClass object_class{"bench-object", LockRank::kNone};

// An inode's item in shape: 56 bytes of head, 192 of content. It has no home: pushed, it is there.
class SmallItem final : public LogItem {
 public:
  SmallItem() : lock(object_class) {}
  LogSize size() const noexcept override { return {2, sizeof head + sizeof content}; }
  void format(LogVectorWriter& out) noexcept override {
    out.region(std::as_bytes(std::span(head)));
    out.region(std::as_bytes(std::span(content)));
  }
  void pin() noexcept override { pins.fetch_add(1, std::memory_order_relaxed); }
  void unpin(bool) noexcept override { pins.fetch_sub(1, std::memory_order_release); }
  void committing(std::uint64_t) noexcept override TW_NO_THREAD_SAFETY_ANALYSIS { lock.unlock(); }
  void release() noexcept override TW_NO_THREAD_SAFETY_ANALYSIS { lock.unlock(); }
  PushResult push(PushScope& scope) noexcept override TW_NO_THREAD_SAFETY_ANALYSIS {
    if (!lock.try_lock()) return PushResult::kLocked;
    const bool pinned = pins.load(std::memory_order_acquire) != 0;
    const Lsn written = lsn;
    if (!pinned) scope.drop_list_lock();
    lock.unlock();
    if (pinned) return PushResult::kPinned;
    ail->remove_if_unchanged(*this, written);
    return PushResult::kPushed;
  }

  Mutex lock;
  Ail* ail = nullptr;
  Atomic<std::int32_t> pins{0};
  std::array<std::uint64_t, 7> head{};
  std::array<std::uint64_t, 24> content{};
};

disk::Geometry geometry() {
  disk::Geometry geometry;
  geometry.device_blocks = kDeviceBlocks;
  geometry.ag_blocks = kDeviceBlocks;
  geometry.ag_count = 1;
  geometry.ag_block_log = 20;
  geometry.log_start = {kLogStart};
  return geometry;
}

struct Setup {
  std::uint32_t threads = 1;
  std::uint64_t log_bytes = 512ULL << 20;
  std::uint64_t soft_bytes = 0;
  AilForce force = AilForce::kEachWalk;
  Duration latency{0};  // of each request; 0: none, on the caller's thread
  std::uint32_t items = kObjects;  // per thread
};

class Machine {
 public:
  explicit Machine(const Setup& setup)
      : items_per_thread_(setup.items),
        device_(make_device(setup.latency)),
        budget_(2ULL << 30, 0),
        cache_(budget_, {.expected_buffers = kBlocks * setup.threads}),
        target_(cache_, *device_, geometry()),
        items_(std::make_unique<SmallItem[]>(setup.items * setup.threads)) {
    for (LogImage::Owned& image : images_) image = LogImage::make(512);
    JournalOptions options;
    options.log.soft_bytes = setup.soft_bytes;
    options.log.worker_interval = Duration::max();
    options.ail_force = setup.force;
    const LogPlace place{.offset_bytes = kLogStart * kFsBlockBytes,
                         .sectors = static_cast<std::uint32_t>(setup.log_bytes / kLogSectorBytes),
                         .uuid = geometry().uuid};
    const Lsn start = Lsn::make(1, 0);
    journal_ = std::make_unique<Journal>(target_, place, LogPosition{.tail = start, .head = start}, options);
    for (std::uint32_t i = 0; i < setup.items * setup.threads; ++i) items_[i].ail = &journal_->ail();
    for (std::uint32_t i = 0; i < kBlocks * setup.threads; ++i) make_block({1 + std::uint64_t{i}});
    must(journal_->quiesce());
  }
  ~Machine() {
    must(journal_->quiesce());
    journal_->close();
  }

  void format(std::uint32_t thread, std::uint32_t i) TW_NO_THREAD_SAFETY_ANALYSIS {
    SmallItem& item = items_[thread * items_per_thread_ + i % kObjects];
    MutexLock hold(item.lock);
    ++item.content[0];
    const LogItem::LogSize size = item.size();
    LogVectorWriter writer(*images_[thread]);
    benchmark::DoNotOptimize(size);
    item.format(writer);
  }
  void small(std::uint32_t thread, std::uint32_t i) { small_commit(thread, i); }
  // Answers the sequence to force.
  std::uint64_t small_commit(std::uint32_t thread, std::uint32_t i) TW_NO_THREAD_SAFETY_ANALYSIS {
    Log& log = journal_->log();
    auto ticket = log.reserve(kSmallBytes, 1, false);
    must(ticket);
    SmallItem& item = items_[thread * items_per_thread_ + i % kObjects];
    item.lock.lock();
    ++item.content[0];
    LogItem* const one[] = {&item};
    const std::uint64_t sequence = log.commit(one, *ticket);
    log.end(*ticket);
    return sequence;
  }
  void buffer(std::uint32_t thread, std::uint32_t i) {
    auto transaction = Transaction::begin(*journal_, {.payload_bytes = disk::log_bytes_of_buffer(1)});
    must(transaction);
    change(*transaction, block(thread, i % kObjects), 0);
    must(transaction->commit());
  }
  // The blocks of directories are changed 62 times each, then comes the next.
  void create(std::uint32_t thread, std::uint32_t i) TW_NO_THREAD_SAFETY_ANALYSIS {
    auto transaction = Transaction::begin(
        *journal_, {.payload_bytes = 3 * disk::log_bytes_of_buffer(1) + kSmallBytes});
    must(transaction);
    change(*transaction, block(thread, kObjects), 0);
    change(*transaction, block(thread, kObjects + 1 + i / 4096 % 16), i / 64 % 4);
    change(*transaction, block(thread, kObjects + 64 + i / 62 % 512), i);
    SmallItem& item = items_[thread * items_per_thread_ + i % kObjects];
    item.lock.lock();
    ++item.content[0];
    transaction->join(item);
    transaction->log(item);
    must(transaction->commit());
  }
  // Any item and any block: what is in the log from long ago is changed again now and then.
  void scattered(std::uint32_t thread, std::uint32_t i) TW_NO_THREAD_SAFETY_ANALYSIS {
    auto transaction = Transaction::begin(
        *journal_, {.payload_bytes = disk::log_bytes_of_buffer(1) + kSmallBytes});
    must(transaction);
    const std::uint64_t draw = Rng(i).next();
    change(*transaction, block(thread, static_cast<std::uint32_t>(draw % kBlocks)), i);
    SmallItem& item = items_[thread * items_per_thread_ + (draw >> 32) % items_per_thread_];
    item.lock.lock();
    ++item.content[0];
    transaction->join(item);
    transaction->log(item);
    must(transaction->commit());
  }
  void scattered_and_pushed(std::uint32_t thread, std::uint32_t i) {
    scattered(thread, i);
    if (thread == 0 && i % kPushAllEvery == kPushAllEvery - 1) ail().push_all();
  }
  Log& log() { return journal_->log(); }
  Ail& ail() { return journal_->ail(); }

  template <class T>
  static void must(const T& result) {
    if (!result.has_value()) std::abort();
  }

 private:
  static constexpr std::uint32_t kSmallBytes = 56 + 192 + 2 * LogVectorWriter::kOpBytes;

  static std::unique_ptr<BlockDevice> make_device(Duration latency) {
    auto device = std::make_unique<NullDevice>(kDeviceBlocks * kFsBlockBytes);
    if (latency.ns == 0) return device;
    return std::make_unique<LimitedDevice>(std::move(device),
                                           DeviceLimits{.bytes_per_s = 0, .latency = latency});
  }
  static DeviceAddress block(std::uint32_t thread, std::uint32_t i) {
    return {1 + thread * std::uint64_t{kBlocks} + i};
  }
  void make_block(DeviceAddress address) {
    auto transaction = Transaction::begin(*journal_, {.payload_bytes = disk::log_bytes_of_buffer(1)});
    must(transaction);
    const auto made = transaction->make(address, 1, disk::BlockType::kMock);
    must(made);
    disk::start_block((*made)->bytes(), disk::kMockMagic, geometry().uuid, address, address.value);
    transaction->log_all(**made);
    must(transaction->commit());
  }
  // 64 bytes, the n-th of those behind the block's head.
  static void change(Transaction& transaction, DeviceAddress address, std::uint32_t n) {
    const auto read = transaction.read(address, 1, disk::BlockType::kMock);
    must(read);
    const std::uint32_t at = 128 + n % 62 * 64;
    (*read)->bytes()[at] = std::byte(n);
    transaction.log(**read, at, at + 63);
  }

  const std::uint32_t items_per_thread_;
  std::array<LogImage::Owned, kMaxThreads> images_;
  std::unique_ptr<BlockDevice> device_;
  MemoryBudget budget_;
  BufferCache cache_;
  BufferTarget target_;
  std::unique_ptr<SmallItem[]> items_;
  std::unique_ptr<Journal> journal_;
};

using Work = void (Machine::*)(std::uint32_t thread, std::uint32_t i);

void run(Machine& machine, std::uint32_t threads, std::uint32_t commits, Work work) {
  const auto loop = [&](std::uint32_t thread) {
    for (std::uint32_t i = 0; i < commits; ++i) (machine.*work)(thread, i);
  };
  if (threads == 1) return loop(0);
  std::vector<Thread> all;
  for (std::uint32_t t = 0; t < threads; ++t) all.emplace_back("commit", [&loop, t] { loop(t); });
  for (Thread& thread : all) thread.join();
}

double process_cpu_ns() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ns = [](const timeval& time) {
    return 1e9 * static_cast<double>(time.tv_sec) + 1e3 * static_cast<double>(time.tv_usec);
  };
  return ns(usage.ru_utime) + ns(usage.ru_stime);
}

std::uint64_t locks_taken() {
  std::uint64_t all = 0;
  for (const LockClassStats& stats : lock_statistics()) all += stats.acquisitions;
  return all;
}

// One thread, outside of the timed rounds.
void count(benchmark::State& state, Machine& machine, const char* name, Work work) {
  constexpr std::uint32_t kCommits = 20'000;
  run(machine, 1, kObjects, work);
  const LogStats before = machine.log().stats();
  const std::uint64_t locks = locks_taken();
  allocations = 0;
  counting = true;
  run(machine, 1, kCommits, work);
  counting = false;
  const LogStats after = machine.log().stats();
  const auto per_commit = [&](std::uint64_t n) { return static_cast<double>(n) / kCommits; };
  const std::string of(name);
  state.counters[of + "_allocations"] = per_commit(allocations);
  state.counters[of + "_locks"] = per_commit(locks_taken() - locks);
  state.counters[of + "_op_bytes"] = per_commit(after.cil.operation_bytes - before.cil.operation_bytes);
  state.counters[of + "_log_bytes"] = per_commit(after.buffers.bytes - before.buffers.bytes);
  if (after.cil.commits - before.cil.commits != kCommits) state.SkipWithError("a commit is missing");
}

struct Measured {
  const char* name;
  Work work;
};
constexpr Measured kWays[] = {{"format", &Machine::format},
                              {"small", &Machine::small},
                              {"buffer", &Machine::buffer},
                              {"create", &Machine::create}};

void commits(benchmark::State& state, const Setup& setup, std::uint32_t rounds, std::uint32_t each) {
  Machine machine(setup);
  std::vector<bench::Way> ways;
  std::array<double, std::size(kWays)> cpu_ns{};
  std::array<std::uint64_t, std::size(kWays)> done{};
  for (std::size_t i = 0; i < std::size(kWays); ++i) {
    for (std::uint32_t t = 0; t < setup.threads; ++t) {
      for (std::uint32_t n = 0; n < kObjects; ++n) (machine.*kWays[i].work)(t, n);
    }
    ways.push_back({std::string(kWays[i].name) + "_ns", [&, i] {
                      const double cpu = process_cpu_ns();
                      const bench::Stopwatch watch;
                      run(machine, setup.threads, each, kWays[i].work);
                      const double ns = watch.ns();
                      cpu_ns[i] += process_cpu_ns() - cpu;
                      done[i] += std::uint64_t{each} * setup.threads;
                      return ns / each;
                    }});
  }
  bench::interleave(state, static_cast<int>(rounds), ways);
  for (std::size_t i = 0; i < std::size(kWays); ++i) {
    const std::string name(kWays[i].name);
    state.counters[name + "_cpu_ns"] = cpu_ns[i] / static_cast<double>(done[i]);
    if (i == 0) continue;
    state.counters[name + "_M/s"] = 1e3 * setup.threads / state.counters["lowest_" + name + "_ns"].value;
    state.counters[name + "_median_M/s"] = 1e3 * setup.threads / state.counters[name + "_ns"].value;
    count(state, machine, kWays[i].name, kWays[i].work);
  }
}

// Everything is in the open checkpoint already: what a commit itself costs.
void commit_relogged(benchmark::State& state) {
  commits(state, {.threads = static_cast<std::uint32_t>(state.range(0))}, 15, 50'000);
}
BENCHMARK(commit_relogged)->Arg(1)->Arg(2)->Iterations(1)->UseManualTime();

// Checkpoints of 256 KiB are closed, written and brought home meanwhile, and most items enter anew: cpu_ns
// has the work of all threads.
void commit_with_checkpoints(benchmark::State& state) {
  commits(state,
          {.threads = static_cast<std::uint32_t>(state.range(0)),
           .log_bytes = 64ULL << 20,
           .soft_bytes = 256 << 10},
          9, 30'000);
}
BENCHMARK(commit_with_checkpoints)->Arg(1)->Arg(2)->Iterations(1)->UseManualTime();

// Each thread forces each of its commits. The device takes 100 us for a request.
void force(benchmark::State& state) {
  constexpr std::uint32_t kForces = 2'000;
  const auto threads = static_cast<std::uint32_t>(state.range(0));
  Machine machine({.threads = threads, .latency = microseconds(state.range(1))});
  const LogStats before = machine.log().stats();
  double ns = 0;
  for (auto _ : state) {
    const bench::Stopwatch watch;
    std::vector<Thread> all;
    for (std::uint32_t t = 0; t < threads; ++t) {
      all.emplace_back("force", [&machine, t, threads] {
        for (std::uint32_t i = 0; i < kForces / threads; ++i) {
          Machine::must(machine.log().force(machine.small_commit(t, i)));
        }
      });
    }
    for (Thread& thread : all) thread.join();
    ns = watch.ns();
    state.SetIterationTime(ns * 1e-9);
  }
  const LogStats after = machine.log().stats();
  const double forces = kForces / threads * threads;
  state.counters["ns_per_force"] = ns / forces;
  state.counters["checkpoints_per_force"] =
      static_cast<double>(after.checkpoints - before.checkpoints) / forces;
  state.counters["flushes_per_force"] =
      static_cast<double>(after.buffers.flushes - before.buffers.flushes) / forces;
}
BENCHMARK(force)
    ->ArgsProduct({{1, 2, 8}, {0, 100}})
    ->ArgNames({"threads", "device_us"})
    ->Iterations(1)
    ->UseManualTime();

// Two threads over a device that takes its time. There are about as many things as the log has room for, and
// any of them is changed next: of those that the pusher comes to, one in ten or so is in the open checkpoint
// again, or in one that is being written, and so pinned. `full`: the log is always full, and the pusher keeps
// on making a little room: a walk is one pass, and the variants hardly differ. Else it has room, and now and
// then everything is to go home, as the log's worker asks every 30 s: a walk takes many passes.
void forces_per_walk(benchmark::State& state) {
  constexpr std::uint32_t kChanges = 60'000;
  const bool full = state.range(1) != 0;
  constexpr std::uint32_t kThreads = 2;
  const auto variant = static_cast<AilForce>(state.range(0));
  Machine machine(
      {.threads = kThreads,
       .log_bytes = full ? 4ULL << 20 : 64ULL << 20,
       .soft_bytes = 512 << 10,
       .force = variant,
       .latency = microseconds(100),
       .items = full ? 4096U : 16384U});
  const AilStats before = machine.ail().stats();
  for (auto _ : state) {
    const bench::Stopwatch watch;
    run(machine, kThreads, kChanges, full ? &Machine::scattered : &Machine::scattered_and_pushed);
    state.SetIterationTime(watch.ns() * 1e-9);
  }
  const AilStats after = machine.ail().stats();
  const auto walks = static_cast<double>(after.walks - before.walks);
  const auto forces = static_cast<double>(after.forces - before.forces);
  constexpr const char* kNames[] = {"walk-async", "walk-sync", "pass"};
  state.SetLabel(kNames[state.range(0)]);
  if (after.pinned == before.pinned) state.SkipWithError("the pusher has met nothing pinned");
  state.counters["forces"] = forces;
  state.counters["walks"] = walks;
  state.counters["forces_per_walk"] = forces / walks;
  state.counters["passes_per_walk"] = static_cast<double>(after.passes - before.passes) / walks;
  state.counters["pinned"] = static_cast<double>(after.pinned - before.pinned);
  state.counters["locked"] = static_cast<double>(after.locked - before.locked);
  state.counters["pushed"] = static_cast<double>(after.pushed - before.pushed);
  state.counters["space_waits"] = static_cast<double>(machine.log().stats().waits_for_space);
}
BENCHMARK(forces_per_walk)
    ->ArgsProduct({{0, 1, 2}, {0, 1}})
    ->ArgNames({"variant", "full"})
    ->Iterations(1)
    ->UseManualTime();

}  // namespace
}  // namespace tidewheel
