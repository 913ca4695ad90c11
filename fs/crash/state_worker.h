// fs/crash/state_worker.h: recovers and checks one state at a time, and those that crashes of its recovery
// leave.
// Owns:      images and recorders, one pair per depth, kept from state to state.
// Threads:   one thread at a time; a worker for each thread of an exploration.
// Invariant: what a state comes to depends on nothing but the run, the state and the options; not on what
//            the worker did before.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fs/crash/crash_image.h"
#include "fs/crash/explorer.h"
#include "fs/crash/key_set.h"
#include "fs/crash/recording.h"

namespace tidewheel {

// States are told apart by content and by how much had been acknowledged.
inline std::uint64_t key_of_state(std::uint64_t hash, std::uint32_t notes) { return mix_hash(hash, notes); }

struct NestedState {
  std::uint64_t hash = 0, key = 0;
};
struct StateResult {
  std::vector<CrashFailure> failures;
  std::vector<NestedState> nested;  // tried, in order
  std::uint64_t second_recoveries = 0;
};

class StateWorker {
 public:
  explicit StateWorker(std::uint32_t index) : index_(index) {}
  ~StateWorker();
  StateWorker(const StateWorker&) = delete;
  StateWorker& operator=(const StateWorker&) = delete;

  // What stays the same for a run, and outlives its states. `known`: keys of nested states that need not
  // be tried; nobody changes it while a state is explored.
  void begin(const ExploreOptions& options, const Recording& run, std::uint64_t seed, const KeySet& known);
  void explore(const Cut& cut, const StateSpec& spec, StateResult& result);
  // One state of a name, with a second recovery. Answers with why the name fits no state, or empty.
  std::string replay(const ReplayName& name, std::string& words, StateResult& result);

 private:
  struct Level {
    CrashImage image;
    RecordedDevice recorder{image};
    BlockMap over;  // the state's writes again, for what lies beneath a nested one
    BlockArena arena;
  };
  struct Step {
    const IoTrace* trace;
    const Cut* cut;
    const StateSpec* spec;
  };

  Level& level(std::size_t depth);
  std::uint64_t enter(const Step& step);
  void leave();
  void recover_and_check(bool twice, StateResult& result);
  bool recover(BlockDevice& device, const char* oracle, StateResult& result);
  void explore_nested(std::uint64_t hash, StateResult& result);
  // Durable content beneath the trace of the innermost level's recovery.
  BlockMap beneath_recovery();
  std::string replay_level(CutWalker& walker, const IoTrace& trace, const ReplayName& name,
                           std::string& words, StateResult& result);
  std::string words() const;
  void fail(StateResult& result, std::string oracle, std::string detail) const;

  const std::uint32_t index_;
  const ExploreOptions* options_ = nullptr;
  const Recording* run_ = nullptr;
  const KeySet* known_ = nullptr;
  std::vector<std::unique_ptr<Level>> levels_;
  std::vector<Step> path_;   // from the run inward; parallel to name_.levels
  ReplayName name_;
  std::uint32_t notes_ = 0;  // acknowledged before the outermost cut
  std::vector<std::uint64_t> tried_;  // keys of nested states of the one explored
};

}  // namespace tidewheel
