// fs/mock/mock_replay.h: how mock items are replayed.
// Threads:   hold nothing.
#pragma once
#include "fs/recovery/replay.h"

namespace tidewheel {

// Objects, intents and their completions.
ReplayTable mock_replay_table();

// Of an intent's region, checked: what it names.
struct MockIntentThing {
  std::uint64_t target = 0;
  std::uint64_t version = 0;
};
bool read_mock_intent(std::span<const std::byte> region, MockIntentThing& thing);

}  // namespace tidewheel
