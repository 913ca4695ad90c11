#include "fs/block/sim_device.h"

#include <algorithm>
#include <cstring>

namespace tidewheel {

namespace {

LockClass sim_device_class("sim-device", LockRank::kDevice);

}  // namespace

// For the heap functions, whose front is the greatest.
struct SimDevice::Later {
  bool operator()(const Flight& a, const Flight& b) const {
    return a.due != b.due ? a.due > b.due : a.sequence > b.sequence;
  }
};

SimDevice::SimDevice(const SimDeviceOptions& options)
    : size_bytes_(options.size_bytes - options.size_bytes % kBlockBytes),
      options_(options),
      clock_(SteadyClock::instance()),
      stepped_(false),
      lock_(sim_device_class),
      rng_(options.seed) {
  thread_ = Thread("tw-dev-sim", [this] { run_timer(); });
}

SimDevice::SimDevice(const SimDeviceOptions& options, const Clock& stepped)
    : size_bytes_(options.size_bytes - options.size_bytes % kBlockBytes),
      options_(options),
      clock_(stepped),
      stepped_(true),
      lock_(sim_device_class),
      rng_(options.seed) {}

SimDevice::~SimDevice() {
  {
    MutexLock lock(lock_);
    TW_ASSERT(heap_.empty(), "a device ends with requests in flight");
    stop_ = true;
    timer_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void SimDevice::submit(IoRequest& request) {
  Result<void> refused = check(request);
  if (refused) {
    MutexLock lock(lock_);
    if (!off_) {
      trace_issue(request);
      // Beside the request, which its owner keeps still: when it is due, and what a flush of it covers.
      Flight flight;
      flight.request = &request;
      flight.due = due_locked(request, clock_.now());
      flight.sequence = next_sequence_++;
      flight.covers = completions_;
      heap_.push_back(flight);
      std::push_heap(heap_.begin(), heap_.end(), Later{});
      if (heap_.front().sequence == flight.sequence) timer_.notify_one();
      return;
    }
    refused = TW_FAIL(kIo);
  }
  counts_.count(request, refused);
  request.done(request, refused);
}

Duration SimDevice::draw_latency_locked() {
  const auto spread = static_cast<std::uint64_t>(options_.spread.ns);
  return options_.latency + Duration{static_cast<std::int64_t>(rng_.below(spread + 1))};
}

Instant SimDevice::due_locked(const IoRequest& request, Instant now) {
  Duration after = draw_latency_locked();
  if (request.preflush) after += draw_latency_locked();
  if (request.op == IoOp::kFlush || options_.bytes_per_s == 0) return now + after;
  pipe_free_ = std::max(pipe_free_, now);
  // 128 bits: 1 TiB times 10^9 leaves 64 behind.
  const unsigned __int128 work = static_cast<unsigned __int128>(request.len_bytes()) * 1'000'000'000U;
  pipe_free_ = pipe_free_ + Duration{static_cast<std::int64_t>(work / options_.bytes_per_s)};
  return pipe_free_ + after;
}

bool SimDevice::pop_due_locked(Instant now, Flight& flight) {
  if (heap_.empty() || heap_.front().due > now) return false;
  std::pop_heap(heap_.begin(), heap_.end(), Later{});
  flight = heap_.back();
  heap_.pop_back();
  return true;
}

// Sectors of a write into blocks. Those of newest_ begin as durable_ has them, in both cases.
void SimDevice::store_locked(Blocks& blocks, const Cached& write, const std::vector<bool>& sectors) {
  for (std::size_t sector = 0; sector < sectors.size(); ++sector) {
    if (!sectors[sector]) continue;
    const std::uint64_t at = write.offset_bytes + sector * kSectorBytes;
    std::unique_ptr<Block>& block = blocks[at / kBlockBytes];
    if (block == nullptr) {
      const auto below = durable_.find(at / kBlockBytes);
      block = below != durable_.end() && below->second != nullptr ? std::make_unique<Block>(*below->second)
                                                                  : std::make_unique<Block>();
    }
    std::memcpy(block->data() + at % kBlockBytes, write.content.data() + sector * kSectorBytes, kSectorBytes);
  }
}

// Completed writes up to `covers` are durable, in the order in which they completed.
void SimDevice::make_durable_locked(std::uint64_t covers) {
  std::size_t n = 0;
  for (; n < cached_.size() && cached_[n].completion <= covers; ++n) {
    store_locked(durable_, cached_[n], cached_[n].live);
  }
  cached_.erase(cached_.begin(), cached_.begin() + static_cast<std::ptrdiff_t>(n));
}

SimDevice::Cached SimDevice::cached_of_locked(const Flight& flight) {
  const IoRequest& request = *flight.request;
  Cached write;
  write.completion = ++completions_;
  write.submitted_after = flight.covers;
  write.offset_bytes = request.offset_bytes;
  write.content.reserve(request.len_bytes());
  for (const IoSegment& segment : request.segments) {
    const auto* from = static_cast<const std::byte*>(segment.data);
    write.content.insert(write.content.end(), from, from + segment.len_bytes);
  }
  write.live.assign(write.content.size() / kSectorBytes, true);
  return write;
}

void SimDevice::carry_out_locked(const Flight& flight) {
  const IoRequest& request = *flight.request;
  if (request.op == IoOp::kFlush || request.preflush) make_durable_locked(flight.covers);
  if (request.op == IoOp::kFlush) return;
  std::uint64_t at = request.offset_bytes;
  if (request.op == IoOp::kRead) {
    for (const IoSegment& segment : request.segments) {
      auto* into = static_cast<std::byte*>(segment.data);
      for (std::uint64_t moved = 0; moved < segment.len_bytes; moved += kBlockBytes, at += kBlockBytes) {
        auto found = newest_.find(at / kBlockBytes);
        const bool cached = found != newest_.end();
        if (!cached) found = durable_.find(at / kBlockBytes);
        if (cached || found != durable_.end()) {
          std::memcpy(into + moved, found->second->data(), kBlockBytes);
        } else {
          std::memset(into + moved, 0, kBlockBytes);
        }
      }
    }
    return;
  }
  Cached write = cached_of_locked(flight);
  store_locked(newest_, write, write.live);
  if (!request.fua) {
    cached_.push_back(std::move(write));
    return;
  }
  store_locked(durable_, write, write.live);
  // What completed before this was submitted never comes back over it.
  const std::uint64_t end = write.offset_bytes + write.content.size();
  for (Cached& older : cached_) {
    if (older.completion > write.submitted_after) continue;
    for (std::size_t sector = 0; sector < older.live.size(); ++sector) {
      const std::uint64_t place = older.offset_bytes + sector * kSectorBytes;
      if (place >= write.offset_bytes && place < end) older.live[sector] = false;
    }
  }
}

void SimDevice::complete(const Flight& flight, Result<void> result) {
  counts_.count(*flight.request, result);
  trace_complete(*flight.request, result);
  flight.request->done(*flight.request, result);
}

void SimDevice::run_timer() {
  for (;;) {
    Flight flight;
    {
      MutexLock lock(lock_);
      for (;;) {
        const Instant now = clock_.now();
        if (pop_due_locked(now, flight)) break;
        if (stop_) return;
        if (heap_.empty()) {
          timer_.wait(lock_, CondVar::For::kWork);
        } else {
          timer_.wait_for(lock_, heap_.front().due - now);
        }
      }
      carry_out_locked(flight);
    }
    complete(flight, {});
  }
}

Instant SimDevice::next_due() const {
  MutexLock lock(lock_);
  return heap_.empty() ? Instant::max() : heap_.front().due;
}

std::size_t SimDevice::run_due() {
  TW_ASSERT(stepped_, "run_due() belongs to virtual time");
  for (std::size_t n = 0;; ++n) {
    Flight flight;
    {
      MutexLock lock(lock_);
      if (!pop_due_locked(clock_.now(), flight)) return n;
      carry_out_locked(flight);
    }
    complete(flight, {});
  }
}

void SimDevice::preload(std::uint64_t offset_bytes, std::span<const std::byte> content) {
  MutexLock lock(lock_);
  TW_ASSERT(heap_.empty() && offset_bytes % kBlockBytes == 0 && content.size() % kBlockBytes == 0,
            "preloaded in whole blocks, before the first request");
  for (std::uint64_t at = 0; at < content.size(); at += kBlockBytes) {
    auto block = std::make_unique<Block>();
    std::memcpy(block->data(), content.data() + at, kBlockBytes);
    durable_[(offset_bytes + at) / kBlockBytes] = std::move(block);
  }
}

void SimDevice::power_cut(std::uint64_t seed) {
  std::vector<Flight> ended;
  {
    MutexLock lock(lock_);
    off_ = true;
    ended.swap(heap_);
    std::sort(ended.begin(), ended.end(),
              [](const Flight& a, const Flight& b) { return a.sequence < b.sequence; });
    Rng rng(seed);
    // In flight: it may be on its way to the medium, and then what its preflush covers is there already.
    for (const Flight& flight : ended) {
      if (flight.request->op != IoOp::kWrite || rng.chance(2)) continue;
      if (flight.request->preflush) make_durable_locked(flight.covers);
      cached_.push_back(cached_of_locked(flight));
    }
    for (const Cached& write : cached_) {
      const std::uint64_t fate = rng.below(3);  // gone, torn, whole
      if (fate == 0) continue;
      std::vector<bool> sectors = write.live;
      for (std::size_t i = 0; fate == 1 && i < sectors.size(); ++i) sectors[i] = sectors[i] && rng.chance(2);
      store_locked(durable_, write, sectors);
    }
    cached_.clear();
    newest_.clear();
  }
  for (const Flight& flight : ended) complete(flight, TW_FAIL(kIo));
}

Result<void> SimDevice::lose_unflushed() {
  MutexLock lock(lock_);
  cached_.clear();
  newest_.clear();
  return {};
}

void SimDevice::power_on() {
  MutexLock lock(lock_);
  off_ = false;
}

std::size_t SimDevice::unflushed_writes() const {
  MutexLock lock(lock_);
  return cached_.size();
}

Result<bool> SimDevice::holds_data() {
  MutexLock lock(lock_);
  for (const Blocks* blocks : {&durable_, &newest_}) {
    for (const auto& [index, block] : *blocks) {
      if (!all_zero(*block)) return true;
    }
  }
  return false;
}

}  // namespace tidewheel
