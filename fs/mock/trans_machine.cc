#include "fs/mock/trans_machine.h"

#include <cstddef>
#include <cstring>

#include "fs/crash/block_map.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kBudgetBytes = 64ULL << 20;
constexpr std::uint32_t kWriteTries = 3;
constexpr std::uint32_t kPayloadBytes = 16;  // of a MockBlock: version and applied
constexpr disk::BlockType kType = disk::BlockType::kMock;

// Says that a block was made, with this version: recovery makes it from that alone. Its ordered buffer stands
// for it in the AIL.
class MadeItem final : public LogItem {
 public:
  MadeItem(std::uint64_t number, std::uint64_t version, DeviceAddress address)
      : number_(number), version_(version), address_(address) {}

  LogSize size() const noexcept override {
    return {2, std::uint32_t{sizeof(disk::MockItemFormat)} + kPayloadBytes};
  }
  void format(LogVectorWriter& out) noexcept override {
    disk::MockItemFormat format{};
    format.item.type = static_cast<std::uint16_t>(disk::LogItemType::kMock);
    format.item.regions = 2;
    format.bytes = kPayloadBytes;
    format.object = number_;
    format.version = version_;
    format.address = address_.value;
    out.region(std::as_bytes(std::span(&format, 1)));
    const std::array<disk::Le64, 2> payload{disk::Le64(version_), disk::Le64(0)};
    out.region(std::as_bytes(std::span(payload)));
  }
  void pin() noexcept override {}
  void committing(std::uint64_t) noexcept override {}
  void release() noexcept override { delete this; }
  Lsn committed(Lsn) noexcept override { return kNeverLsn; }
  void unpin(bool) noexcept override { delete this; }
  PushResult push(PushScope&) noexcept override { return PushResult::kPinned; }

 private:
  ~MadeItem() = default;

  const std::uint64_t number_;
  const std::uint64_t version_;
  const DeviceAddress address_;
};

}  // namespace

// ---- content ----

void fill_chunk(std::span<std::byte> block, std::uint64_t number, std::uint32_t chunk, std::uint32_t value) {
  const auto bytes = block.subspan(std::size_t{chunk} * disk::kDirtyChunkBytes, disk::kDirtyChunkBytes);
  std::memset(bytes.data(), value == 0 ? 0 : static_cast<int>((number * 31 + value) & 0xFF), bytes.size());
  disk::view<disk::Le32>(bytes) = value;
}

void BlockState::fill(std::span<std::byte> block, const MockLayout& layout, std::uint64_t number) const {
  disk::start_block(block, disk::kMockMagic, layout.uuid, layout.home(number), number);
  auto& mock = disk::view<disk::MockBlock>(block);
  mock.version = version;
  mock.bytes = kPayloadBytes;
  disk::view<disk::Le64>(block, sizeof mock) = version;
  disk::view<disk::Le64>(block, sizeof mock + sizeof(disk::Le64)) = applied;
  for (std::uint32_t chunk = 1; chunk < kChunks; ++chunk) {
    if (chunks[chunk] != 0) fill_chunk(block, number, chunk, chunks[chunk]);
  }
}

std::uint64_t hash_of_content(std::span<const std::byte> block) {
  constexpr std::size_t kSkipped = offsetof(disk::BlockHeader, block);  // magic, CRC, LSN
  return hash_of_bytes(block.subspan(kSkipped), disk::view<disk::BlockHeader>(block).magic);
}

Result<void> format_blocks(BlockDevice& device, const MockLayout& layout, std::uint64_t made) {
  alignas(4096) std::array<std::byte, kFsBlockBytes> block;
  for (std::uint64_t number = 0; number < made; ++number) {
    BlockState{}.fill(block, layout, number);
    disk::stamp_block(block, kNoLsn);
    TW_TRY(device.write(layout.home(number).bytes(), block, IoCause::kMetadata));
  }
  return format_clean_log(device, layout);
}

// ---- life ----

TransMachine::TransMachine(BlockDevice& device, const Options& options)
    : options_(options),
      budget_(kBudgetBytes, 0),
      cache_(budget_, {.expected_buffers = 64}),
      target_(cache_, device, options.layout.geometry(), this) {}

