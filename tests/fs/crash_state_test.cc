// What may be lost at each cut of a trace, and the strings that name states.
#include <gtest/gtest.h>

#include <cstring>

#include "fs/block/recorded_device.h"
#include "fs/crash/crash_image.h"
#include "fs/crash/cut_walker.h"
#include "fs/crash/enumerate.h"

namespace tidewheel {
namespace {

using Kind = IoTrace::EventKind;

// A trace written down event by event. Blocks hold a letter.
class Script {
 public:
  static constexpr std::uint64_t kBlocks = 16;
  Script() {
    base_.size_bytes = kBlocks * kCrashBlockBytes;
    base_.blocks.resize(kBlocks);
  }
  std::uint32_t write(std::uint64_t block, char letter, bool preflush = false, bool fua = false,
                      std::uint32_t blocks = 1) {
    auto& content = contents_.emplace_back(blocks * kCrashBlockBytes, static_cast<std::byte>(letter));
    IoTrace::Op op{.op = IoOp::kWrite, .cause = IoCause::kLog};
    op.preflush = preflush;
    op.fua = fua;
    op.offset_bytes = block * kCrashBlockBytes;
    op.len_bytes = content.size();
    op.content = content.data();
    return submit(op);
  }
  std::uint32_t flush() { return submit(IoTrace::Op{.op = IoOp::kFlush, .cause = IoCause::kLog}); }
  void done(std::uint32_t op, bool ok = true) {
    trace_.ops[op].ok = ok;
    trace_.ops[op].completed = static_cast<std::uint32_t>(trace_.events.size());
    trace_.events.push_back({Kind::kCompleted, op});
  }
  void note() {
    trace_.events.push_back({Kind::kNote, static_cast<std::uint32_t>(trace_.notes.size())});
    trace_.notes.push_back({});
  }
  // The last cut, as "durable blocks / candidates": "Aa.. / b c".
  Cut last() {
    walker_ = std::make_unique<CutWalker>(trace_, base_);
    Cut cut;
    while (const Cut* next = walker_->next()) cut = *next;
    return cut;
  }
  std::vector<Cut> all() {
    walker_ = std::make_unique<CutWalker>(trace_, base_);
    std::vector<Cut> cuts;
    while (const Cut* next = walker_->next()) cuts.push_back(*next);
    return cuts;
  }
  std::string durable(const Cut& cut) const {
    std::string text;
    for (std::uint64_t block = 0; block < kBlocks; ++block) {
      const BlockRef ref = look_up(base_, cut.durable, block);
      text += ref.bytes == nullptr ? '.' : static_cast<char>(ref.bytes[0]);
    }
    return text.substr(0, text.find_last_not_of('.') + 1);
  }
  std::string candidates(const Cut& cut) const {
    std::string text;
    for (const Candidate& c : cut.candidates) text += static_cast<char>(c.content[0]);
    return text;
  }
  const BaseImage& base() const { return base_; }
  const IoTrace& trace() const { return trace_; }

