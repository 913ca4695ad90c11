#include "fs/crash/toy_log.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "base/rng.h"
#include "fs/crash/block_map.h"

namespace tidewheel {

namespace {

constexpr std::uint64_t kBlock = 4096;
using Block = std::array<std::byte, kBlock>;

constexpr std::uint64_t kSuperMagic = 0x3053594F54575449;
constexpr std::uint64_t kCommitMagic = 0x3143594F54575449;

// One sector, so that it is old or new and never torn.
struct Super {
  std::uint64_t magic = kSuperMagic;
  std::uint64_t tail = 0;  // the first record that is not wholly at home
  std::uint64_t hash = 0;  // of the fields above

  std::uint64_t expected_hash() const { return mix_hash(magic, tail); }
};
static_assert(sizeof(Super) <= kSectorBytes);

// Its fields lie in three sectors: without the hash a torn one looks whole.
struct Commit {
  std::uint64_t magic = kCommitMagic;
  std::uint64_t record = 0;
  std::byte gap1[kSectorBytes - 16] = {};
  std::uint32_t key_count = 0;
  std::uint32_t keys[ToyLog::kMaxKeys] = {};
  std::byte gap2[kSectorBytes - 16] = {};
  std::uint64_t payload_hash = 0;
  std::uint64_t hash = 0;  // of the whole block with this as 0
  std::byte rest[kBlock - 2 * kSectorBytes - 16] = {};
};
static_assert(sizeof(Commit) == kBlock && offsetof(Commit, key_count) == kSectorBytes &&
              offsetof(Commit, payload_hash) == 2 * kSectorBytes);

std::uint64_t hash_of(Commit commit) {
  commit.hash = 0;
  return hash_of_bytes(std::as_bytes(std::span(&commit, 1)), 1);
}

// A home block says whose it is and what it holds, all over.
void fill_home(Block& block, std::uint32_t key, std::uint64_t value) {
  for (std::size_t at = 0; at < kBlock; at += 16) {
    const std::uint64_t words[2] = {key, value};
    std::memcpy(block.data() + at, words, sizeof words);
  }
}

std::uint64_t home_block(std::uint32_t key) { return 1 + key; }
std::uint64_t slot_block(std::uint64_t record) {
  return ToyLog::kLogBlock + record % ToyLog::kSlots * ToyLog::kSlotBlocks;
}

Block super_block(std::uint64_t tail) {
  Super super{.tail = tail};
  super.hash = super.expected_hash();
  Block block{};
  std::memcpy(block.data(), &super, sizeof super);
  return block;
}

Result<std::uint64_t> read_tail(BlockDevice& device) {
  Block block;
  TW_TRY(device.read(0, block, IoCause::kMetadata));
  Super super;
  std::memcpy(&super, block.data(), sizeof super);
  if (super.magic != kSuperMagic || super.hash != super.expected_hash()) return TW_FAIL(kCorrupt);
  return super.tail;
}

}  // namespace

const char* name_of(ToyFault fault) {
  switch (fault) {
    case ToyFault::kNone: return "none";
    case ToyFault::kNoFlushBeforeCommit: return "no flush before commit";
    case ToyFault::kNoHashes: return "no hashes";
    case ToyFault::kTailBeforeHome: return "tail before home";
    case ToyFault::kReuseBeforeTail: return "reuse before tail";
    case ToyFault::kRecoveryMovesTailFirst: return "recovery moves tail first";
    case ToyFault::kAckBeforeDurable: return "ack before durable";
    case ToyFault::kLateWriteCovered: return "late write covered";
  }
  return "?";
}

Result<void> ToyLog::format(BlockDevice& device) {
  for (std::uint32_t key = 0; key < kKeys; ++key) {
    Block home;
    fill_home(home, key, 0);
    TW_TRY(device.write(home_block(key) * kBlock, home, IoCause::kMetadata));
  }
  return device.write(0, super_block(0), IoCause::kMetadata);
}

std::unique_ptr<SimDevice> ToyLog::make_device() {
  SimDeviceOptions options;
  options.size_bytes = image_bytes();
  options.seed = seed_;
  auto device = std::make_unique<SimDevice>(options, clock_);
  device_ = device.get();
  return device;
}

// ---- a run: requests in flight side by side, in virtual time ----
class ToyLog::Writer {
 public:
  Writer(ToyLog& toy, BlockDevice& device, AckLog& acks)
      : toy_(toy), device_(device), acks_(acks), rng_(toy.seed_), values_(kKeys, 0) {}

