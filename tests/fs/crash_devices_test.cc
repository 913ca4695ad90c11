// The devices that crash: what a volatile cache loses, what is recorded, what fails in part.
#include <gtest/gtest.h>

#include "base/sim.h"
#include "base/thread.h"
#include "fs/block/faulty_device.h"
#include "fs/block/file_device.h"
#include "fs/block/limited_device.h"
#include "fs/block/null_device.h"
#include "fs/block/ram_device.h"
#include "fs/block/recorded_device.h"
#include "fs/block/sim_device.h"
#include "fs/crash/crash_image.h"
#include "fs/crash/cut_walker.h"
#include "tests/fs/io.h"
#include "tests/fs/scratch.h"
#include "tests/length.h"

namespace tidewheel {
namespace {

constexpr std::uint64_t kBlock = 4096;
constexpr std::uint64_t kBlocks = 16;

AlignedBytes filled(char letter, std::uint64_t blocks = 1) {
  AlignedBytes bytes(blocks * kBlock);
  std::memset(bytes.data(), letter, bytes.size());
  return bytes;
}

// What each sector of a device begins with; '.' for zeros.
std::string letters(BlockDevice& device, std::uint64_t block, std::uint64_t blocks = 1) {
  AlignedBytes bytes(blocks * kBlock);
  EXPECT_TRUE(device.read(block * kBlock, bytes.span()));
  std::string text;
  for (std::uint64_t at = 0; at < bytes.size(); at += kSectorBytes) {
    const char c = static_cast<char>(bytes.data()[at]);
    text += c == 0 ? '.' : c;
    for (std::uint64_t i = 0; i < kSectorBytes; ++i) EXPECT_EQ(bytes.data()[at + i], bytes.data()[at]);
  }
  return text;
}

// ---- the simulated device, stepped ----
class SteppedSim : public testing::Test {
 protected:
  SteppedSim() : device_({.size_bytes = kBlocks * kBlock, .seed = 5}, clock_) {}
  Flight::One& start(IoOp op, std::uint64_t block, char letter, bool preflush = false, bool fua = false) {
    memory_.push_back(filled(letter));
    std::vector<IoSegment> segments;
    if (op != IoOp::kFlush) segments.push_back({memory_.back().data(), kBlock});
    Flight::One& one = flight_.add(op, block * kBlock, segments);
    one.request.preflush = preflush;
    one.request.fua = fua;
    device_.submit(one.request);
    return one;
  }
  bool step() {
    const Instant due = device_.next_due();
    if (due == Instant::max()) return false;
    clock_.set(due);
    return device_.run_due() != 0;
  }
  void finish(const Flight::One& one) {
    while (one.completions == 0) ASSERT_TRUE(step());
  }
  char now(std::uint64_t block) {
    Flight::One& one = start(IoOp::kRead, block, '?');
    finish(one);
    const char c = static_cast<char>(*static_cast<std::byte*>(one.segments[0].data));
    return c == 0 ? '.' : c;
  }
  // What is left when all that may be lost is.
  void lose_all() { EXPECT_TRUE(device_.lose_unflushed()); }