TransMachine::~TransMachine() {
  if (journal_ != nullptr) journal_->close();
}

Result<std::unique_ptr<TransMachine>> TransMachine::mount(BlockDevice& device, const Options& options) {
  std::unique_ptr<TransMachine> machine(new TransMachine(device, options));
  TW_TRY(machine->recover_blocks(device));
  const bool to_finish = !machine->recovery_.intents.empty();
  if (!options.idle || to_finish) machine->start_journal();
  // After an error no record says that the log is clean.
  if (to_finish) TW_TRY(machine->finish_recovered());
  return machine;
}

Result<void> TransMachine::recover_blocks(BlockDevice& device) {
  LogReader reader(device, options_.layout.log());
  auto recovered = recover(reader, device, cache_, target_, mock_replay_table());
  if (!recovered) return Unexpected(recovered.error());
  recovery_ = std::move(*recovered);
  return {};
}

void TransMachine::start_journal() {
  // What is read from here on may be as new as anything that will be written.
  target_.set_newest_lsn(disk::kNewestLsn);
  Journal::Listener& listener = *this;
  journal_ = std::make_unique<Journal>(target_, options_.layout.log(), recovery_.position,
                                       JournalOptions{.log = options_.log, .pusher = options_.pusher},
                                       &listener);
}

// In the order in which they were logged. All of them pin the tail before the first is finished.
Result<void> TransMachine::finish_recovered() {
  struct Open {
    IntentItem* item;
    MockIntentThing thing;
  };
  std::vector<Open> open;
  Result<void> finished;
  for (const RecoveredIntent& found : recovery_.intents) {
    MockIntentThing thing;
    if (!read_mock_intent(found.bytes, thing) || thing.target >= options_.layout.objects) {
      finished = TW_FAIL(kCorrupt);
      break;
    }
    auto* const item =
        new IntentItem(journal_->ail(), found.type, found.id, 1,
                       std::span(found.bytes).subspan(sizeof(disk::IntentFormat)));
    journal_->ail().checkpoint_stable(found.lsn);  // it was, before the crash
    LogItem* const one[] = {item};
    journal_->ail().insert(one, found.lsn);
    item->unpin(false);
    open.push_back({item, thing});
  }
  for (const Open& one : open) {
    if (finished) {
      finished = finish_one(*one.item, one.thing);
    } else {
      one.item->forsake();
    }
  }
  return finished;
}

Result<void> TransMachine::finish_one(IntentItem& intent, const MockIntentThing& thing) {
  auto transaction = begin();
  Result<void> changed;
  if (transaction) {
    changed = finish(*transaction, intent, thing.target, static_cast<std::uint32_t>(thing.version));
  } else {
    changed = Unexpected(transaction.error());
  }
  if (!changed) {
    intent.forsake();  // from finish() on its done item stands for it
    return changed;
  }
  const auto sequence = transaction->commit();
  if (!sequence) return Unexpected(sequence.error());
  return journal_->log().force(*sequence);
}

WriteErrorAction TransMachine::on_write_error(const Buffer&, Error, std::uint32_t failures) {
  const bool retried = journal_ != nullptr && !journal_->is_shut_down() && failures < kWriteTries;
  return retried ? WriteErrorAction::kRetry : WriteErrorAction::kGiveUp;
}

void TransMachine::on_lost_write(const Buffer&, Error error) {
  if (journal_ != nullptr) journal_->shut_down(error);
}

Result<void> TransMachine::unmount() {
  if (journal_ == nullptr) return {};
  TW_TRY(journal_->log().force_all());
  if (!options_.pusher) TW_TRY(push_home());
  return journal_->unmount();
}

// ---- transactions ----

Result<Transaction> TransMachine::begin(std::uint32_t units) {
  if (journal_ == nullptr) return TW_FAIL(kReadOnly);
  const std::uint32_t payload = kMostBlocks * disk::log_bytes_of_buffer(1) +
                                2 * disk::log_bytes_of_intent(1, sizeof(disk::IntentMap)) + 256;
  static_assert(kMostUnitBytes > kMostBlocks * (kFsBlockBytes + 128) + 8192);
  return Transaction::begin(*journal_, {.payload_bytes = payload, .units = units, .rolls = units > 1});
}

