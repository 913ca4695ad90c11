#include "base/thread.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/clock.h"
#include "base/sync.h"

namespace tidewheel {

// ---- Thread ----

struct Thread::Body {
  std::thread thread;
#if TW_SIM
  void* fiber = nullptr;  // inside a simulation, instead of the thread
#endif
};

Result<Thread> Thread::start(std::string name, std::function<void()> body) {
  Thread thread;
  thread.body_ = std::make_unique<Body>();
#if TW_SIM
  if (sim::active()) {
    thread.body_->fiber = sim::spawn(std::move(name), std::move(body));
    return thread;
  }
#endif
  try {
    thread.body_->thread = std::thread([thread_name = std::move(name), run = std::move(body)] {
      pthread_setname_np(pthread_self(), thread_name.substr(0, 15).c_str());
      run();
    });
  } catch (const std::system_error& refused) {
    thread.body_.reset();
    return TW_FAIL_WITH(kNoThread, refused.code().value());
  }
  return thread;
}

Thread::Thread(std::string name, std::function<void()> body) {
  Result<Thread> started = start(std::move(name), std::move(body));
  TW_ASSERT(started.has_value(), "the system allows no further thread");
  body_ = std::move(started->body_);
}

Thread::Thread() noexcept = default;

Thread::Thread(Thread&&) noexcept = default;

Thread& Thread::operator=(Thread&& other) noexcept {
  TW_ASSERT(body_ == nullptr, "a thread is replaced before it was joined");
  body_ = std::move(other.body_);
  return *this;
}

Thread::~Thread() { TW_ASSERT(body_ == nullptr, "a thread ends before it was joined"); }

void Thread::join() {
  TW_ASSERT(body_ != nullptr, "there is no thread to join");
  assert_may_sleep();
#if TW_SIM
  if (body_->fiber != nullptr) {
    sim::join(body_->fiber);
    body_.reset();
    return;
  }
#endif
  body_->thread.join();
  body_.reset();
}

// ---- sleeping ----

void sleep_for(Duration d) {
  const Instant now = SteadyClock::instance().now();
  sleep_until(d.ns > Instant::max().ns - now.ns ? Instant::max() : now + d);
}

void sleep_until(Instant t) {
  assert_may_sleep();
#if TW_SIM
  if (sim::active()) return sim::sleep_until(t.ns);
#endif
  const timespec at{.tv_sec = std::max<std::int64_t>(t.ns, 0) / 1'000'000'000,
                    .tv_nsec = std::max<std::int64_t>(t.ns, 0) % 1'000'000'000};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) == EINTR) {
  }
}

void yield_thread() {
#if TW_SIM
  if (sim::active()) return sim::yield();
#endif
  std::this_thread::yield();
}

// ---- where a thread runs ----

std::uint32_t current_cpu_slow() {
#if TW_SIM
  if (sim::active()) return sim::current_cpu();
#endif
  const int cpu = ::sched_getcpu();
  return cpu < 0 ? 0 : static_cast<std::uint32_t>(cpu);
}

std::uint32_t cpu_count() {
#if TW_SIM
  if (sim::active()) return sim::cpu_count();
#endif
  static const std::uint32_t count = std::max(1U, std::thread::hardware_concurrency());
  return count;
}

namespace thread_detail {

constinit thread_local std::uint32_t number = kNoNumber;

namespace {

struct Numbers {
  std::mutex mutex;
  std::vector<bool> taken;
};
Numbers& numbers() {
  static Numbers* const all = new Numbers;  // threads may end after static objects are gone
  return *all;
}

struct ReturnNumber {
  ~ReturnNumber() {
    Numbers& all = numbers();
    const std::lock_guard guard(all.mutex);
    all.taken[number] = false;
    number = kNoNumber;
  }
};

}  // namespace

std::uint32_t take_number() {
  {
    Numbers& all = numbers();
    const std::lock_guard guard(all.mutex);
    const auto free = std::find(all.taken.begin(), all.taken.end(), false);
    number = static_cast<std::uint32_t>(free - all.taken.begin());
    if (free == all.taken.end()) {
      all.taken.push_back(true);
    } else {
      *free = true;
    }
  }
  thread_local ReturnNumber at_end;
  static_cast<void>(at_end);
  return number;
}

}  // namespace thread_detail

}  // namespace tidewheel