  VirtualClock clock_;
  SimDevice device_;
  Flight flight_;
  std::deque<AlignedBytes> memory_;
};

TEST_F(SteppedSim, ForgetsWhatNoFlushCovers) {
  finish(start(IoOp::kWrite, 0, 'a'));
  finish(start(IoOp::kFlush, 0, ' '));
  finish(start(IoOp::kWrite, 0, 'b'));
  finish(start(IoOp::kWrite, 1, 'c'));
  EXPECT_EQ(now(0), 'b');
  EXPECT_EQ(device_.unflushed_writes(), 2U);
  lose_all();
  EXPECT_EQ(now(0), 'a');
  EXPECT_EQ(now(1), '.');
}

TEST_F(SteppedSim, AFlushDoesNotCoverWhatWasUnderWay) {
  auto& write = start(IoOp::kWrite, 0, 'a');
  auto& flush = start(IoOp::kFlush, 0, ' ');
  finish(write);
  finish(flush);
  EXPECT_EQ(device_.unflushed_writes(), 1U);
  lose_all();
  EXPECT_EQ(now(0), '.');
}

TEST_F(SteppedSim, HonoursPreflushAndFua) {
  finish(start(IoOp::kWrite, 0, 'a'));
  finish(start(IoOp::kWrite, 1, 'b', false, true));
  lose_all();
  EXPECT_EQ(now(0), '.');
  EXPECT_EQ(now(1), 'b');
  finish(start(IoOp::kWrite, 0, 'a'));
  finish(start(IoOp::kWrite, 2, 'c', true, false));
  lose_all();
  EXPECT_EQ(now(0), 'a');
  EXPECT_EQ(now(2), '.');
  EXPECT_EQ(device_.stats().flushes, 1U);
  EXPECT_EQ(device_.stats().fua_writes, 1U);
}

TEST_F(SteppedSim, OldContentNeverComesBackOverFua) {
  finish(start(IoOp::kWrite, 0, 'a'));
  finish(start(IoOp::kWrite, 0, 'b', false, true));
  finish(start(IoOp::kFlush, 0, ' '));
  EXPECT_EQ(now(0), 'b');
  lose_all();
  EXPECT_EQ(now(0), 'b');
  finish(start(IoOp::kWrite, 1, 'a'));
  finish(start(IoOp::kWrite, 1, 'b', false, true));
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    device_.power_cut(seed);
    device_.power_on();
    ASSERT_EQ(now(1), 'b') << seed;
  }
}

TEST_F(SteppedSim, CompletesInAnotherOrderAndTheSameForASeed) {
  for (std::uint64_t i = 0; i < 12; ++i) start(IoOp::kWrite, i, static_cast<char>('a' + i));
  while (step()) {
  }
  std::string order;
  for (const Flight::One* one : flight_.order()) {
    order += static_cast<char>(*static_cast<std::byte*>(one->segments[0].data));
  }
  EXPECT_EQ(order.size(), 12U);
  EXPECT_NE(order, "abcdefghijkl");
  VirtualClock clock;
  SimDevice again({.size_bytes = kBlocks * kBlock, .seed = 5}, clock);
  Flight flight;
  for (std::uint64_t i = 0; i < 12; ++i) flight.add(IoOp::kWrite, i * kBlock, {{memory_[i].data(), kBlock}});
  flight.submit_all(again);
  while (flight.over() < 12) {
    clock.set(again.next_due());
    again.run_due();
  }
  std::string second;
  for (const Flight::One* one : flight.order()) {
    second += static_cast<char>(*static_cast<std::byte*>(one->segments[0].data));
  }
  EXPECT_EQ(order, second);
}

TEST_F(SteppedSim, PassesBytesAtItsBandwidth) {
  VirtualClock clock;
  SimDevice slow({.size_bytes = kBlocks * kBlock,
                  .bytes_per_s = 4'096'000,
                  .latency = microseconds(7),
                  .spread = nanoseconds(0)},
                 clock);
  AlignedBytes memory(kBlock);
  Flight flight;
  for (int i = 0; i < 3; ++i) flight.add(IoOp::kWrite, 0, {{memory.data(), kBlock}});
  flight.submit_all(slow);
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(slow.next_due(), Instant{0} + milliseconds(i) + microseconds(7));
    clock.set(slow.next_due());
    EXPECT_EQ(slow.run_due(), 1U);
  }
}

TEST_F(SteppedSim, APowerCutEndsWhatIsInFlightAndRefusesTheRest) {
  auto& write = start(IoOp::kWrite, 0, 'a');
  device_.power_cut(1);
  EXPECT_EQ(write.completions, 1);
  EXPECT_EQ(write.result.error().code, Reason::kIo);
  auto& refused = start(IoOp::kFlush, 0, ' ');
  EXPECT_EQ(refused.result.error().code, Reason::kIo);
  EXPECT_EQ(device_.stats().errors, 2U);
  device_.power_on();
  auto& after = start(IoOp::kFlush, 0, ' ');
  finish(after);
  EXPECT_TRUE(after.result);
}

