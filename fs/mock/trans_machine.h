// fs/mock/trans_machine.h: a file system of nothing but blocks, over all that a real one stands on: Journal,
// Transaction, buffer cache, buffer and intent items, AIL, log and recovery.
//
//   block 0        nothing
//   1 … objects    blocks that transactions make, change by chunks, and free (disk::MockBlock)
//   then           the log
//
// A free block is anybody's: a run may write data to it, as a file would.
// Owns:      cache, target and, unless it only looks, a Journal.
// Threads:   begin() and what takes a Transaction: from any thread, as fs/trans/transaction.h says; mount(),
//            unmount(), push_home() and the destructor by one. Without a pusher, who calls push() is the
//            pusher.
// Errors:    kReadOnly: idle; kShutDown; those of buffers and of recovery.
// Invariant: at its end nothing is pinned, held or granted (asserted by the log, the cache and push_home()).
#pragma once
#include <array>
#include <memory>
#include <span>

#include "fs/mock/mock_machine.h"
#include "fs/trans/transaction.h"

namespace tidewheel {

// What a block holds. Chunk 0 is its header and the first two; every other chunk is filled by its value.
struct BlockState {
  static constexpr std::uint32_t kChunks = kFsBlockBytes / disk::kDirtyChunkBytes;

  std::uint64_t version = 0;  // of the transaction that made it
  std::uint64_t applied = 0;  // intents that were finished on it
  std::array<std::uint32_t, kChunks> chunks{};

  void fill(std::span<std::byte> block, const MockLayout& layout, std::uint64_t number) const;
};
void fill_chunk(std::span<std::byte> block, std::uint64_t number, std::uint32_t chunk, std::uint32_t value);
// Of a block's content, LSN and CRC apart.
std::uint64_t hash_of_content(std::span<const std::byte> block);

// The layout's first objects are made, with version 0; the others are free, and hold zeros.
Result<void> format_blocks(BlockDevice& device, const MockLayout& layout, std::uint64_t made);

class TransMachine final : private Journal::Listener, private BufferPolicy {
 public:
  struct Options {
    MockLayout layout = {.objects = 16, .log_blocks = 32};
    LogOptions log = {.buffers = 4,
                      .buffer_bytes = disk::kMinLogBufferBytes,
                      .soft_bytes = 0,
                      .worker_interval = Duration::max()};
    bool pusher = true;
    // For who only wants to recover: no journal, and so no thread, unless intents are to be finished.
    bool idle = false;
  };
  static constexpr std::uint32_t kMostBlocks = 4;  // that one transaction changes
  // Bytes of log that a transaction of one unit takes at most.
  static constexpr std::uint64_t kMostUnitBytes = 32 * 1024;

  // Recovers, and finishes intents that were open.
  static Result<std::unique_ptr<TransMachine>> mount(BlockDevice& device, const Options& options);
  // As after a crash, unless unmount() came first: nothing more is written. No transaction is open.
  ~TransMachine();

  // ---- transactions ----
  Result<Transaction> begin(std::uint32_t units = 1);
  // The block is made, with this content: logged whole; or ordered, with an item from which recovery makes
  // it.
  Result<void> make(Transaction& transaction, std::uint64_t number, const BlockState& state);
  Result<void> make_ordered(Transaction& transaction, std::uint64_t number, std::uint64_t version);
  Result<void> change(Transaction& transaction, std::uint64_t number, std::uint32_t chunk,
                      std::uint32_t value);
  Result<void> free(Transaction& transaction, std::uint64_t number);
  // It has joined, and stays locked over the roll.
  void keep(Transaction& transaction, std::uint64_t number);
  // What finish() will do in a later transaction: `value` into a chunk of `target`, and one more applied.
  IntentItem& log_intent(Transaction& transaction, std::uint64_t id, std::uint64_t target,
                         std::uint32_t value);
  Result<void> finish(Transaction& transaction, IntentItem& intent, std::uint64_t target,
                      std::uint32_t value);
  static std::uint32_t chunk_of(std::uint32_t value) { return 1 + value % (BlockState::kChunks - 1); }

  // ---- where it stands ----
  Journal& journal() { return *journal_; }
  BufferCache& cache() { return cache_; }
  const Recovery& recovery() const { return recovery_; }
  std::uint64_t log_used_bytes() const;
  // That reservations can still have, beside what is in use and what tickets hold.
  std::int64_t log_free_bytes() const;

  // ---- without a pusher ----
  // One walk: what can go home now.
  void push();
  // All of it; nothing is pinned or locked by a transaction.
  Result<void> push_home();

  // Everything home, the log left cleanly.
  Result<void> unmount();

 private:
  TransMachine(BlockDevice& device, const Options& options);
  Result<void> recover_blocks(BlockDevice& device);
  void start_journal();
  Result<void> finish_recovered();
  Result<void> finish_one(IntentItem& intent, const MockIntentThing& thing);

  // Journal::Listener, BufferPolicy
  void journal_shut_down(Error) override {}
  WriteErrorAction on_write_error(const Buffer& buffer, Error error, std::uint32_t failures) override;
  void on_lost_write(const Buffer& buffer, Error error) override;

  const Options options_;
  MemoryBudget budget_;
  BufferCache cache_;
  BufferTarget target_;
  Recovery recovery_;
  std::unique_ptr<Journal> journal_;
};

}  // namespace tidewheel
