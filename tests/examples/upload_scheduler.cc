// An object-store client that acknowledges a PUT from memory and uploads later. Links tidewheel::writeback.
//   g++ upload_scheduler.cc $(pkg-config --cflags --libs tidewheel-writeback) && ./a.out
#include <tidewheel/base/clock.h>
#include <tidewheel/base/thread.h>
#include <tidewheel/writeback/write_behind.h>

#include <cstdio>

using namespace tidewheel;

// What the program brings: its store. This one takes 20 ms an object and fails the first upload of "b/2".
struct DemoStore final : ValueStore {
  Result<void> put(const std::string& key, const std::string& value) override {
    sleep_for(milliseconds(20));
    if (key == "b/2" && failures.fetch_add(1, std::memory_order_relaxed) == 0) return TW_FAIL(kIo);
    bytes.fetch_add(value.size(), std::memory_order_relaxed);
    return {};
  }
  Result<void> remove(const std::string&) override { return {}; }
  Atomic<std::uint64_t> bytes{0}, failures{0};  // relaxed: read when everything has been uploaded
};

// ---- the use of the engine ----
int upload_demo(DemoStore& store) {
  const auto made = WriteBehind::make(store, {.idle = milliseconds(50), .max_age = seconds(1),
                                              .interval = milliseconds(20), .limit_bytes = 1 << 20,
                                              .retry_first = milliseconds(50)});
  if (!made) return 1;
  WriteBehind& uploads = **made;
  auto watched = uploads.open("b/2");  // is told what fails from here on
  Duration held_back;
  for (int i = 0; i < 64; ++i) {  // 4 MiB through a limit of 1 MiB: put() waits for uploads
    auto handle = uploads.open((i % 2 == 0 ? "a/" : "b/") + std::to_string(i / 2));
    const auto paused = handle.put(std::string(64 << 10, 'x'));
    if (!paused) return 1;
    held_back += *paused;
  }
  auto gone = uploads.open("a/gone");
  if (!gone.put("never seen by the store") || !gone.remove()) return 1;  // cancelled, or waited for
  const Instant now = SteadyClock::instance().now();
  const bool in_time = uploads.drain(now + milliseconds(1)).has_value();
  const std::size_t left = uploads.dirty().size();
  while (!uploads.drain(now + seconds(30))) {  // a failure is told, what failed stays and is tried again
    if (SteadyClock::instance().now() > now + seconds(30)) return 1;
  }
  const bool told = !watched.sync(), again = !watched.sync();
  std::printf("after 1 ms: %s, %zu left; b/2: %s, then %s; held back: %s; uploaded %llu KiB\n",
              in_time ? "drained" : "not drained", left, told ? "failed once" : "no error",
              again ? "told again" : "ok", held_back.ns > 0 ? "yes" : "no",
              static_cast<unsigned long long>(store.bytes.load(std::memory_order_relaxed) >> 10));
  return !in_time && left != 0 && told && !again && held_back.ns > 0 && uploads.dirty().empty() ? 0 : 1;
}

#ifndef TIDEWHEEL_EXAMPLE_WITHOUT_MAIN
int main() {
  DemoStore store;
  return upload_demo(store);
}
#endif