// Whatever a power cut leaves is a state that the enumerator's rules allow, sector by sector; and over many
// seeds the cut leaves each of old, new and mixed.
TEST(SimDevice, APowerCutLeavesWhatTheRulesAllow) {
  const std::uint64_t rounds = loop_length(400);
  std::uint64_t kept = 0, lost = 0, torn = 0;
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    SCOPED_TRACE(round);
    VirtualClock clock;
    SimDevice device({.size_bytes = kBlocks * kBlock, .seed = round}, clock);
    RecordedDevice recorded(device);
    Rng rng(round);
    Flight flight;
    std::deque<AlignedBytes> memory;
    for (int i = 0; i < 40; ++i) {
      if (rng.chance(6)) {
        recorded.submit(flight.add(IoOp::kFlush, 0, {}).request);
      } else {
        memory.push_back(filled(static_cast<char>('!' + i), 1 + rng.below(2)));
        auto& one = flight.add(IoOp::kWrite, rng.below(kBlocks - 1) * kBlock,
                               {{memory.back().data(), memory.back().size()}});
        one.request.preflush = rng.chance(6);
        one.request.fua = rng.chance(6);
        recorded.submit(one.request);
      }
      while (rng.chance(2) && device.next_due() != Instant::max()) {
        clock.set(device.next_due());
        device.run_due();
      }
    }
    const auto events = static_cast<std::uint32_t>(recorded.trace().events.size());
    device.power_cut(round);
    device.power_on();
    BaseImage base;
    base.size_bytes = kBlocks * kBlock;
    base.blocks.resize(kBlocks);
    // The trace as it was at the cut: what completed in it did so with an error.
    IoTrace trace = recorded.trace();
    trace.events.resize(events);
    CutWalker walker(trace, base);
    Cut cut;
    while (const Cut* next = walker.next()) cut = *next;
    std::vector<bool> there(cut.candidates.size());
    bool mixed = false;
    for (std::uint64_t block = 0; block < kBlocks; ++block) {
      AlignedBytes left(kBlock);
      Flight::One& read = flight.add(IoOp::kRead, block * kBlock, {{left.data(), kBlock}});
      device.submit(read.request);
      while (read.completions == 0) {
        clock.set(device.next_due());
        device.run_due();
      }
      for (std::uint64_t s = 0; s < 8; ++s) {
        const std::byte found = left.data()[s * kSectorBytes];
        mixed |= found != left.data()[0];
        const BlockRef durable = look_up(base, cut.durable, block);
        bool allowed = found == (durable.bytes == nullptr ? std::byte{0} : durable.bytes[s * kSectorBytes]);
        for (std::size_t c = 0; c < cut.candidates.size(); ++c) {
          const Candidate& write = cut.candidates[c];
          if (block < write.first_block || block >= write.first_block + write.blocks) continue;
          const auto at = static_cast<std::uint32_t>(block - write.first_block);
          if (((write.live_sectors(at) >> s) & 1U) == 0 || found != write.content[0]) continue;
          allowed = true;
          there[c] = true;
        }
        ASSERT_TRUE(allowed) << "block " << block << " sector " << s << " holds " << static_cast<char>(found);
      }
    }
    for (std::size_t c = 0; c < cut.candidates.size(); ++c) {
      (there[c] ? kept : lost) += 1;
      if (!there[c]) continue;
      for (const std::uint32_t need : cut.candidates[c].needs) {
        // What its preflush covers is there, unless something newer lies over all of it.
        bool covered = there[need];
        const Candidate& older = cut.candidates[need];
        for (std::size_t over = need + 1; over < cut.candidates.size(); ++over) {
          const Candidate& newer = cut.candidates[over];
          covered |= there[over] && newer.first_block < older.first_block + older.blocks &&
                     older.first_block < newer.first_block + newer.blocks;
        }
        EXPECT_TRUE(covered) << "write " << c << " is there and write " << need << " is not";
      }
    }
    torn += mixed ? 1 : 0;
  }
  EXPECT_GT(kept, rounds);
  EXPECT_GT(lost, rounds);
  EXPECT_GT(torn, rounds / 10);
}

SIM_TEST(SimDeviceSim, CompletesEachRequestOnceOnItsThread) {
  SimDevice device({.size_bytes = kBlocks * kBlock});
  std::vector<Thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back("write", [&device, t] {
      AlignedBytes memory = filled(static_cast<char>('a' + t)), back(kBlock);
      SIM_CHECK(device.write(t * kBlock, memory.span()).has_value());
      SIM_CHECK(device.write_durably((4 + t) * kBlock, memory.span()).has_value());
      SIM_CHECK(device.read(t * kBlock, back.span()).has_value());
      SIM_CHECK(back.data()[0] == memory.data()[0]);
    });
  }
  for (Thread& thread : threads) thread.join();
  SIM_CHECK(device.lose_unflushed().has_value());
  AlignedBytes back(kBlock);
  for (std::uint64_t t = 0; t < 3; ++t) {
    // Each write_durably() covered at least its own thread's first write.
    SIM_CHECK(device.read(t * kBlock, back.span()).has_value());
    SIM_CHECK(static_cast<char>(back.data()[0]) == static_cast<char>('a' + t));
  }
  SIM_CHECK(device.stats().writes == 6);
}

