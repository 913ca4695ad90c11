// base/atomic.h: every atomic whose order matters between threads.
// Threads:   as std::atomic; every access names its memory order, and the comment at the member names
//            the access it pairs with.
// Simulator: in a TW_SIM build each access can be a scheduling point, and relaxed or release stores may
//            be delayed in a store buffer; in release this is std::atomic and nothing else.
#pragma once
#include <atomic>
#include <cstdint>

#include "base/config.h"

namespace tidewheel {

#if !TW_SIM
template <class T>
class Atomic {
 public:
  constexpr Atomic() : value_{} {}
  constexpr explicit Atomic(T value) : value_(value) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(std::memory_order order) const { return value_.load(order); }
  void store(T value, std::memory_order order) { value_.store(value, order); }
  T exchange(T value, std::memory_order order) { return value_.exchange(value, order); }
  bool compare_exchange(T& expected, T desired, std::memory_order order) {
    return value_.compare_exchange_strong(expected, desired, order, std::memory_order_relaxed == order
                                                                        ? std::memory_order_relaxed
                                                                        : std::memory_order_acquire);
  }
  T fetch_add(T n, std::memory_order order) { return value_.fetch_add(n, order); }
  T fetch_sub(T n, std::memory_order order) { return value_.fetch_sub(n, order); }
  T fetch_or(T bits, std::memory_order order) { return value_.fetch_or(bits, order); }
  T fetch_and(T bits, std::memory_order order) { return value_.fetch_and(bits, order); }

 private:
  std::atomic<T> value_;
};
#else
template <class T>
class Atomic {  // replaced by the simulator's own (base/sim)
 public:
  constexpr Atomic() : value_{} {}
  constexpr explicit Atomic(T value) : value_(value) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(std::memory_order order) const { return value_.load(order); }
  void store(T value, std::memory_order order) { value_.store(value, order); }
  T exchange(T value, std::memory_order order) { return value_.exchange(value, order); }
  bool compare_exchange(T& expected, T desired, std::memory_order order) {
    return value_.compare_exchange_strong(expected, desired, order, std::memory_order_relaxed == order
                                                                        ? std::memory_order_relaxed
                                                                        : std::memory_order_acquire);
  }
  T fetch_add(T n, std::memory_order order) { return value_.fetch_add(n, order); }
  T fetch_sub(T n, std::memory_order order) { return value_.fetch_sub(n, order); }
  T fetch_or(T bits, std::memory_order order) { return value_.fetch_or(bits, order); }
  T fetch_and(T bits, std::memory_order order) { return value_.fetch_and(bits, order); }

 private:
  std::atomic<T> value_;
};
#endif

}  // namespace tidewheel
