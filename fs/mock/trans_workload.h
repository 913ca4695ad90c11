// fs/mock/trans_workload.h: the transaction machine for the crash enumerator (`tidewheel crash --workload
// trans`): Journal, Transaction, buffer cache, AIL, buffer items and intents.
//
// A run: three threads, each of which has a transaction open or none; a driver lets one of them go a step, by
// seed, so that transactions are open beside one another and a run still repeats itself. Steps: join and
// change chunks of blocks (relogging), make blocks (logged whole, or ordered), free blocks, write data to
// freed ones, chains with an intent, commit, cancel, force, push home while others have blocks locked,
// reclaim. The log is gone round several times. A run ends unmounted, or cut off, or by a changed transaction
// that is cancelled. Requests come in one order (no pusher; a device that completes at once); others are the
// simulator's to find (tests/fs/trans_crash_sim_test.cc).
//
// Oracle: after recovery every block is, byte for byte, what the first k transactions leave, with open
// intents finished, for one k not before the last that was acknowledged; a free block to which acknowledged
// data was written since it was freed holds that data.
// Threads:   as CrashWorkload.
#pragma once
#include <cstdint>
#include <vector>

#include "fs/crash/workload.h"
#include "fs/mock/trans_machine.h"

namespace tidewheel {

// What transactions leave of the blocks, and whether an image is that.
class BlockHistory {
 public:
  enum Ack : std::uint64_t { kForced = 1, kData = 2 };

  explicit BlockHistory(const MockLayout& layout) : layout_(layout) {}
  // Of one block after some transaction.
  struct Expected {
    std::uint64_t hash = 0;  // of its content; not for a free one
    std::uint32_t freed_at = 0;
    bool free = false;
  };
  using Image = std::vector<Expected>;
  // What is there after one more transaction. The first call: before any.
  void add(Image image) { after_.push_back(std::move(image)); }
  std::size_t transactions() const { return after_.size() - 1; }
  // Data written to a block that has been free since the transaction `freed_at`. Answers its number.
  std::uint64_t add_data(std::uint64_t block, std::uint32_t freed_at, std::uint64_t hash);

  CheckResult check(BlockDevice& device, Acks acks) const;

 private:
  struct Data {
    std::uint64_t block = 0;
    std::uint32_t freed_at = 0;
    std::uint64_t hash = 0;
  };
  struct Found {
    std::vector<std::uint64_t> content, whole;  // hashes of each block
    std::vector<bool> good;
  };
  bool matches(const Image& image, const Found& found, const std::vector<bool>& acknowledged) const;

  MockLayout layout_;
  std::vector<Image> after_;
  std::vector<Data> data_;
};

class TransWorkload final : public CrashWorkload {
 public:
  static constexpr std::uint32_t kSteps = 260;
  static constexpr std::uint32_t kActors = 3;

  explicit TransWorkload(std::uint64_t seed, std::uint32_t steps = kSteps,
                         const MockLayout& layout = {.objects = 16, .log_blocks = 36})
      : seed_(seed), steps_(steps), layout_(layout), history_(layout) {}

  std::uint64_t image_bytes() const override { return layout_.bytes(); }
  Result<void> format(BlockDevice& device) override;
  Result<void> run(BlockDevice& device, AckLog& acks) override;
  Result<void> recover(BlockDevice& device) const override;
  CheckResult check(BlockDevice& device, Acks acks) const override { return history_.check(device, acks); }

  // What a run did.
  struct Counts {
    std::uint32_t rounds = 0;  // of the log
    std::uint64_t transactions = 0, relogs = 0, whiteouts = 0, freed = 0, ordered = 0, data = 0, locked = 0;
  };
  const Counts& counts() const { return counts_; }
  const MockLayout& layout() const { return layout_; }

 private:
  class Run;

  const std::uint64_t seed_;
  const std::uint32_t steps_;
  const MockLayout layout_;
  BlockHistory history_;  // constant after run()
  Counts counts_;
};

}  // namespace tidewheel