SIM_TEST(SimDeviceSim, APowerCutAmongWritersAnswersThemAll) {
  SimDevice device({.size_bytes = kBlocks * kBlock});
  std::vector<Thread> threads;
  for (std::uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back("write", [&device, t] {
      AlignedBytes memory = filled('a');
      for (int i = 0; i < 3; ++i) (void)device.write(t * kBlock, memory.span());
    });
  }
  sleep_for(microseconds(60));
  device.power_cut(3);
  for (Thread& thread : threads) thread.join();
}

// ---- recording ----
TEST(RecordedDevice, KeepsWritesAndTheirOrder) {
  auto ram = RamDevice::make(1 << 20).value();
  RecordedDevice device(*ram);
  AlignedBytes memory = filled('a', 20);
  ASSERT_TRUE(device.write(0, memory.span(), IoCause::kLog));
  ASSERT_TRUE(device.read(0, memory.span()));
  device.note(7, 8);
  ASSERT_TRUE(device.write_durably(kBlock, memory.span().first(kBlock), IoCause::kMetadata));
  ASSERT_TRUE(device.flush());
  std::memset(memory.data(), 'b', memory.size());  // the trace has its own copy
  EXPECT_EQ(device.write(1 << 20, memory.span()).error().code, Reason::kOutOfRange);
  const IoTrace& trace = device.trace();
  ASSERT_EQ(trace.ops.size(), 3U);
  EXPECT_EQ(trace.describe(0), "write 0 (log, 81920 bytes at 0)");
  EXPECT_EQ(trace.describe(1), "write 1 (metadata, 4096 bytes at 4096, preflush, fua)");
  EXPECT_EQ(trace.describe(2), "flush 2");
  EXPECT_EQ(static_cast<char>(trace.ops[0].content[20 * kBlock - 1]), 'a');
  EXPECT_TRUE(trace.ops[0].ok);
  ASSERT_EQ(trace.events.size(), 7U);
  EXPECT_EQ(trace.events[2].kind, IoTrace::EventKind::kNote);
  EXPECT_EQ(trace.notes[0].what, 7U);
  EXPECT_EQ(trace.notes[0].value, 8U);
  EXPECT_EQ(trace.ops[1].submitted, 3U);
  EXPECT_EQ(trace.ops[1].completed, 4U);
  device.clear();
  EXPECT_TRUE(device.trace().events.empty());
  ASSERT_TRUE(device.write(0, memory.span()));
  EXPECT_EQ(static_cast<char>(device.trace().ops[0].content[0]), 'b');
  EXPECT_EQ(device.stats().writes, 3U);
}

TEST(RecordedDevice, RecordsWhatFailed) {
  FaultyDevice faulty(RamDevice::make(1 << 20).value());
  RecordedDevice device(faulty);
  faulty.add({.op = IoOp::kWrite});
  AlignedBytes memory = filled('a');
  EXPECT_FALSE(device.write(0, memory.span()));
  ASSERT_EQ(device.trace().ops.size(), 1U);
  EXPECT_FALSE(device.trace().ops[0].ok);
  EXPECT_NE(device.trace().ops[0].completed, IoTrace::kNever);
}

TEST(RecordedDevice, TakesManySubmittersAtOnce) {
  auto ram = RamDevice::make(1 << 20).value();
  RecordedDevice device(*ram);
  std::vector<Thread> threads;
  constexpr std::uint64_t kEach = 200;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back("write", [&device, t] {
      AlignedBytes memory = filled(static_cast<char>('a' + t));
      for (std::uint64_t i = 0; i < kEach; ++i) {
        EXPECT_TRUE(device.write((t * 8 + i % 8) * kBlock, memory.span()));
        device.note(t, i);
      }
    });
  }
  for (Thread& thread : threads) thread.join();
  const IoTrace& trace = device.trace();
  EXPECT_EQ(trace.ops.size(), 4 * kEach);
  EXPECT_EQ(trace.events.size(), 3 * 4 * kEach);
  std::vector<std::uint64_t> next(4);
  for (const IoTrace::Note& note : trace.notes) EXPECT_EQ(note.value, next[note.what]++);
  for (const IoTrace::Op& op : trace.ops) {
    EXPECT_LT(op.submitted, op.completed);
    EXPECT_EQ(static_cast<char>(op.content[4095]), static_cast<char>('a' + op.offset_bytes / kBlock / 8));
  }
}