Result<void> TransMachine::make(Transaction& transaction, std::uint64_t number, const BlockState& state) {
  const auto buffer = transaction.make(options_.layout.home(number), 1, kType);
  if (!buffer) return Unexpected(buffer.error());
  state.fill((*buffer)->bytes(), options_.layout, number);
  transaction.log_all(**buffer);
  return {};
}

Result<void> TransMachine::make_ordered(Transaction& transaction, std::uint64_t number,
                                        std::uint64_t version) {
  const auto buffer = transaction.make(options_.layout.home(number), 1, kType);
  if (!buffer) return Unexpected(buffer.error());
  BlockState{.version = version}.fill((*buffer)->bytes(), options_.layout, number);
  auto* const item = new MadeItem(number, version, options_.layout.home(number));
  transaction.join(*item);
  transaction.log(*item);
  transaction.order(**buffer);
  return {};
}

Result<void> TransMachine::change(Transaction& transaction, std::uint64_t number, std::uint32_t chunk,
                                  std::uint32_t value) {
  const auto buffer = transaction.read(options_.layout.home(number), 1, kType);
  if (!buffer) return Unexpected(buffer.error());
  fill_chunk((*buffer)->bytes(), number, chunk, value);
  // Any byte of a chunk stands for all of it.
  const std::uint32_t first = chunk * disk::kDirtyChunkBytes;
  transaction.log(**buffer, first + value % disk::kDirtyChunkBytes, first + disk::kDirtyChunkBytes - 1);
  return {};
}

Result<void> TransMachine::free(Transaction& transaction, std::uint64_t number) {
  const auto buffer = transaction.read(options_.layout.home(number), 1, kType);
  if (!buffer) return Unexpected(buffer.error());
  transaction.invalidate(**buffer);
  return {};
}

void TransMachine::keep(Transaction& transaction, std::uint64_t number) {
  transaction.keep(**transaction.read(options_.layout.home(number), 1, kType));
}

IntentItem& TransMachine::log_intent(Transaction& transaction, std::uint64_t id, std::uint64_t target,
                                     std::uint32_t value) {
  disk::IntentMap thing{};
  thing.inode = target;
  thing.file_block = value;
  return transaction.log_intent(disk::LogItemType::kMockIntent, id, 1, std::as_bytes(std::span(&thing, 1)));
}

Result<void> TransMachine::finish(Transaction& transaction, IntentItem& intent, std::uint64_t target,
                                  std::uint32_t value) {
  const auto buffer = transaction.read(options_.layout.home(target), 1, kType);
  if (!buffer) return Unexpected(buffer.error());
  constexpr std::uint32_t kAt = sizeof(disk::MockBlock) + sizeof(disk::Le64);
  auto& applied = disk::view<disk::Le64>((*buffer)->bytes(), kAt);
  applied = applied + 1;
  transaction.log(**buffer, kAt, kAt + sizeof applied - 1);
  TW_TRY(change(transaction, target, chunk_of(value), value));
  transaction.log_done(disk::LogItemType::kMockDone, intent);
  return {};
}

// ---- where it stands ----

std::uint64_t TransMachine::log_used_bytes() const {
  const Log& log = journal_->log();
  return log_distance_bytes(log.published_tail(), log.head(), options_.layout.log().sectors);
}

std::int64_t TransMachine::log_free_bytes() const {
  constexpr std::int64_t kLogsOwn = 4LL * disk::kLogWriteUnitBytes;
  const Log& log = journal_->log();
  return static_cast<std::int64_t>(log.size_bytes() - log_used_bytes()) - log.reserve_granted_bytes() -
         kLogsOwn;
}

// ---- without a pusher ----

void TransMachine::push() {
  journal_->ail().push_all();
  journal_->ail().walk();
  target_.drain_io();
}

Result<void> TransMachine::push_home() {
  Ail& ail = journal_->ail();
  while (!ail.empty() && !journal_->is_shut_down()) {
    // Only intents are left: nothing that this could bring home.
    const std::uint64_t pushed = ail.stats().pushed;
    push();
    if (ail.stats().pushed == pushed) break;
  }
  if (journal_->is_shut_down()) return TW_FAIL(kShutDown);
  return {};
}

}  // namespace tidewheel
