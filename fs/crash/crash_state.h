// fs/crash/crash_state.h: one state that a crash can leave, and the string that names it.
// Threads:   values.
// Errors:    parse_replay() answers with one line: what is wrong and where.
//
//   NAME:seed=N:trace=H:cut=E[:lost=0xM][:torn=I@K[+I@K…]][/cut=E…]
//     NAME, seed   the workload and the seed that its run followed
//     trace        hash of the run's trace; another one means that the workload is not repeatable, or changed
//     cut          the power goes before this event of the trace
//     lost         of the candidates (fs/crash/cut_walker.h), a bit each, the lowest the first: not stored
//     torn         candidate I is stored in part. K is 1024: its first 1024 bytes; 0x5: these of its sectors
//                  of 512 bytes; r77: the sectors that this number draws
//     /            recovery began on that state, and was itself cut: the rest counts in recovery's own trace
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fs/crash/cut_walker.h"

namespace tidewheel {

struct Tear {
  enum class Form : std::uint8_t { kPrefix, kMask, kDrawn };
  std::uint32_t candidate = 0;
  Form form = Form::kPrefix;
  std::uint64_t value = 0;  // kPrefix: bytes

  bool keeps(std::uint64_t sector) const;
};

struct StateSpec {
  std::vector<std::uint64_t> lost;  // a bit per candidate; what is beyond the end is not lost
  std::vector<Tear> torn;           // of candidates that are not lost, each once, rising

  bool is_lost(std::uint32_t candidate) const {
    return candidate / 64 < lost.size() && ((lost[candidate / 64] >> (candidate % 64)) & 1U) != 0;
  }
  void lose(std::uint32_t candidate);
  void keep(std::uint32_t candidate);
  const Tear* tear_of(std::uint32_t candidate) const;
};

// Whether a device can be left like that: what a preflush covers is there if its write is.
bool is_possible(const Cut& cut, const StateSpec& spec);
// Puts what is stored on top of the cut's durable content, and answers with the hash of the whole image.
// Blocks that come out mixed are the arena's.
std::uint64_t apply(const BaseImage& base, const Cut& cut, const StateSpec& spec, BlockMap& over,
                    BlockArena& arena);

struct StateLevel {
  std::uint32_t cut = 0;
  StateSpec spec;
};
struct ReplayName {
  std::string workload;
  std::uint64_t seed = 0;
  std::uint32_t trace = 0;
  std::vector<StateLevel> levels;  // at least one; the others lie inside recoveries
};
std::string to_string(const ReplayName& name);
std::variant<ReplayName, std::string> parse_replay(std::string_view text);
// Why the spec does not fit the cut; or empty.
std::string misfit(const Cut& cut, const StateSpec& spec);
std::uint32_t hash_of_trace(const IoTrace& trace);

}  // namespace tidewheel