// ---- faults ----
class FaultyWrites : public testing::Test {
 protected:
  FaultyDevice device_{RamDevice::make(1 << 20).value()};
  AlignedBytes old_ = filled('o', 4), new_ = filled('n', 4);
};

TEST_F(FaultyWrites, AShortWriteStoresItsFirstSectors) {
  std::vector<std::size_t> lengths;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    ASSERT_TRUE(device_.write(0, old_.span()));
    device_.clear_rules();
    device_.add({.op = IoOp::kWrite, .effect = FaultEffect::kShort, .seed = seed});
    EXPECT_EQ(device_.write(0, new_.span()).error().code, Reason::kShortIo);
    const std::string found = letters(device_, 0, 4);
    const std::size_t kept = found.find('o');
    ASSERT_NE(kept, std::string::npos) << found;
    EXPECT_GT(kept, 0U);
    EXPECT_EQ(found, std::string(kept, 'n') + std::string(32 - kept, 'o'));
    lengths.push_back(kept);
  }
  std::sort(lengths.begin(), lengths.end());
  EXPECT_NE(lengths.front(), lengths.back());
  EXPECT_EQ(device_.injected(), 20U);
}

TEST_F(FaultyWrites, ATornWriteStoresSomeSectors) {
  std::string any;
  // Of eight sectors all are new in one of 256 draws, were it not ruled out.
  for (std::uint64_t seed = 1; seed <= 2'000; ++seed) {
    ASSERT_TRUE(device_.write(0, old_.span().first(kBlock)));
    device_.clear_rules();
    device_.add({.op = IoOp::kWrite, .effect = FaultEffect::kTorn, .seed = seed});
    EXPECT_EQ(device_.write(0, new_.span().first(kBlock)).error().code, Reason::kIo);
    const std::string found = letters(device_, 0);
    ASSERT_NE(found.find('o'), std::string::npos) << seed;
    any += found;
  }
  EXPECT_NE(any.find("on"), std::string::npos);
  EXPECT_NE(any.find("no"), std::string::npos);
}

TEST_F(FaultyWrites, ADroppedWriteSaysThatItIsDone) {
  ASSERT_TRUE(device_.write(0, old_.span()));
  device_.add({.op = IoOp::kWrite, .effect = FaultEffect::kDropped});
  EXPECT_TRUE(device_.write(0, new_.span()));
  EXPECT_EQ(letters(device_, 0), "oooooooo");
  EXPECT_EQ(device_.injected(), 0U);
}

TEST_F(FaultyWrites, PartlyFailedReadsMoveNothingAndRefusalsStayRefusals) {
  device_.add({.op = IoOp::kRead, .effect = FaultEffect::kTorn});
  EXPECT_EQ(device_.read(0, old_.span()).error().code, Reason::kIo);
  EXPECT_EQ(static_cast<char>(old_.data()[0]), 'o');
  device_.add({.op = IoOp::kWrite, .effect = FaultEffect::kShort});
  EXPECT_FALSE(device_.write(512, old_.span()));
  EXPECT_EQ(letters(device_, 0), "........");
}

TEST(FaultyDevice, LosesSilentlyWhatNoFlushCovered) {
  FaultyDevice device(std::make_unique<SimDevice>(SimDeviceOptions{.size_bytes = kBlocks * kBlock}));
  AlignedBytes a = filled('a'), b = filled('b');
  ASSERT_TRUE(device.write(0, a.span()));
  ASSERT_TRUE(device.flush());
  ASSERT_TRUE(device.write(0, b.span()));
  ASSERT_TRUE(device.write(kBlock, b.span()));
  device.add({.op = IoOp::kRead, .effect = FaultEffect::kLoseUnflushed, .first = 2});
  EXPECT_EQ(letters(device, 0), "bbbbbbbb");
  EXPECT_EQ(letters(device, 1), "bbbbbbbb");
  EXPECT_EQ(letters(device, 0), "aaaaaaaa");
  EXPECT_EQ(letters(device, 1), "........");
  FaultyDevice none(RamDevice::make(1 << 20).value());
  none.add({.op = IoOp::kFlush, .effect = FaultEffect::kLoseUnflushed});
  EXPECT_EQ(none.flush().error().code, Reason::kUnsupported) << "memory has no cache to lose";
}

