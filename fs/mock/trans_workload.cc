#include "fs/mock/trans_workload.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "base/rng.h"
#include "base/thread.h"
#include "fs/crash/block_map.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kMade = 10;         // blocks that format() leaves made
constexpr std::uint32_t kMostUnforced = 6;  // transactions
constexpr std::uint32_t kNobody = UINT32_MAX;

LockClass actor_class{"trans-actor", LockRank::kNone};

// A thread that does one thing after the other, as it is told: a transaction belongs to its thread.
class Actor {
 public:
  Actor() : lock_(actor_class), thread_("actor", [this] { work(); }) {}
  ~Actor() {
    {
      MutexLock hold(lock_);
      ending_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;

  // Returns when it is done.
  void call(const std::function<void()>& step) {
    MutexLock hold(lock_);
    step_ = &step;
    changed_.notify_all();
    while (step_ != nullptr) changed_.wait(lock_);
  }

 private:
  void work() {
    for (;;) {
      const std::function<void()>* step = nullptr;
      {
        MutexLock hold(lock_);
        while (step_ == nullptr && !ending_) changed_.wait(lock_, CondVar::For::kWork);
        step = step_;
      }
      if (step == nullptr) return;
      (*step)();
      MutexLock hold(lock_);
      step_ = nullptr;
      changed_.notify_all();
    }
  }

  Mutex lock_;
  CondVar changed_;
  const std::function<void()>* step_ TW_GUARDED_BY(lock_) = nullptr;
  bool ending_ TW_GUARDED_BY(lock_) = false;
  Thread thread_;
};

}  // namespace

Result<void> TransWorkload::format(BlockDevice& device) {
  history_ = BlockHistory(layout_);
  BlockHistory::Image image;
  alignas(4096) std::array<std::byte, kFsBlockBytes> bytes;
  for (std::uint64_t number = 0; number < layout_.objects; ++number) {
    BlockState{}.fill(bytes, layout_, number);
    image.push_back({.hash = hash_of_content(bytes), .free = number >= kMade});
  }
  history_.add(std::move(image));
  return format_blocks(device, layout_, kMade);
}

// One run, a step after the other.
class TransWorkload::Run {
 public:
  Run(TransWorkload& its, TransMachine& machine, BlockDevice& device, AckLog& acks)
      : its_(its),
        machine_(machine),
        device_(device),
        acks_(acks),
        rng_(its.seed_),
        now_(its.layout_.objects) {
    for (std::uint64_t number = kMade; number < now_.size(); ++number) now_[number].free = true;
  }
  // Ended early, or cut off: nothing more is written.
  ~Run() {
    machine_.journal().shut_down(Error{Reason::kShutDown, 0, 0});
    for (std::uint32_t actor = 0; actor < kActors; ++actor) cancel(actor);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  Result<void> go() {
    for (std::uint32_t step = 0; step < its_.steps_; ++step) {
      TW_TRY(let_go(static_cast<std::uint32_t>(rng_.below(kActors))));
      if (unforced_ >= kMostUnforced || rng_.chance(12)) TW_TRY(force());
      if (rng_.chance(4)) TW_TRY(write_data());
      // Nothing is pinned then: a walk that met pinned items would have the log forced beside it.
      if (unforced_ == 0 && rng_.chance(3)) machine_.push();
      if (rng_.chance(20)) machine_.cache().shrink(rng_.below(16) * kFsBlockBytes);
    }
    count();
    const std::uint64_t end = rng_.below(3);
    if (end == 0) {
      TW_TRY(end_transactions());
      return machine_.unmount();
    }
    if (end == 1) return cancel_a_change();
    return {};
  }

 private:
  struct Block {
    BlockState state;
    bool free = false;
    bool stable = true;                    // that it is free
    std::uint32_t freed_at = 0;
    bool data = false;                     // has been written to it since
    std::uint32_t holder = kNobody;        // whose transaction has it
    bool target = false;                   // of an open intent
  };
  struct Open {
    std::optional<Transaction> transaction;
    std::vector<std::pair<std::uint64_t, Block>> changed;  // what the next commit leaves
    IntentItem* intent = nullptr;
    std::uint64_t target = 0;
    std::uint32_t value = 0;
    std::uint32_t units = 1;
  };

  // ---- steps ----
  Result<void> let_go(std::uint32_t actor) {
    Open& open = open_[actor];
    if (!open.transaction) return begin(actor);
    const std::uint64_t kind = rng_.below(10);
    // The last of a chain changes one more.
    const bool room = open.changed.size() + 1 < TransMachine::kMostBlocks;
    if (kind < 4 && room) return change(actor);
    if (kind == 4 && open.intent == nullptr && room) {
      return rng_.chance(2) ? free_block(actor) : make_block(actor);
    }
    if (open.units == 2 && open.intent == nullptr) return begin_chain(actor);
    if (open.intent != nullptr) return finish_chain(actor);
    return commit(actor);
  }

  Result<void> begin(std::uint32_t actor) {
    const std::uint32_t units = rng_.chance(3) ? 2 : 1;
    const std::uint64_t need = units * TransMachine::kMostUnitBytes;
    if (machine_.log_free_bytes() < static_cast<std::int64_t>(need)) TW_TRY(free_log());
    Open& open = open_[actor];
    open.units = units;
    Result<void> begun;
    actors_[actor].call([&] {
      auto transaction = machine_.begin(units);
      if (transaction) {
        open.transaction.emplace(std::move(*transaction));
      } else {
        begun = Unexpected(transaction.error());
      }
    });
    TW_TRY(begun);
    // Reads, and perhaps nothing more.
    return rng_.chance(10) ? end_without_change(actor) : change(actor);
  }

  Result<void> end_without_change(std::uint32_t actor) {
    cancel(actor);
    return {};
  }

  Result<void> change(std::uint32_t actor) {
    const std::uint64_t number = some_block(actor, false);
    if (number == now_.size()) return {};
    Block& block = changed(actor, number);
    // A made block in full, now and then; most often a chunk or three of it.
    for (std::uint64_t left = 1 + rng_.below(3); left != 0; --left) {
      const auto chunk = static_cast<std::uint32_t>(1 + rng_.below(BlockState::kChunks - 1));
      const std::uint32_t value = ++value_;
      block.state.chunks[chunk] = value;
      TW_TRY(with(actor, [&](Transaction& t) { return machine_.change(t, number, chunk, value); }));
    }
    return {};
  }

  Result<void> free_block(std::uint32_t actor) {
    std::uint64_t number = some_block(actor, false);
    // One that was ordered may not be home yet, and what it was made from must not be replayed.
    if (rng_.chance(2) && last_ordered_ < now_.size()) {
      const Block& last = now_[last_ordered_];
      if (!last.free && last.holder == kNobody && !last.target) number = last_ordered_;
    }
    if (number == now_.size()) return {};
    Block& block = changed(actor, number);
    block.free = true;
    block.stable = block.data = false;
    ++its_.counts_.freed;
    return with(actor, [&](Transaction& t) { return machine_.free(t, number); });
  }

  Result<void> make_block(std::uint32_t actor) {
    const std::uint64_t number = some_block(actor, true);
    if (number == now_.size()) return {};
    Block& block = changed(actor, number);
    block.free = false;
    block.state = BlockState{.version = ++value_};
    const bool ordered = rng_.chance(2);
    if (ordered) {
      ++its_.counts_.ordered;
      last_ordered_ = number;
      return with(actor,
                  [&](Transaction& t) { return machine_.make_ordered(t, number, block.state.version); });
    }
    for (std::uint32_t chunk = 1; chunk < BlockState::kChunks; chunk += 5) {
      block.state.chunks[chunk] = ++value_;
    }
    return with(actor, [&](Transaction& t) { return machine_.make(t, number, block.state); });
  }

  Result<void> begin_chain(std::uint32_t actor) {
    Open& open = open_[actor];
    const std::uint64_t target = some_target();
    if (target == now_.size()) return commit(actor);
    open.target = target;
    open.value = ++value_;
    now_[target].target = true;
    // Now and then a block stays with the chain, locked over the roll.
    const bool keeps = !open.changed.empty() && !open.changed.front().second.free && rng_.chance(2);
    const std::uint64_t kept = keeps ? open.changed.front().first : 0;
    Result<void> rolled;
    actors_[actor].call([&] {
      if (keeps) machine_.keep(*open.transaction, kept);
      open.intent = &machine_.log_intent(*open.transaction, open.value, target, open.value);
      const auto sequence = open.transaction->roll();
      if (sequence) {
        sequence_ = *sequence;
      } else {
        rolled = Unexpected(sequence.error());
      }
    });
    // Whatever had been committed, the chain has ended: cancel() lets the intent go.
    if (!rolled) return rolled;
    committed(actor);
    if (keeps) now_[kept].holder = actor;
    return {};
  }

  Result<void> finish_chain(std::uint32_t actor) {
    Open& open = open_[actor];
    Block& block = changed(actor, open.target);
    now_[open.target].target = false;
    ++block.state.applied;
    block.state.chunks[TransMachine::chunk_of(open.value)] = open.value;
    TW_TRY(with(actor, [&](Transaction& t) {
      const auto finished = machine_.finish(t, *open.intent, open.target, open.value);
      if (finished) open.intent = nullptr;  // its done item stands for it
      return finished;
    }));
    return commit(actor);
  }

  Result<void> commit(std::uint32_t actor) {
    Open& open = open_[actor];
    Result<std::uint64_t> sequence = std::uint64_t{0};
    actors_[actor].call([&] {
      sequence = open.transaction->commit();
      open.transaction.reset();
    });
    if (!sequence) return Unexpected(sequence.error());
    if (*sequence == 0) return {};  // nothing of it was changed
    sequence_ = *sequence;
    committed(actor);
    return {};
  }

  void cancel(std::uint32_t actor) {
    Open& open = open_[actor];
    actors_[actor].call([&] { open.transaction.reset(); });
    if (open.intent != nullptr) open.intent->forsake();
    open.intent = nullptr;
    for (Block& block : now_) {
      if (block.holder == actor) block.holder = kNobody;
    }
    open.changed.clear();
  }

  Result<void> force() {
    TW_TRY(machine_.journal().log().force(sequence_));
    acks_.add(BlockHistory::kForced, its_.history_.transactions());
    unforced_ = 0;
    for (Block& block : now_) block.stable = true;
    return {};
  }

  // As a file's data would be that was given the block.
  Result<void> write_data() {
    for (std::uint64_t number = 0; number < now_.size(); ++number) {
      Block& block = now_[number];
      if (!block.free || !block.stable || block.data || block.holder != kNobody || rng_.chance(2)) continue;
      alignas(4096) std::array<std::byte, kFsBlockBytes> bytes;
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(rng_.next());
      const std::uint64_t id = its_.history_.add_data(number, block.freed_at, hash_of_bytes(bytes, 0));
      TW_TRY(device_.write(its_.layout_.home(number).bytes(), bytes));
      block.data = true;
      ++its_.counts_.data;
      if (rng_.chance(2)) {
        TW_TRY(device_.flush());
        acks_.add(BlockHistory::kData, id);
      }
      return {};
    }
    return {};
  }

  Result<void> end_transactions() {
    for (std::uint32_t actor = 0; actor < kActors; ++actor) {
      Open& open = open_[actor];
      if (!open.transaction) continue;
      TW_TRY(open.intent != nullptr ? finish_chain(actor) : commit(actor));
    }
    return {};
  }

  // The tail moves only past intents that are finished; the next commit record says where it is.
  Result<void> free_log() {
    TW_TRY(end_transactions());
    TW_TRY(force());
    TW_TRY(machine_.push_home());
    Result<void> begun;
    actors_[0].call([&] {
      auto transaction = machine_.begin();
      if (transaction) {
        open_[0].transaction.emplace(std::move(*transaction));
      } else {
        begun = Unexpected(transaction.error());
      }
    });
    TW_TRY(begun);
    TW_TRY(change(0));
    TW_TRY(commit(0));
    return force();
  }

  // What was changed cannot be taken back: the mount dies, and the log with it.
  Result<void> cancel_a_change() {
    for (std::uint32_t actor = 0; actor < kActors; ++actor) {
      if (open_[actor].transaction && open_[actor].transaction->dirty()) {
        cancel(actor);
        break;
      }
    }
    return {};
  }

  // ---- what they leave ----
  // A block that this actor may have: made, or free for good. The number of blocks: there is none.
  std::uint64_t some_block(std::uint32_t actor, bool free) {
    for (std::uint32_t tries = 0; tries < 24; ++tries) {
      const std::uint64_t number = rng_.below(now_.size());
      const Block& block = now_[number];
      if (block.holder != kNobody && (block.holder != actor || free)) continue;
      if (block.holder == actor && is_freed_by(actor, number)) continue;
      const bool is_free = block.free && block.holder == kNobody;
      if (is_free == free && (!free || block.stable) && !block.target) return number;
    }
    return now_.size();
  }
  std::uint64_t some_target() {
    for (std::uint32_t tries = 0; tries < 24; ++tries) {
      const std::uint64_t number = rng_.below(now_.size());
      const Block& block = now_[number];
      if (!block.free && block.holder == kNobody && !block.target) return number;
    }
    return now_.size();
  }
  bool is_freed_by(std::uint32_t actor, std::uint64_t number) const {
    for (const auto& [changed, block] : open_[actor].changed) {
      if (changed == number) return block.free;
    }
    return false;
  }
  // What the actor's transaction leaves of it.
  Block& changed(std::uint32_t actor, std::uint64_t number) {
    now_[number].holder = actor;
    auto& all = open_[actor].changed;
    for (auto& [found, block] : all) {
      if (found == number) return block;
    }
    return all.emplace_back(number, now_[number]).second;
  }
  Result<void> with(std::uint32_t actor, const std::function<Result<void>(Transaction&)>& step) {
    Result<void> result;
    actors_[actor].call([&] { result = step(*open_[actor].transaction); });
    return result;
  }

  void committed(std::uint32_t actor) {
    Open& open = open_[actor];
    const auto at = static_cast<std::uint32_t>(its_.history_.transactions() + 1);
    for (auto& [number, block] : open.changed) {
      const bool target = now_[number].target;
      if (block.free) block.freed_at = at;
      now_[number] = block;
      now_[number].target = target;
    }
    open.changed.clear();
    for (Block& block : now_) {
      if (block.holder == actor) block.holder = kNobody;
    }
    ++unforced_;
    note();
  }
  void note() {
    BlockHistory::Image image;
    alignas(4096) std::array<std::byte, kFsBlockBytes> bytes;
    for (std::uint64_t number = 0; number < now_.size(); ++number) {
      const Block& block = now_[number];
      BlockHistory::Expected expected{.freed_at = block.freed_at, .free = block.free};
      if (!block.free) {
        BlockState state = block.state;
        for (const Open& open : open_) {
          if (open.intent == nullptr || open.target != number || !block.target) continue;
          ++state.applied;
          state.chunks[TransMachine::chunk_of(open.value)] = open.value;
        }
        state.fill(bytes, its_.layout_, number);
        expected.hash = hash_of_content(bytes);
      }
      image.push_back(expected);
    }
    its_.history_.add(std::move(image));
  }
  void count() {
    const LogStats log = machine_.journal().log().stats();
    its_.counts_.rounds = machine_.journal().log().head().cycle();
    its_.counts_.transactions = its_.history_.transactions();
    its_.counts_.relogs = log.cil.relogs;
    its_.counts_.whiteouts = log.cil.whiteouts;
    its_.counts_.locked = machine_.journal().ail().stats().locked;
  }

  TransWorkload& its_;
  TransMachine& machine_;
  BlockDevice& device_;
  AckLog& acks_;
  Rng rng_;
  std::vector<Block> now_;
  std::array<Open, kActors> open_;
  std::array<Actor, kActors> actors_;
  std::uint64_t last_ordered_ = UINT64_MAX;
  std::uint32_t value_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint32_t unforced_ = 0;
};

Result<void> TransWorkload::run(BlockDevice& device, AckLog& acks) {
  TransMachine::Options options{.layout = layout_, .pusher = false};
  // Forces alone close checkpoints.
  options.log.soft_bytes = layout_.log_blocks * std::uint64_t{kFsBlockBytes};
  auto machine = TransMachine::mount(device, options);
  if (!machine) return Unexpected(machine.error());
  return Run(*this, **machine, device, acks).go();
}

Result<void> TransWorkload::recover(BlockDevice& device) const {
  auto machine = TransMachine::mount(device, {.layout = layout_, .pusher = false, .idle = true});
  if (!machine) return Unexpected(machine.error());
  return (*machine)->unmount();
}

}  // namespace tidewheel
