// tests/fs/io.h: block-aligned memory and a counting set of requests in flight, for tests of devices.
#pragma once
#include <cstdlib>
#include <cstring>
#include <deque>
#include <span>
#include <vector>

#include "base/rng.h"
#include "base/sync.h"
#include "fs/block/block_device.h"

namespace tidewheel {

class AlignedBytes {
 public:
  explicit AlignedBytes(std::size_t n)
      : size_(n), data_(static_cast<std::byte*>(std::aligned_alloc(4096, (n + 4095) / 4096 * 4096))) {
    std::memset(data_, 0, n);
  }
  ~AlignedBytes() { std::free(data_); }
  AlignedBytes(AlignedBytes&& other) noexcept
      : size_(other.size_), data_(std::exchange(other.data_, nullptr)) {}
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  std::byte* data() { return data_; }
  std::size_t size() const { return size_; }
  std::span<std::byte> span() { return {data_, size_}; }
  void fill(Rng& rng) {
    for (std::size_t i = 0; i + 8 <= size_; i += 8) {
      const std::uint64_t word = rng.next();
      std::memcpy(data_ + i, &word, 8);
    }
  }

 private:
  std::size_t size_;
  std::byte* data_;
};

inline LockClass& flight_class() {
  static LockClass cls("test-flight", LockRank::kCompletion);
  return cls;
}

// Requests submitted and waited for together. Counts each completion, so that a second one shows.
class Flight {
 public:
  struct One {
    IoRequest request;
    std::vector<IoSegment> segments;
    Result<void> result;
    int completions = 0;
    Flight* flight = nullptr;
  };
  One& add(IoOp op, std::uint64_t offset, std::vector<IoSegment> segments, IoCause cause = IoCause::kData) {
    One& one = all_.emplace_back();
    one.segments = std::move(segments);
    one.flight = this;
    one.request = IoRequest{.op = op,
                            .cause = cause,
                            .offset_bytes = offset,
                            .segments = one.segments,
                            .done = done,
                            .owner = &one};
    return one;
  }
  void submit_all(BlockDevice& device) {
    for (One& one : all_) device.submit(one.request);
  }
  void wait_all() {
    MutexLock lock(lock_);
    while (over_ < all_.size()) ended_.wait(lock_);
  }
  std::size_t over() {
    MutexLock lock(lock_);
    return over_;
  }
  // In the order in which they ended.
  std::vector<One*> order() {
    MutexLock lock(lock_);
    return order_;
  }
  std::deque<One>& all() { return all_; }

 private:
  static void done(IoRequest& request, Result<void> result) {
    auto& one = *static_cast<One*>(request.owner);
    Flight& flight = *one.flight;
    MutexLock lock(flight.lock_);
    one.result = result;
    ++one.completions;
    ++flight.over_;
    flight.order_.push_back(&one);
    flight.ended_.notify_all();
  }
  std::deque<One> all_;
  std::vector<One*> order_;
  Mutex lock_{flight_class()};
  CondVar ended_;
  std::size_t over_ = 0;
};

}  // namespace tidewheel