 private:
  std::uint32_t submit(IoTrace::Op op) {
    op.submitted = static_cast<std::uint32_t>(trace_.events.size());
    const auto index = static_cast<std::uint32_t>(trace_.ops.size());
    trace_.ops.push_back(op);
    trace_.events.push_back({Kind::kSubmitted, index});
    return index;
  }
  BaseImage base_;
  IoTrace trace_;
  std::deque<std::vector<std::byte>> contents_;
  std::unique_ptr<CutWalker> walker_;
};

TEST(CutWalker, AFlushCoversWhatCompletedBeforeItsSubmission) {
  Script s;
  const auto a = s.write(0, 'a');
  s.done(a);
  const auto b = s.write(1, 'b');
  const auto flush = s.flush();
  s.done(b);  // under way when the flush was submitted: not covered, although it completes first
  s.done(flush);
  const Cut cut = s.last();
  EXPECT_EQ(s.durable(cut), "a");
  EXPECT_EQ(s.candidates(cut), "b");
}

TEST(CutWalker, AFlushThatFailsCoversNothing) {
  Script s;
  const auto a = s.write(0, 'a');
  s.done(a);
  s.done(s.flush(), false);
  EXPECT_EQ(s.candidates(s.last()), "a");
  s.done(s.flush());
  EXPECT_EQ(s.candidates(s.last()), "");
  EXPECT_EQ(s.durable(s.last()), "a");
}

TEST(CutWalker, AFailedWriteMayBeThereAndNoFlushCoversIt) {
  Script s;
  const auto a = s.write(0, 'a');
  s.done(a, false);
  s.done(s.flush());
  EXPECT_EQ(s.candidates(s.last()), "a");
  EXPECT_EQ(s.durable(s.last()), "");
}

TEST(CutWalker, FuaIsDurableAtItsOwnCompletionAlone) {
  Script s;
  const auto a = s.write(0, 'a');
  s.done(a);
  const auto b = s.write(1, 'b', false, true);
  EXPECT_EQ(s.candidates(s.last()), "ab");
  s.done(b);
  EXPECT_EQ(s.durable(s.last()), ".b");
  EXPECT_EQ(s.candidates(s.last()), "a");
}

TEST(CutWalker, WhatAPreflushCoversIsThereBeforeItsWrite) {
  Script s;
  const auto a = s.write(0, 'a');
  s.done(a);
  const auto late = s.write(1, 'l');
  const auto c = s.write(2, 'c', true, true);
  s.done(late);
  const Cut cut = s.last();
  ASSERT_EQ(s.candidates(cut), "alc");
  EXPECT_EQ(cut.candidates[2].needs, std::vector<std::uint32_t>{0});
  StateSpec spec;
  spec.lose(0);
  EXPECT_FALSE(is_possible(cut, spec));
  EXPECT_NE(misfit(cut, spec), "");
  spec.lose(2);
  EXPECT_TRUE(is_possible(cut, spec));
  StateSpec torn;
  torn.torn.push_back({0, Tear::Form::kPrefix, 512});
  EXPECT_FALSE(is_possible(cut, torn));
  for (const StateSpec& each : enumerate(cut, 1, 10'000)) EXPECT_TRUE(is_possible(cut, each));
  Rng rng(1);
  for (int i = 0; i < 1'000; ++i) EXPECT_TRUE(is_possible(cut, draw_state(cut, rng)));
  s.done(c);
  EXPECT_EQ(s.durable(s.last()), "a.c");
  EXPECT_EQ(s.candidates(s.last()), "l");
}

TEST(CutWalker, OldContentNeverComesBackOverADurableWrite) {
  Script s;
  const auto a = s.write(0, 'a', false, false, 2);
  s.done(a);
  const auto b = s.write(1, 'b', false, true);
  s.done(b);
  Cut cut = s.last();
  ASSERT_EQ(s.candidates(cut), "a");
  EXPECT_EQ(cut.candidates[0].live_sectors(0), 0xFF);
  EXPECT_EQ(cut.candidates[0].live_sectors(1), 0);
  BlockMap over;
  BlockArena arena;
  apply(s.base(), cut, {}, over, arena);
  EXPECT_EQ(static_cast<char>(over.find(0)->ref.bytes[0]), 'a');
  EXPECT_EQ(over.find(1), nullptr);
  s.done(s.flush());
  EXPECT_EQ(s.durable(s.last()), "ab");
  // Wholly covered: no longer a candidate.
  const auto c = s.write(3, 'c');
  s.done(c);
  s.done(s.write(3, 'd', false, true));
  EXPECT_EQ(s.candidates(s.last()), "");
}

TEST(CutWalker, WritesSideBySideHaveNoOrder) {
  Script s;
  const auto a = s.write(0, 'a');
  const auto b = s.write(0, 'b', false, true);
  s.done(a);
  s.done(b);
  // a may still land on b.
  EXPECT_EQ(s.candidates(s.last()), "a");
  EXPECT_EQ(s.durable(s.last()), "b");
}

TEST(CutWalker, TheLaterOfTwoWinsWhenItIsThere) {
  Script s;
  s.done(s.write(0, 'a'));
  s.done(s.write(0, 'b'));
  const Cut cut = s.last();
  for (const auto& [lost, expected] : {std::pair{0, 'b'}, {1, 'b'}, {2, 'a'}, {3, '.'}}) {
    StateSpec spec;
    spec.lost = {static_cast<std::uint64_t>(lost)};
    BlockMap over;
    BlockArena arena;
    apply(s.base(), cut, spec, over, arena);
    const BlockMap::Entry* entry = over.find(0);
    EXPECT_EQ(entry == nullptr ? '.' : static_cast<char>(entry->ref.bytes[0]), expected) << lost;
  }
}

TEST(CutWalker, CutsBeforeEachEventThatChangesWhatMayBeLost) {
  Script s;
  const auto a = s.write(0, 'a');  // 0
  s.done(a);                       // 1
  s.note();                        // 2
  const auto f = s.flush();        // 3
  s.note();                        // 4
  s.done(f);                       // 5
  s.note();                        // 6
  s.done(s.flush());               // 7, 8: covers nothing more
  const std::vector<Cut> cuts = s.all();
  ASSERT_EQ(cuts.size(), 3U);
  EXPECT_EQ(cuts[0].event, 0U);
  EXPECT_EQ(cuts[0].notes, 0U);
  EXPECT_EQ(cuts[1].event, 5U);
  EXPECT_EQ(cuts[1].notes, 2U);
  EXPECT_EQ(cuts[1].candidates.size(), 1U);
  EXPECT_EQ(cuts[2].event, 9U);
  EXPECT_EQ(cuts[2].notes, 3U);
  EXPECT_EQ(cuts[2].candidates.size(), 0U);
}

TEST(Enumerate, TriesEverySubsetOfTen) {
  Script s;
  for (std::uint64_t i = 0; i < 10; ++i) s.done(s.write(i, static_cast<char>('a' + i)));
  const Cut cut = s.last();
  std::vector<bool> seen(1024);
  std::size_t torn = 0;
  for (const StateSpec& spec : enumerate(cut, 1, 100'000)) {
    if (!spec.torn.empty()) {
      ++torn;
    } else {
      seen[spec.lost.empty() ? 0 : spec.lost[0]] = true;
    }
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 1024);
  EXPECT_GE(torn, 7U * 2U);
}

TEST(Enumerate, SamplesBeyondTenBySeedAndKeepsToALimit) {
  Script s;
  for (std::uint64_t i = 0; i < 15; ++i) s.done(s.write(i, static_cast<char>('a' + i)));
  const Cut cut = s.last();
  std::vector<std::uint64_t> lost;
  for (const StateSpec& spec : enumerate(cut, 1, 100'000)) {
    lost.push_back(spec.lost.empty() ? 0 : spec.lost[0]);
  }
  for (std::uint64_t i = 0; i < 15; ++i) {
    EXPECT_NE(std::find(lost.begin(), lost.end(), 1ULL << i), lost.end()) << "all but " << i;
    EXPECT_NE(std::find(lost.begin(), lost.end(), 0x7FFFULL ^ 1ULL << i), lost.end()) << i << " alone";
    EXPECT_NE(std::find(lost.begin(), lost.end(), 0x7FFFULL & ~0ULL << i), lost.end()) << "up to " << i;
  }
  EXPECT_EQ(enumerate(cut, 1, 5).size(), 5U);
  EXPECT_EQ(enumerate(cut, 1, 1).size(), 1U);
  const auto text = [&](std::uint64_t seed) {
    std::string all;
    for (const StateSpec& spec : enumerate(cut, seed, 100)) {
      all += to_string(ReplayName{"x", 1, 2, {{3, spec}}});
    }
    return all;
  };
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
}

TEST(CrashImage, IsTheBaseUntilWrittenAndLeavesItAlone) {
  Script s;
  s.done(s.write(2, 'a'));
  s.done(s.flush());
  s.done(s.write(3, 'b', false, false, 2));
  const Cut cut = s.last();
  CrashImage image;
  StateSpec torn;
  torn.torn.push_back({0, Tear::Form::kPrefix, 4096 + 1024});
  const std::uint64_t hash = image.reset(s.base(), cut, torn);
  EXPECT_EQ(hash, image.content_hash());
  std::vector<std::byte> all(Script::kBlocks * 4096);
  ASSERT_TRUE(image.read(0, all));
  EXPECT_EQ(static_cast<char>(all[2 * 4096]), 'a');
  EXPECT_EQ(static_cast<char>(all[4 * 4096 + 1023]), 'b');
  EXPECT_EQ(all[4 * 4096 + 1024], std::byte{0});
  // The sum over blocks of what is there.
  std::uint64_t sum = 0;
  for (std::uint64_t b = 0; b < Script::kBlocks; ++b) sum += hash_of_block(b, all.data() + b * 4096);
  EXPECT_EQ(hash, sum);
  const std::vector<std::byte> other(4096, std::byte{'z'});
  ASSERT_TRUE(image.write(3 * 4096, other));
  ASSERT_TRUE(image.write(9 * 4096, other));
  EXPECT_NE(image.content_hash(), hash);
  EXPECT_EQ(image.reset(s.base(), cut, torn), hash);
  EXPECT_EQ(image.content_hash(), hash);
  std::vector<std::byte> again(all.size());
  ASSERT_TRUE(image.read(0, again));
  EXPECT_TRUE(all == again) << "a write went into what is shared";
  EXPECT_EQ(image.write(Script::kBlocks * 4096, other).error().code, Reason::kOutOfRange);
}

TEST(CrashImage, EndsWhatWouldNotEnd) {
  Script s;
  s.done(s.write(0, 'a'));
  const Cut cut = s.last();
  CrashImage image;
  image.set_operation_limit(3);
  image.reset(s.base(), cut, {});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(image.flush());
  EXPECT_FALSE(image.is_exhausted());
  EXPECT_EQ(image.flush().error().code, Reason::kIo);
  EXPECT_TRUE(image.is_exhausted());
  image.reset(s.base(), cut, {});
  EXPECT_TRUE(image.flush());
}

TEST(ReplayName, SaysItselfAgain) {
  for (const char* text :
       {"toy:seed=1:trace=0000000f:cut=0", "mock:seed=18446744073709551615:trace=ffffffff:cut=12:lost=0x5",
        "mock:seed=7:trace=12345678:cut=123:lost=0x5:torn=1@1024+3@0xf0+4@r77",
        "mock:seed=7:trace=12345678:cut=123:lost=0x10000000000000000/cut=4:torn=0@512/cut=9:lost=0x1"}) {
    const auto name = parse_replay(text);
    ASSERT_TRUE(std::holds_alternative<ReplayName>(name)) << text << ": " << std::get<std::string>(name);
    EXPECT_EQ(to_string(std::get<ReplayName>(name)), text);
  }
  const auto name =
      std::get<ReplayName>(parse_replay("m:seed=1:trace=00000000:cut=3:lost=0x10000000000000002"));
  EXPECT_TRUE(name.levels[0].spec.is_lost(1));
  EXPECT_TRUE(name.levels[0].spec.is_lost(64));
  EXPECT_FALSE(name.levels[0].spec.is_lost(0));
}

TEST(ReplayName, RefusesWhatItIsNotInOneLine) {
  const std::string run = "toy:seed=1:trace=00000000";
  std::vector<std::string> wrong = {"", "toy", ":seed=1:trace=00000000:cut=1", "toy:cut=1",
                                    "toy:seed=x:trace=00000000:cut=1", "toy:seed=1:cut=1",
                                    "toy:seed=1:trace=123:cut=1", run};
  for (const char* rest :
       {"", "cut", "cut=", "cut=-1", "cut=1x", "cut=4294967295", "lost=0x1", "cut=1:cut=2", "cut=1:lost=5",
        "cut=1:lost=0x", "cut=1:lost=0xg", "cut=1:lost=0x1:lost=0x1", "cut=1:torn=", "cut=1:torn=1",
        "cut=1:torn=1@", "cut=1:torn=1@100", "cut=1:torn=1@r", "cut=1:torn=1@0x", "cut=1:torn=1@512+1@512",
        "cut=1:torn=2@512+1@512", "cut=1:torn=9999999999@512", "cut=1:gone=1", "cut=1/", "cut=1//cut=2",
        "cut=1/lost=0x1", "cut=1 "}) {
    wrong.push_back(run + ":" + rest);
  }
  wrong.push_back(run + ":cut=1:lost=0x" + std::string(70'000, '1'));
  for (const std::string& text : wrong) {
    const auto name = parse_replay(text);
    ASSERT_TRUE(std::holds_alternative<std::string>(name)) << text;
    const std::string& line = std::get<std::string>(name);
    EXPECT_FALSE(line.empty());
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_LT(line.size(), 200U) << line;
  }
}

}  // namespace
}  // namespace tidewheel
