// fs/crash/cut_walker.h: walks along a trace and says, at each cut, what is durable and what may be lost.
// Owns:      blocks that it had to put together from parts of writes. Cuts point into them, and into the
//            trace and the base image: all of these outlive a cut.
// Threads:   one owner.
// Units:     blocks of 4 KiB; live masks have a bit per 512-byte sector.
// Source:    block_device.h's invariants, turned into sets:
//   durable    a write, at the completion of a flush that was submitted after the write's completion (of
//              a preflush, at the completion of its write); with FUA at its own completion.
//   candidate  any other write that was submitted: in a state it is lost, torn or whole. In the order of
//              completion, then those in flight in the order of submission: that is the order in which
//              they are applied, so of two to one place the one that is later wins, if it is there.
//   trimmed    a candidate's sectors over which a durable write came that was submitted after the candidate
//              had completed: the older content cannot come back.
//   needs      an in-flight write with preflush is on the medium only after what its flush covers.
// A write that failed may be there in any part; no flush covers it.
// A cut stands before each event that changes one of these, and at the end: what else happened before that
// event (acknowledgements) is then counted as having happened.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "fs/block/recorded_device.h"
#include "fs/crash/block_map.h"

namespace tidewheel {

struct Candidate {
  std::uint32_t op = 0;  // in the trace
  std::uint64_t first_block = 0;
  std::uint32_t blocks = 0;
  const std::byte* content = nullptr;
  const std::uint64_t* hashes = nullptr;  // of each block
  std::vector<std::uint8_t> live;         // of each block; empty: all of it
  std::vector<std::uint32_t> needs;       // candidates that are whole if any sector of this one is there

  std::uint64_t sectors() const { return blocks * (kCrashBlockBytes / kSectorBytes); }
  std::uint8_t live_sectors(std::uint32_t block) const { return live.empty() ? 0xFF : live[block]; }
};

struct Cut {
  std::uint32_t event = 0;  // the first of the trace that has not happened
  std::uint32_t notes = 0;  // that have
  bool new_write = false;   // what changed since the last cut is one more write, the last candidate
  BlockMap durable;         // on top of the base image
  std::uint64_t hash = 0;   // of base and durable
  std::vector<Candidate> candidates;
};

class CutWalker {
 public:
  CutWalker(const IoTrace& trace, const BaseImage& base);
  // The trace ran on top of this, which is durable; the hash is of base and it.
  CutWalker(const IoTrace& trace, const BaseImage& base, BlockMap durable, std::uint64_t hash);

  // The next cut; null after the one at the end of the trace.
  const Cut* next();

 private:
  void submit(std::uint32_t op);
  void complete(std::uint32_t op);
  void make_durable(const Candidate& write);
  // All that completed well before `event` is durable.
  void cover(std::uint32_t event);
  bool changes_something(const IoTrace::Event& event) const;
  bool has_uncovered_before(std::uint32_t event) const;
  void collect_candidates();

  const IoTrace& trace_;
  const BaseImage& base_;
  BlockArena arena_;
  std::vector<std::vector<std::uint64_t>> hashes_;  // of each op's blocks, once submitted
  std::vector<Candidate> completed_;                // in the order of completion
  std::vector<Candidate> in_flight_;                // in the order of submission
  std::uint32_t at_ = 0;
  bool started_ = false, ended_ = false;
  Cut cut_;
};

}  // namespace tidewheel
