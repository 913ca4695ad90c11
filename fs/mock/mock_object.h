// fs/mock/mock_object.h: what the mock machine's transactions change: objects with a home block each, and
// intents.
// Owns:      the machine owns all of them.
// Threads:   lock() orders those who change an object; the AIL's pusher only tries it.
// Locks:     the object's lock stands above those of the log; it is never waited for by log or pusher.
// Invariant: what an object's home must hold follows from its number and its state alone: MockState::fill().
#pragma once
#include "base/sync.h"
#include "fs/buf/buffer_cache.h"
#include "fs/buf/delwri_queue.h"
#include "fs/item/log_image.h"
#include "fs/item/log_item.h"

namespace tidewheel {

class Ail;

struct MockState {
  std::uint64_t version = 0;  // of the transaction that changed it last; each has a number of its own
  std::uint64_t applied = 0;  // intents that were finished on it
  friend bool operator==(const MockState&, const MockState&) = default;

  static constexpr std::uint32_t kMostBytes = 3000;
  // 16 bytes and more, by object and version: the state, then a pattern over as many sectors as it takes.
  std::uint32_t payload_bytes(std::uint64_t object) const;
  void fill(std::uint64_t object, std::span<std::byte> payload) const;
};

// What a block that was verified holds; false: it is not what fill() gives.
bool read_mock_state(std::span<const std::byte> block, MockState& state);
void fill_mock_block(std::span<std::byte> block, const Uuid& uuid, DeviceAddress address,
                     std::uint64_t object, const MockState& state);

class MockObject final : public LogItem, private BufferClient {
 public:
  MockObject(std::uint64_t number, DeviceAddress address);
  // What it uses to go home; before the first commit.
  void attach(Ail& ail, BufferTarget& target, DelwriQueue& queue);

  void lock() TW_NO_THREAD_SAFETY_ANALYSIS { lock_.lock(); }
  void unlock() TW_NO_THREAD_SAFETY_ANALYSIS { lock_.unlock(); }
  std::uint64_t number() const { return number_; }
  DeviceAddress address() const { return address_; }
  std::int32_t pins() const { return pins_.load(std::memory_order_relaxed); }

  MockState state;  // under the lock

  static constexpr std::uint32_t kMostLogBytes = 64 + MockState::kMostBytes;
  LogSize size() const noexcept override;
  void format(LogVectorWriter& out) noexcept override;
  void pin() noexcept override { pins_.fetch_add(1, std::memory_order_relaxed); }
  // release pairs with acquire in push(): who finds it unpinned finds it in the AIL with its new LSN.
  void unpin(bool) noexcept override { pins_.fetch_sub(1, std::memory_order_release); }
  void committing(std::uint64_t) noexcept override { unlock(); }
  void release() noexcept override { unlock(); }
  PushResult push(PushScope& scope) noexcept override;

 private:
  bool queue_home(Lsn at);
  void written(Buffer& buffer) override;
  void write_failed(Buffer& buffer, Error error, bool retry) override;

  const std::uint64_t number_;
  const DeviceAddress address_;
  Ail* ail_ = nullptr;
  BufferTarget* target_ = nullptr;
  DelwriQueue* queue_ = nullptr;  // the pusher's
  Mutex lock_;
  Atomic<std::int32_t> pins_{0};
  Lsn writing_;  // what the write under way holds; the pusher's, then the completion's
};

// "To do: intents applied to `target` rise by one, and its version is `version`." And that it is done.
class MockIntent {
 public:
  MockIntent(std::uint64_t id, std::uint64_t target, std::uint64_t version);

  LogItem& intent() { return intent_; }
  LogItem& done() { return done_; }

  const std::uint64_t id;
  const std::uint64_t target;
  const std::uint64_t version;
  Ail* ail = nullptr;

  static constexpr std::uint32_t kMostLogBytes = 96;

 private:
  // It has no home: what takes it out of the AIL is that its completion is stable.
  class Item final : public LogItem {
   public:
    explicit Item(MockIntent& its) : its_(its) {}
    LogSize size() const noexcept override;
    void format(LogVectorWriter& out) noexcept override;
    void pin() noexcept override {}
    void unpin(bool) noexcept override {}
    void committing(std::uint64_t) noexcept override {}
    void release() noexcept override {}
    PushResult push(PushScope&) noexcept override { return PushResult::kPinned; }

   private:
    MockIntent& its_;
  };
  class Done final : public LogItem {
   public:
    explicit Done(MockIntent& its) : its_(its) {}
    LogSize size() const noexcept override;
    void format(LogVectorWriter& out) noexcept override;
    void pin() noexcept override {}
    void unpin(bool) noexcept override {}
    void committing(std::uint64_t) noexcept override {}
    void release() noexcept override {}
    LogItem* intent() noexcept override { return &its_.intent_; }
    Lsn committed(Lsn start_lsn) noexcept override;
    PushResult push(PushScope&) noexcept override { return PushResult::kPinned; }

   private:
    MockIntent& its_;
  };

  Item intent_{*this};
  Done done_{*this};
};

}  // namespace tidewheel
