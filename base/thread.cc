#include "base/thread.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "base/assert.h"

namespace tidewheel {

struct Thread::Body {
  std::thread thread;
};

Thread::Thread(std::string name, std::function<void()> body) : body_(std::make_unique<Body>()) {
  body_->thread = std::thread([thread_name = std::move(name), run = std::move(body)] {
    pthread_setname_np(pthread_self(), thread_name.substr(0, 15).c_str());
    run();
  });
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
  body_->thread.join();
  body_.reset();
}

void sleep_for(Duration d) { std::this_thread::sleep_for(std::chrono::nanoseconds(d.ns)); }
void yield_thread() { std::this_thread::yield(); }

std::uint32_t current_cpu() {
  const int cpu = sched_getcpu();
  return cpu < 0 ? 0 : static_cast<std::uint32_t>(cpu);
}
std::uint32_t cpu_count() {
  static const std::uint32_t count = std::max(1U, std::thread::hardware_concurrency());
  return count;
}

std::uint32_t thread_number() {
  static std::atomic<std::uint32_t> next{0};
  thread_local const std::uint32_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

}  // namespace tidewheel
