#include "fs/mock/mock_object.h"

#include <array>
#include <cstring>

#include "base/rng.h"
#include "fs/ail/ail.h"
#include "fs/format/log_items.h"

namespace tidewheel {
namespace {

LockClass object_class{"mock-object", LockRank::kNone};

}  // namespace

// ---- content ----

std::uint32_t MockState::payload_bytes(std::uint64_t object) const {
  Rng rng(object * 0x9E3779B97F4A7C15ULL + version);
  return 16 + static_cast<std::uint32_t>(rng.below(kMostBytes - 16));
}

void MockState::fill(std::uint64_t object, std::span<std::byte> payload) const {
  const std::array<std::uint64_t, 2> words{object << 32 ^ version, applied};
  std::memset(payload.data(), static_cast<int>((object * 31 + version) & 0xFF), payload.size());
  std::memcpy(payload.data(), words.data(), sizeof words);
}

bool read_mock_state(std::span<const std::byte> block, MockState& state) {
  const auto& mock = disk::view<disk::MockBlock>(block);
  if (mock.bytes < 16 || mock.bytes > disk::kMaxMockBytes) return false;
  const auto payload = block.subspan(sizeof(disk::MockBlock), mock.bytes);
  state.version = mock.version;
  state.applied = disk::view<disk::Le64>(payload, 8);
  const std::uint64_t object = mock.header.owner;
  if (state.payload_bytes(object) != mock.bytes) return false;
  std::array<std::byte, MockState::kMostBytes> expected;
  state.fill(object, std::span(expected).first(mock.bytes));
  return std::memcmp(expected.data(), payload.data(), mock.bytes) == 0;
}

void fill_mock_block(std::span<std::byte> block, const Uuid& uuid, DeviceAddress address,
                     std::uint64_t object, const MockState& state) {
  disk::start_block(block, disk::kMockMagic, uuid, address, object);
  auto& mock = disk::view<disk::MockBlock>(block);
  mock.version = state.version;
  mock.bytes = state.payload_bytes(object);
  state.fill(object, block.subspan(sizeof mock, mock.bytes));
}

// ---- an object ----

MockObject::MockObject(std::uint64_t number, DeviceAddress address)
    : number_(number), address_(address), lock_(object_class) {}

void MockObject::attach(Ail& ail, BufferTarget& target, DelwriQueue& queue) {
  ail_ = &ail;
  target_ = &target;
  queue_ = &queue;
}

LogItem::LogSize MockObject::size() const noexcept {
  return {2, static_cast<std::uint32_t>(sizeof(disk::MockItemFormat)) + state.payload_bytes(number_)};
}

void MockObject::format(LogVectorWriter& out) noexcept {
  disk::MockItemFormat format{};
  format.item.type = static_cast<std::uint16_t>(disk::LogItemType::kMock);
  format.item.regions = 2;
  format.bytes = state.payload_bytes(number_);
  format.object = number_;
  format.version = state.version;
  format.address = address_.value;
  out.region(std::as_bytes(std::span(&format, 1)));
  state.fill(number_, out.begin_region(format.bytes));
  out.end_region(format.bytes);
}

PushResult MockObject::push(PushScope& scope) noexcept TW_NO_THREAD_SAFETY_ANALYSIS {
  if (!lock_.try_lock()) return PushResult::kLocked;
  if (pins_.load(std::memory_order_acquire) != 0) {
    lock_.unlock();
    return PushResult::kPinned;
  }
  const Lsn at = lsn;
  set(kFlushing);
  clear(kFailed);
  scope.drop_list_lock();  // a buffer is waited for; the lock keeps the item
  const bool queued = queue_home(at);
  if (!queued) clear(kFlushing);
  lock_.unlock();
  return queued ? PushResult::kPushed : PushResult::kLocked;
}

// A copy goes home: the object may change while it is on its way.
bool MockObject::queue_home(Lsn at) {
  auto buffer = target_->cache().get_for_overwrite(*target_, address_, 1);
  if (!buffer) return false;
  fill_mock_block((*buffer)->bytes(), target_->geometry().uuid, address_, number_, state);
  (*buffer)->set_type(disk::BlockType::kMock);
  (*buffer)->set_done();
  (*buffer)->set_write_lsn(at);
  (*buffer)->set_client(this);
  writing_ = at;
  queue_->add(**buffer);
  return true;
}

void MockObject::written(Buffer&) {
  const Lsn at = writing_;
  clear(kFlushing);
  ail_->remove_if_unchanged(*this, at);
}

void MockObject::write_failed(Buffer&, Error, bool) {
  set(kFailed);
  clear(kFlushing);
}

// ---- an intent ----

MockIntent::MockIntent(std::uint64_t its_id, std::uint64_t its_target, std::uint64_t its_version)
    : id(its_id), target(its_target), version(its_version) {}

LogItem::LogSize MockIntent::Item::size() const noexcept {
  return {1, sizeof(disk::IntentFormat) + sizeof(disk::IntentMap)};
}

void MockIntent::Item::format(LogVectorWriter& out) noexcept {
  struct {
    disk::IntentFormat format;
    disk::IntentMap thing;
  } logged{};
  logged.format.item.type = static_cast<std::uint16_t>(disk::LogItemType::kMockIntent);
  logged.format.item.regions = 1;
  logged.format.count = 1;
  logged.format.id = its_.id;
  logged.thing.inode = its_.target;
  logged.thing.file_block = its_.version;
  out.region(std::as_bytes(std::span(&logged, 1)));
}

LogItem::LogSize MockIntent::Done::size() const noexcept { return {1, sizeof(disk::DoneFormat)}; }

void MockIntent::Done::format(LogVectorWriter& out) noexcept {
  disk::DoneFormat format{};
  format.item.type = static_cast<std::uint16_t>(disk::LogItemType::kMockDone);
  format.item.regions = 1;
  format.count = 1;
  format.intent_id = its_.id;
  out.region(std::as_bytes(std::span(&format, 1)));
}

// Stable: nothing is left to do, and the intent pins the tail no longer.
Lsn MockIntent::Done::committed(Lsn) noexcept {
  LogItem* const one[] = {&its_.intent_};
  its_.ail->remove(one);
  return kNeverLsn;
}

}  // namespace tidewheel
