#include "fs/mock/mock_machine.h"

#include <array>
#include <utility>

namespace tidewheel {
namespace {

LockClass intents_class{"mock-intents", LockRank::kNone};

constexpr std::uint64_t kBudgetBytes = 64ULL << 20;
constexpr std::uint32_t kWriteTries = 3;
constexpr std::uint32_t kHeaderBytes = 64;  // of the operations of one object and one intent

}  // namespace

// ---- layout ----

LogPlace MockLayout::log() const {
  return {.offset_bytes = (1 + std::uint64_t{objects}) * kFsBlockBytes,
          .sectors = log_blocks * (kFsBlockBytes / kLogSectorBytes),
          .uuid = uuid};
}

disk::Geometry MockLayout::geometry() const {
  disk::Geometry geometry;
  geometry.uuid = uuid;
  geometry.device_blocks = blocks();
  geometry.ag_blocks = static_cast<std::uint32_t>(blocks());
  geometry.ag_count = 1;
  geometry.ag_block_log = disk::ceil_log2(blocks());
  geometry.log_start = {1 + std::uint64_t{objects}};
  geometry.log_blocks = log_blocks;
  return geometry;
}

bool is_log_clean(BlockDevice& device, const LogPlace& log) {
  LogReader reader(device, log);
  const auto scan = scan_log(reader);
  return scan && scan->unmount_sequence != 0;
}

Result<void> format_clean_log(BlockDevice& device, const MockLayout& layout) {
  alignas(4096) std::array<std::byte, kFsBlockBytes> block;
  const LogPlace log = layout.log();
  disk::seal_unmount_record(block, log.uuid, Lsn::make(1, 0), UINT32_MAX, 1, log.sectors);
  TW_TRY(device.write(log.offset_bytes, block, IoCause::kLog));
  return device.flush();
}

Result<void> format_mock(BlockDevice& device, const MockLayout& layout) {
  alignas(4096) std::array<std::byte, kFsBlockBytes> block;
  for (std::uint64_t object = 0; object < layout.objects; ++object) {
    fill_mock_block(block, layout.uuid, layout.home(object), object, {});
    disk::stamp_block(block, kNoLsn);
    TW_TRY(device.write(layout.home(object).bytes(), block, IoCause::kMetadata));
  }
  return format_clean_log(device, layout);
}

// ---- life ----

MockMachine::MockMachine(BlockDevice& device, const MockMount& options)
    : device_(device),
      options_(options),
      budget_(kBudgetBytes, 0),
      cache_(budget_, {.expected_buffers = 64}),
      target_(cache_, device, options.layout.geometry(), this),
      intents_lock_(intents_class) {}

Result<std::unique_ptr<MockMachine>> MockMachine::mount(BlockDevice& device, const MockMount& options) {
  std::unique_ptr<MockMachine> machine(new MockMachine(device, options));
  TW_TRY(machine->recover_and_load());
  const bool to_finish = !machine->recovery_.intents.empty();
  if (!options.no_recovery && (!options.idle || to_finish)) machine->start_log();
  if (to_finish) {
    if (const auto finished = machine->finish_recovered(); !finished) {
      machine->shut_down();  // and no record says that the log is clean
      return Unexpected(finished.error());
    }
  }
  return machine;
}

Result<void> MockMachine::recover_and_load() {
  LogReader reader(device_, options_.layout.log());
  auto recovered = recover(reader, device_, cache_, target_, mock_replay_table(),
                           {.scan_only = options_.no_recovery});
  if (!recovered) return Unexpected(recovered.error());
  recovery_ = std::move(*recovered);
  return load();
}

Result<void> MockMachine::load() {
  for (std::uint64_t number = 0; number < options_.layout.objects; ++number) {
    const DeviceAddress address = options_.layout.home(number);
    auto& object = objects_.emplace_back(std::make_unique<MockObject>(number, address));
    auto home = cache_.read(target_, address, 1, disk::BlockType::kMock, disk::kAnyOwner);
    if (!home) return Unexpected(home.error());
    if (!read_mock_state((*home)->bytes(), object->state)) return TW_FAIL_WITH(kCorrupt, address.value);
  }
  return {};
}

// A machine that only looks has no threads.
void MockMachine::start_log() {
  // What is read from here on may be as new as anything that will be written.
  target_.set_newest_lsn(disk::kNewestLsn);
  const LogPlace place = options_.layout.log();
  LogShutdownListener& listener = *this;
  AilWriter& writer = *this;
  log_ = std::make_unique<Log>(device_, place, recovery_.position, options_.log, listener);
  ail_ = std::make_unique<Ail>(AilOptions{.log_sectors = place.sectors}, *log_, writer, *log_);
  for (const auto& object : objects_) object->attach(*ail_, target_, queue_);
  log_->start(*ail_);
  if (options_.pusher) pusher_ = std::make_unique<AilPusher>(*ail_);
}

// In the order in which they were logged. Each pins the tail until its completion is stable.
Result<void> MockMachine::finish_recovered() {
  std::vector<MockIntent*> open;
  for (const RecoveredIntent& found : recovery_.intents) {
    MockIntentThing thing;
    if (!read_mock_intent(found.bytes, thing) || thing.target >= objects_.size()) return TW_FAIL(kCorrupt);
    MutexLock hold(intents_lock_);
    auto& intent = intents_.emplace_back(std::make_unique<MockIntent>(found.id, thing.target, thing.version));
    intent->ail = ail_.get();
    LogItem* const one[] = {&intent->intent()};
    ail_->checkpoint_stable(found.lsn);  // it was, before the crash
    ail_->insert(one, found.lsn);
    open.push_back(intent.get());
  }
  for (MockIntent* const intent : open) {
    auto ticket =
        log_->reserve(MockObject::kMostLogBytes + MockIntent::kMostLogBytes + kHeaderBytes, 1, false);
    if (!ticket) return Unexpected(ticket.error());
    Chain chain{.intent = intent, .ticket = *ticket};
    const auto finished = finish_intent(chain);
    if (!finished) return Unexpected(finished.error());
    TW_TRY(force(*finished));
  }
  return {};
}

MockMachine::~MockMachine() {
  if (log_ == nullptr) return;
  shut_down();
  end_threads();
}

void MockMachine::end_threads() {
  log_->stop();
  ail_->shut_down();
  pusher_.reset();
  queue_.cancel();
  target_.drain_io();
  std::vector<LogItem*> left;
  for (const auto& object : objects_) left.push_back(object.get());
  {
    MutexLock hold(intents_lock_);
    for (const auto& intent : intents_) left.push_back(&intent->intent());
  }
  ail_->remove(left);
  TW_ASSERT(pins() == 0, "the machine ends with pins");
  ail_.reset();
  log_.reset();
}

Result<void> MockMachine::unmount() {
  if (log_ == nullptr) return {};
  const auto home = [this]() -> Result<void> {
    TW_TRY(log_->force_all());
    TW_TRY(pusher_ != nullptr ? ail_->wait_empty() : push_home());
    if (!ail_->empty()) return TW_FAIL(kBusy);  // an intent was not finished
    // Nothing was logged: what recovery left is as clean as it can be.
    if (log_->head() == recovery_.position.head) return {};
    return log_->unmount();
  }();
  shut_down();
  end_threads();
  return home;
}

void MockMachine::shut_down() {
  if (log_ != nullptr) log_->shut_down(Error{Reason::kShutDown, 0, 0});
}

void MockMachine::log_shut_down(Error) {
  target_.shut_down();
  ail_->shut_down();
}

WriteErrorAction MockMachine::on_write_error(const Buffer&, Error, std::uint32_t failures) {
  const bool retried = log_ != nullptr && !log_->is_shut_down() && failures < kWriteTries;
  return retried ? WriteErrorAction::kRetry : WriteErrorAction::kGiveUp;
}

void MockMachine::on_lost_write(const Buffer&, Error error) {
  if (log_ != nullptr) log_->shut_down(error);
}

// ---- transactions ----

Result<void> MockMachine::usable() const {
  if (log_ == nullptr) return TW_FAIL(kReadOnly);
  if (is_shut_down()) return TW_FAIL(kShutDown);
  return {};
}

Result<std::uint64_t> MockMachine::change(std::span<const std::uint64_t> objects, std::uint64_t version) {
  TW_TRY(usable());
  const auto payload =
      static_cast<std::uint32_t>(objects.size()) * (MockObject::kMostLogBytes + kHeaderBytes);
  auto ticket = log_->reserve(payload, 1, false);
  if (!ticket) return Unexpected(ticket.error());
  std::vector<LogItem*> items;
  for (const std::uint64_t number : objects) {
    MockObject& object = *objects_[number];
    object.lock();
    object.state.version = version;
    items.push_back(&object);
  }
  const std::uint64_t sequence = log_->commit(items, *ticket);
  log_->end(*ticket);
  return sequence;
}

Result<MockMachine::Chain> MockMachine::begin_intent(std::uint64_t number, std::uint64_t version,
                                                     std::uint64_t target, std::uint64_t target_version) {
  TW_TRY(usable());
  auto ticket = log_->reserve(MockObject::kMostLogBytes + MockIntent::kMostLogBytes + kHeaderBytes, 2, true);
  if (!ticket) return Unexpected(ticket.error());
  Chain chain{.intent = nullptr, .ticket = *ticket};
  {
    MutexLock hold(intents_lock_);
    intents_.push_back(std::make_unique<MockIntent>(version, target, target_version));
    chain.intent = intents_.back().get();
  }
  chain.intent->ail = ail_.get();
  MockObject& object = *objects_[number];
  object.lock();
  object.state.version = version;
  LogItem* const items[] = {&object, &chain.intent->intent()};
  chain.sequence = log_->commit(items, chain.ticket);
  return chain;
}

Result<std::uint64_t> MockMachine::finish_intent(Chain& chain) {
  if (chain.ticket.rolls) {
    if (const auto rolled = log_->roll(chain.ticket); !rolled) {
      log_->end(chain.ticket);
      return Unexpected(rolled.error());
    }
  }
  MockObject& object = *objects_[chain.intent->target];
  object.lock();
  object.state.version = chain.intent->version;
  ++object.state.applied;
  LogItem* const items[] = {&object, &chain.intent->done()};
  chain.sequence = log_->commit(items, chain.ticket);
  log_->end(chain.ticket);
  return chain.sequence;
}

Result<void> MockMachine::force(std::uint64_t sequence) {
  if (log_ == nullptr) return TW_FAIL(kReadOnly);
  return log_->force(sequence);
}

Result<void> MockMachine::push_home() {
  if (log_ == nullptr) return {};
  ail_->push_all();
  while (!ail_->empty() && !is_shut_down()) {
    // Only intents are left, or what is on its way: nothing that this could bring home.
    const std::uint64_t pushed = ail_->stats().pushed;
    ail_->walk();
    if (ail_->stats().pushed == pushed) break;
    target_.drain_io();
  }
  if (is_shut_down()) return TW_FAIL(kShutDown);
  return {};
}

// ---- where it stands ----

MockState MockMachine::state(std::uint64_t object) {
  objects_[object]->lock();
  const MockState state = objects_[object]->state;
  objects_[object]->unlock();
  return state;
}

std::uint64_t MockMachine::log_used_bytes() const {
  if (log_ == nullptr) return 0;
  return log_distance_bytes(log_->published_tail(), log_->head(), options_.layout.log().sectors);
}

std::int64_t MockMachine::pins() const {
  std::int64_t pins = 0;
  for (const auto& object : objects_) pins += object->pins();
  return pins;
}

}  // namespace tidewheel