// ---- preflush and FUA, of every device ----
TEST(WriteFlags, AreOfWritesAlone) {
  auto ram = RamDevice::make(1 << 20).value();
  AlignedBytes memory(kBlock);
  const IoSegment segment{memory.data(), kBlock};
  for (const IoOp op : {IoOp::kRead, IoOp::kFlush}) {
    IoRequest request{.op = op, .preflush = true};
    if (op == IoOp::kRead) request.segments = {&segment, 1};
    EXPECT_EQ(ram->submit_and_wait(request).error().code, Reason::kInvalidArgument);
    request.preflush = false;
    request.fua = true;
    EXPECT_EQ(ram->submit_and_wait(request).error().code, Reason::kInvalidArgument);
  }
}

TEST(WriteFlags, WorkOnFilesInPiecesAndShortTransfers) {
  for (const bool uring : {true, false}) {
    for (const bool direct : {true, false}) {
      SCOPED_TRACE(std::string(uring ? "ring" : "pool") + (direct ? " direct" : " buffered"));
      ScratchFolder scratch;
      auto file = FileDevice::open({.path = scratch.file("image"),
                                    .size_bytes = 64 * kBlock,
                                    .direct = direct,
                                    .io_uring = uring})
                      .value();
      file->set_max_piece_bytes_for_test(3 * kBlock);
      file->set_short_transfers_for_test(kBlock);
      AlignedBytes memory = filled('a', 8);
      ASSERT_TRUE(file->write_durably(kBlock, memory.span(), IoCause::kLog));
      EXPECT_EQ(letters(*file, 0, 10), std::string(8, '.') + std::string(64, 'a') + std::string(8, '.'));
      const DeviceStats stats = file->stats();
      EXPECT_EQ(stats.writes, 1U);
      EXPECT_EQ(stats.flushes, 1U);
      EXPECT_EQ(stats.fua_writes, 1U);
      EXPECT_EQ(stats.write_bytes_log, 8 * kBlock);
    }
  }
}

TEST(WriteFlags, PassThroughDecorators) {
  VirtualClock clock;
  auto sim = std::make_unique<SimDevice>(SimDeviceOptions{.size_bytes = kBlocks * kBlock});
  SimDevice& disk = *sim;
  FaultyDevice faulty(std::make_unique<LimitedDevice>(
      std::move(sim), DeviceLimits{.bytes_per_s = 0, .latency = microseconds(1)}));
  RecordedDevice device(faulty);
  AlignedBytes memory = filled('a');
  ASSERT_TRUE(device.write(0, memory.span()));
  ASSERT_TRUE(device.write_durably(kBlock, memory.span()));
  ASSERT_TRUE(disk.lose_unflushed());
  EXPECT_EQ(letters(device, 0, 2), std::string(16, 'a'));
}

TEST(LimitedDevice, APreflushTakesALatencyMore) {
  VirtualClock clock;
  LimitedDevice device(std::make_unique<NullDevice>(1 << 20),
                       {.bytes_per_s = 4'096'000, .latency = microseconds(10)}, clock);
  AlignedBytes memory(kBlock);
  Flight flight;
  auto& flushed = flight.add(IoOp::kWrite, 0, {{memory.data(), kBlock}});
  flushed.request.preflush = true;
  auto& plain = flight.add(IoOp::kWrite, 0, {{memory.data(), kBlock}});
  flight.submit_all(device);
  EXPECT_EQ(device.next_due(), Instant{0} + milliseconds(1) + microseconds(20));
  clock.set(device.next_due());
  device.run_due();
  EXPECT_EQ(flushed.completions, 1);
  EXPECT_EQ(plain.completions, 0);
  EXPECT_EQ(device.next_due(), Instant{0} + milliseconds(2) + microseconds(10));
  clock.set(device.next_due());
  device.run_due();
}

}  // namespace
}  // namespace tidewheel