  Result<void> run() {
    while (next_ < kRecords) {
      if (next_ - tail_ + 2 > kSlots || rng_.chance(8)) checkpoint();
      if (rng_.chance(2)) {
        commit_alone();
      } else {
        commit_two();
      }
    }
    checkpoint();
    return failed_ ? Result<void>(TW_FAIL(kIo)) : Result<void>();
  }

 private:
  // A request, its memory and what became of it.
  struct Io {
    IoRequest request;
    std::vector<Block> blocks;
    std::vector<IoSegment> segments;
    std::uint64_t ended = 0;  // its place among those that have ended; 0: in flight
    Writer* writer = nullptr;
  };

  Io& start(IoOp op, IoCause cause, std::uint64_t block, std::vector<Block> blocks, bool preflush, bool fua) {
    Io& io = ios_.emplace_back();
    io.blocks = std::move(blocks);
    io.writer = this;
    for (Block& b : io.blocks) io.segments.push_back({b.data(), kBlock});
    io.request = IoRequest{.op = op,
                           .cause = cause,
                           .preflush = preflush,
                           .fua = fua,
                           .offset_bytes = block * kBlock,
                           .segments = io.segments,
                           .done =
                               [](IoRequest& request, Result<void> result) {
                                 Io& over = *static_cast<Io*>(request.owner);
                                 over.ended = ++over.writer->ended_;
                                 over.writer->failed_ |= !result.has_value();
                               },
                           .owner = &io};
    device_.submit(io.request);
    return io;
  }
  void wait(const Io& io) {
    while (io.ended == 0) {
      toy_.clock_.set(toy_.device_->next_due());
      toy_.device_->run_due();
    }
  }
  void flush() { wait(start(IoOp::kFlush, IoCause::kLog, 0, {}, false, false)); }

  // The next record's payload, on its way.
  Io& write_payload() {
    Record record;
    for (std::uint32_t key = 0; key < kKeys; ++key) {
      if (record.keys.size() < kMaxKeys && rng_.chance(3)) record.keys.push_back(key);
    }
    if (record.keys.empty()) record.keys.push_back(static_cast<std::uint32_t>(rng_.below(kKeys)));
    std::vector<Block> payload(record.keys.size());
    for (std::size_t i = 0; i < payload.size(); ++i) {
      record.values.push_back(rng_.next());
      fill_home(payload[i], record.keys[i], record.values[i]);
    }
    toy_.history_.push_back(record);
    acks_.add(kIssued, next_);
    return start(IoOp::kWrite, IoCause::kLog, slot_block(next_++) + 1, std::move(payload), false, false);
  }
  // The commit point: once this block is durable, the record counts.
  void commit(std::uint64_t number, const Io& payload, bool preflush) {
    const Record& record = toy_.history_[number];
    Commit commit;
    commit.record = number;
    commit.key_count = static_cast<std::uint32_t>(record.keys.size());
    std::copy(record.keys.begin(), record.keys.end(), commit.keys);
    commit.payload_hash = hash_of_bytes(std::as_bytes(std::span(payload.blocks)), 0);
    commit.hash = hash_of(commit);
    std::vector<Block> block(1);
    std::memcpy(block[0].data(), &commit, kBlock);
    const bool fua = toy_.fault_ != ToyFault::kAckBeforeDurable;
    wait(start(IoOp::kWrite, IoCause::kLog, slot_block(number), std::move(block), preflush, fua));
    acks_.add(kCommitted, number);
  }
  void commit_alone() {
    const std::uint64_t number = next_;
    const Io& payload = write_payload();
    wait(payload);
    commit(number, payload, toy_.fault_ != ToyFault::kNoFlushBeforeCommit);
  }
  // Two records: the second's payload is on its way while the first's is flushed.
  void commit_two() {
    const std::uint64_t number = next_;
    const Io& first = write_payload();
    wait(first);
    const Io& flushed = start(IoOp::kFlush, IoCause::kLog, 0, {}, false, false);
    const Io& second = write_payload();
    wait(flushed);
    wait(second);
    const bool looks_covered = flushed.ended > second.ended;
    if (!(toy_.fault_ == ToyFault::kLateWriteCovered && looks_covered)) flush();
    commit(number, first, false);
    commit(number + 1, second, false);
  }
  void checkpoint() {
    std::vector<bool> changed(kKeys);
    for (; tail_ < next_; ++tail_) {
      const Record& record = toy_.history_[tail_];
      for (std::size_t i = 0; i < record.keys.size(); ++i) {
        changed[record.keys[i]] = true;
        values_[record.keys[i]] = record.values[i];
      }
    }
    std::vector<const Io*> under_way;
    for (std::uint32_t key = 0; key < kKeys; ++key) {
      if (!changed[key]) continue;
      std::vector<Block> home(1);
      fill_home(home[0], key, values_[key]);
      under_way.push_back(
          &start(IoOp::kWrite, IoCause::kMetadata, home_block(key), std::move(home), false, false));
    }
    for (const Io* io : under_way) wait(*io);
    wait(start(IoOp::kWrite, IoCause::kMetadata, 0, {super_block(tail_)},
               toy_.fault_ != ToyFault::kTailBeforeHome, toy_.fault_ != ToyFault::kReuseBeforeTail));
  }

