// A log with its AIL, objects that log a text, and what a mount would add.
#pragma once
#include <functional>
#include <string>
#include <utility>

#include "base/sync.h"
#include "fs/ail/pusher.h"
#include "fs/block/ram_device.h"
#include "fs/item/log_image.h"
#include "fs/log/log.h"

namespace tidewheel {

inline LockClass log_object_class{"log-rig-object", LockRank::kNone};

// An object that logs `text`, as one region of its name and one of the text. Home is a string beside it.
class LoggedObject : public LogItem {
 public:
  explicit LoggedObject(std::string its_name) : name(std::move(its_name)), lock(log_object_class) {}
  virtual ~LoggedObject() = default;

  LogSize size() const noexcept override {
    return {2, static_cast<std::uint32_t>(name.size() + text.size())};
  }
  void format(LogVectorWriter& out) noexcept override {
    ++formats;
    out.region(std::as_bytes(std::span(name)));
    out.region(std::as_bytes(std::span(text)));
  }
  void pin() noexcept override { pins.fetch_add(1, std::memory_order_relaxed); }
  void unpin(bool aborted) noexcept override {
    if (aborted) aborts.fetch_add(1, std::memory_order_relaxed);
    pins.fetch_sub(1, std::memory_order_relaxed);
    unpins.fetch_add(1, std::memory_order_relaxed);
  }
  Lsn committed(Lsn start) noexcept override {
    last_committed = start;
    return enters_ail ? start : kNeverLsn;
  }
  void committing(std::uint64_t) noexcept override TW_NO_THREAD_SAFETY_ANALYSIS { lock.unlock(); }
  void release() noexcept override TW_NO_THREAD_SAFETY_ANALYSIS {
    ++releases;
    lock.unlock();
  }
  LogItem* intent() noexcept override { return done_with; }
  PushResult push(PushScope& scope) noexcept override TW_NO_THREAD_SAFETY_ANALYSIS {
    if (!lock.try_lock()) return PushResult::kLocked;
    if (pins.load(std::memory_order_relaxed) != 0) {
      lock.unlock();
      return PushResult::kPinned;
    }
    const Lsn written = lsn;
    home = text;
    scope.drop_list_lock();
    lock.unlock();
    ail->remove_if_unchanged(*this, written);
    return PushResult::kPushed;
  }

  const std::string name;
  std::string text;  // under lock
  std::string home;  // under lock
  Mutex lock;
  Ail* ail = nullptr;
  bool enters_ail = true;
  LogItem* done_with = nullptr;
  Atomic<std::int32_t> pins{0};
  Atomic<std::uint32_t> unpins{0}, aborts{0};
  std::uint32_t formats = 0, releases = 0;
  Lsn last_committed;
};

class LogRig final : public AilWriter, public LogShutdownListener {
 public:
  struct Setup {
    std::uint32_t sectors = 1024;
    std::uint32_t buffer_bytes = 16 * 1024;
    std::uint32_t buffers = 4;
    std::uint64_t soft_bytes = 0;
    Lsn head = Lsn::make(1, 0);
    bool pusher = true;
    MemoryBudget* budget = nullptr;
  };
  static constexpr std::uint64_t kLogOffset = 64 * 1024;

  explicit LogRig(const Setup& setup, BlockDevice* on = nullptr)
      : own_device(on == nullptr ? RamDevice::make(kLogOffset + (std::uint64_t{setup.sectors} * 512)).value()
                                 : nullptr),
        device(on == nullptr ? *own_device : *on),
        place{kLogOffset, setup.sectors, Uuid::from_random(1, 2)},
        log(device, place, {.tail = setup.head, .head = setup.head},
            {.buffers = setup.buffers,
             .buffer_bytes = setup.buffer_bytes,
             .soft_bytes = setup.soft_bytes,
             .worker_interval = Duration::max(),
             .budget = setup.budget,
             .memory_patience = Duration{0}},
            *this),
        ail({.log_sectors = setup.sectors}, log, *this, log) {
    log.start(ail);
    if (setup.pusher) pusher = std::make_unique<AilPusher>(ail);
  }
  ~LogRig() { close(); }

  // As an unmount would, or after a shutdown.
  void close() {
    if (closed) return;
    closed = true;
    if (!log.is_shut_down()) {
      static_cast<void>(log.force_all());
      if (pusher != nullptr) static_cast<void>(ail.wait_empty());
    }
    log.stop();
    if (log.is_shut_down()) ail.shut_down();
    pusher.reset();
    for (LoggedObject* object : objects) {
      LogItem* const one[] = {object};
      ail.remove(one);
    }
  }
  void add(LoggedObject& object) {
    object.ail = &ail;
    objects.push_back(&object);
  }
  // A whole transaction that changes one object. 0: the log is dead.
  std::uint64_t change(LoggedObject& object, const std::string& text) TW_NO_THREAD_SAFETY_ANALYSIS {
    auto ticket = log.reserve(static_cast<std::uint32_t>(object.name.size() + text.size() + 24), 1, false);
    if (!ticket) return 0;
    object.lock.lock();
    object.text = text;
    LogItem* const items[] = {&object};
    const std::uint64_t sequence = log.commit(items, *ticket);
    log.end(*ticket);
    return sequence;
  }

  std::uint32_t submit_pushed() override { return 0; }
  void log_shut_down(Error) override {
    shutdowns.fetch_add(1, std::memory_order_relaxed);
    ail.shut_down();
  }

  std::unique_ptr<RamDevice> own_device;
  BlockDevice& device;
  const LogPlace place;
  Atomic<std::uint32_t> shutdowns{0};
  std::vector<LoggedObject*> objects;
  Log log;
  Ail ail;
  std::unique_ptr<AilPusher> pusher;
  bool closed = false;
};

}  // namespace tidewheel
