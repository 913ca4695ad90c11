// base/atomic.h: every atomic whose order matters between threads.
// Threads:   as std::atomic; every access names its memory order, and the comment at the member names
//            the access it pairs with.
// Simulator: in a TW_SIM build, inside a simulation, another thread may run after each access, and in
//            half of the schedules a load may return an older value wherever the C++ memory model allows
//            that (docs/simulator.md): a missing acquire, or a relaxed load where sequential consistency
//            is needed, then shows. Outside a simulation, and in other builds, this is std::atomic and
//            nothing else; it has the same size in every build.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/config.h"
#include "base/sim_hooks.h"

namespace tidewheel {

template <class T>
class Atomic {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8 && std::atomic<T>::is_always_lock_free);

 public:
  constexpr Atomic() : value_{} { born(); }
  constexpr explicit Atomic(T value) : value_(value) { born(); }
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(std::memory_order order) const {
#if TW_SIM
    if (sim::active()) return load_in_sim(order);
#endif
    return value_.load(order);
  }

  void store(T value, std::memory_order order) {
#if TW_SIM
    if (sim::active()) return store_in_sim(value, order);
#endif
    value_.store(value, order);
  }

  T exchange(T value, std::memory_order order) {
    return read_modify_write(order, [&] { return value_.exchange(value, order); }, [&](T) { return value; });
  }

  // Strong; `order` is for success, and failure loads with the same order (without its release half).
  // On failure `expected` receives the value found.
  bool compare_exchange(T& expected, T desired, std::memory_order order) {
#if TW_SIM
    if (sim::active()) return compare_exchange_in_sim(expected, desired, order);
#endif
    return value_.compare_exchange_strong(expected, desired, order, failure_order(order));
  }
  // May fail although the value was `expected`: for loops. Inside a simulation it is strong.
  bool compare_exchange_weak(T& expected, T desired, std::memory_order order) {
#if TW_SIM
    if (sim::active()) return compare_exchange_in_sim(expected, desired, order);
#endif
    return value_.compare_exchange_weak(expected, desired, order, failure_order(order));
  }

  T fetch_add(T n, std::memory_order order) {
    return read_modify_write(order, [&] { return value_.fetch_add(n, order); },
                             [&](T old) { return static_cast<T>(old + n); });
  }
  T fetch_sub(T n, std::memory_order order) {
    return read_modify_write(order, [&] { return value_.fetch_sub(n, order); },
                             [&](T old) { return static_cast<T>(old - n); });
  }
  T fetch_or(T bits, std::memory_order order) {
    return read_modify_write(order, [&] { return value_.fetch_or(bits, order); },
                             [&](T old) { return static_cast<T>(old | bits); });
  }
  T fetch_and(T bits, std::memory_order order) {
    return read_modify_write(order, [&] { return value_.fetch_and(bits, order); },
                             [&](T old) { return static_cast<T>(old & bits); });
  }

 private:
  static constexpr std::memory_order failure_order(std::memory_order order) {
    switch (order) {
      case std::memory_order_release: return std::memory_order_relaxed;
      case std::memory_order_acq_rel: return std::memory_order_acquire;
      default: return order;
    }
  }

  template <class Apply, class After>
  T read_modify_write([[maybe_unused]] std::memory_order order, Apply apply, [[maybe_unused]] After after) {
    const T old = apply();
#if TW_SIM
    if (sim::active()) {
      if (sim::weak_memory()) sim::weak_read_modify_write(this, bits(old), bits(after(old)), order);
      sim::point(sim::Op::kReadModifyWrite, this);
    }
#endif
    return old;
  }

#if TW_SIM
  static std::uint64_t bits(T value) {
    std::uint64_t word = 0;
    std::memcpy(&word, &value, sizeof(T));
    return word;
  }
  static T value_of(std::uint64_t word) {
    T value;
    std::memcpy(&value, &word, sizeof(T));
    return value;
  }
  constexpr void born() {
    if (!std::is_constant_evaluated()) {
      if (sim::active() && sim::weak_memory()) sim::weak_forget(this);
    }
  }
  T load_in_sim(std::memory_order order) const {
    T value = value_.load(order);
    if (sim::weak_memory()) value = value_of(sim::weak_load(this, bits(value), order));
    sim::point(sim::Op::kLoad, this);
    return value;
  }
  void store_in_sim(T value, std::memory_order order) {
    if (sim::weak_memory()) {
      sim::weak_store(this, bits(value_.load(std::memory_order_relaxed)), bits(value), order);
    }
    value_.store(value, order);
    sim::point(sim::Op::kStore, this);
  }
  bool compare_exchange_in_sim(T& expected, T desired, std::memory_order order) {
    const bool done = value_.compare_exchange_strong(expected, desired, order, failure_order(order));
    if (sim::weak_memory()) {
      if (done) {
        sim::weak_read_modify_write(this, bits(expected), bits(desired), order);
      } else {
        // The newest value decided; what a stale failure could show, a stale load before it shows too.
        sim::weak_read_newest(this, bits(expected), order);
      }
    }
    sim::point(sim::Op::kReadModifyWrite, this);
    return done;
  }
#else
  constexpr void born() {}
#endif

  std::atomic<T> value_;
};

// As std::atomic_thread_fence. The thread sanitizer does not follow fences: where it must be green, put the
// order on the accesses instead.
inline void fence(std::memory_order order) {
#if defined(__SANITIZE_THREAD__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
  std::atomic_thread_fence(order);
#if defined(__SANITIZE_THREAD__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#if TW_SIM
  if (sim::active()) {
    if (sim::weak_memory()) sim::weak_fence(order);
    sim::point(sim::Op::kFence, nullptr);
  }
#endif
}

}  // namespace tidewheel
