// fs/crash/toy_log.h: the smallest log that has the parts that go wrong, with faults to plant: a workload
// that shows what the crash enumerator finds.
// Owns:      the history of its run, to check against.
// Threads:   as CrashWorkload.
// Units:     blocks of 4 KiB. Block 0 is the superblock, then kKeys home blocks, then kSlots log slots of
//            kSlotBlocks: a commit block and up to kMaxKeys payload blocks.
//
//   record n       goes to slot n % kSlots: the payload is written, is durable before the commit block (by a
//                  flush, or the commit block's preflush), which is durable (FUA) before it is acknowledged
//   checkpoint     home blocks are written, are durable before the superblock's tail passes their records
//                  (its preflush), which is durable (FUA) before a slot is written again
//   recovery       from the tail on, replays each record whose commit block and payload have their hashes,
//                  up to the first that has not; then home blocks durable, then the tail
// Each "durable before" and each "has its hash" is one ToyFault.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "fs/crash/workload.h"

namespace tidewheel {

enum class ToyFault : std::uint8_t {
  kNone,
  kNoFlushBeforeCommit,    // the commit block may be there without its payload
  kNoHashes,               // recovery takes a torn commit block for a whole one
  kTailBeforeHome,         // the tail passes records whose home blocks are not durable
  kReuseBeforeTail,        // a slot is written again before the tail that has passed it is durable
  kRecoveryMovesTailFirst, // a crash inside recovery loses what it had not yet replayed
  kAckBeforeDurable,       // an fsync that does not
  kLateWriteCovered,       // a write that completed after the flush was submitted counts as covered by it
};
inline constexpr std::array kToyFaults = {
    ToyFault::kNoFlushBeforeCommit, ToyFault::kNoHashes,         ToyFault::kTailBeforeHome,
    ToyFault::kReuseBeforeTail,     ToyFault::kRecoveryMovesTailFirst, ToyFault::kAckBeforeDurable,
    ToyFault::kLateWriteCovered};
const char* name_of(ToyFault fault);

class ToyLog final : public CrashWorkload {
 public:
  static constexpr std::uint32_t kKeys = 8;
  static constexpr std::uint32_t kMaxKeys = 3;
  static constexpr std::uint64_t kSlots = 6;
  static constexpr std::uint64_t kSlotBlocks = 1 + kMaxKeys;
  static constexpr std::uint64_t kLogBlock = 1 + kKeys;
  static constexpr std::uint64_t kBlocks = kLogBlock + kSlots * kSlotBlocks;
  static constexpr std::uint32_t kRecords = 20;

  // What it acknowledges: Ack::what, with the record's number as its value.
  static constexpr std::uint64_t kIssued = 1, kCommitted = 2;

  ToyLog(std::uint64_t seed, ToyFault fault) : seed_(seed), fault_(fault) {}

  std::uint64_t image_bytes() const override { return kBlocks * 4096; }
  Result<void> format(BlockDevice& device) override;
  std::unique_ptr<SimDevice> make_device() override;
  Result<void> run(BlockDevice& device, AckLog& acks) override;
  Result<void> recover(BlockDevice& device) const override;
  CheckResult check(BlockDevice& device, Acks acks) const override;

 private:
  struct Record {
    std::vector<std::uint32_t> keys;    // rising
    std::vector<std::uint64_t> values;  // of each
  };
  class Writer;  // of a run

  const std::uint64_t seed_;
  const ToyFault fault_;
  std::vector<Record> history_;   // what run() issued; constant afterwards
  VirtualClock clock_;
  SimDevice* device_ = nullptr;  // of the run; stepped by clock_
};

}  // namespace tidewheel