  ToyLog& toy_;
  BlockDevice& device_;
  AckLog& acks_;
  Rng rng_;
  std::vector<std::uint64_t> values_;  // at home, once the last checkpoint is over
  std::deque<Io> ios_;
  std::uint64_t next_ = 0, tail_ = 0, ended_ = 0;
  bool failed_ = false;
};

Result<void> ToyLog::run(BlockDevice& device, AckLog& acks) { return Writer(*this, device, acks).run(); }

Result<void> ToyLog::recover(BlockDevice& device) const {
  const auto tail = read_tail(device);
  if (!tail) return Unexpected(tail.error());
  const bool hashes = fault_ != ToyFault::kNoHashes;
  std::uint64_t record = *tail;
  std::array<Block, kKeys> home;
  std::array<bool, kKeys> replayed{};
  // More than a ring of them can't be there.
  for (; record < *tail + kSlots; ++record) {
    Commit commit;
    TW_TRY(device.read(slot_block(record) * kBlock, std::as_writable_bytes(std::span(&commit, 1)),
                       IoCause::kLog));
    if (commit.magic != kCommitMagic || commit.record != record) break;
    if (hashes && commit.hash != hash_of(commit)) break;
    if (commit.key_count > kMaxKeys) break;
    std::vector<Block> payload(commit.key_count);
    for (std::uint32_t i = 0; i < commit.key_count; ++i) {
      TW_TRY(device.read((slot_block(record) + 1 + i) * kBlock, payload[i], IoCause::kLog));
    }
    if (hashes && commit.payload_hash != hash_of_bytes(std::as_bytes(std::span(payload)), 0)) break;
    for (std::uint32_t i = 0; i < commit.key_count; ++i) {
      if (commit.keys[i] >= kKeys) continue;
      home[commit.keys[i]] = payload[i];
      replayed[commit.keys[i]] = true;
    }
  }
  if (record == *tail) return {};
  const bool tail_first = fault_ == ToyFault::kRecoveryMovesTailFirst;
  if (tail_first) TW_TRY(device.write_durably(0, super_block(record), IoCause::kMetadata));
  for (std::uint32_t key = 0; key < kKeys; ++key) {
    if (replayed[key]) TW_TRY(device.write(home_block(key) * kBlock, home[key], IoCause::kMetadata));
  }
  if (tail_first) return device.flush(IoCause::kMetadata);
  return device.write_durably(0, super_block(record), IoCause::kMetadata);
}

CheckResult ToyLog::check(BlockDevice& device, Acks acks) const {
  std::uint64_t committed = 0, issued = 0;  // how many
  for (const Ack& ack : acks) {
    if (ack.what == kCommitted) committed = std::max(committed, ack.value + 1);
    if (ack.what == kIssued) issued = std::max(issued, ack.value + 1);
  }
  const auto tail = read_tail(device);
  if (!tail) return CheckFailure{"superblock", std::string(tail.error().sentence())};
  if (*tail < committed) {
    return CheckFailure{"lost acknowledged record",
                        "record " + std::to_string(committed - 1) + " was acknowledged, and records up to " +
                            std::to_string(*tail) + " are there"};
  }
  if (*tail > issued) {
    return CheckFailure{"record from nowhere", "records up to " + std::to_string(*tail) + " are there, and " +
                                                   std::to_string(issued) + " were issued"};
  }
  std::array<std::uint64_t, kKeys> values{};
  for (std::uint64_t record = 0; record < *tail; ++record) {
    for (std::size_t i = 0; i < history_[record].keys.size(); ++i) {
      values[history_[record].keys[i]] = history_[record].values[i];
    }
  }
  for (std::uint32_t key = 0; key < kKeys; ++key) {
    Block home, expected;
    if (const auto read = device.read(home_block(key) * kBlock, home); !read) {
      return CheckFailure{"home block", std::string(read.error().sentence())};
    }
    fill_home(expected, key, values[key]);
    if (home != expected) {
      return CheckFailure{"home block", "key " + std::to_string(key) + " does not hold what records up to " +
                                            std::to_string(*tail) + " left there"};
    }
  }
  return {};
}

}  // namespace tidewheel
