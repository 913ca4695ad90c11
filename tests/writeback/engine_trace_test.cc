// What comes back from a batch dirty is traced as the kernel traces a requeue, whatever brought it back.
#include <gtest/gtest.h>

#include "tests/trace_recording.h"
#include "tests/writeback/engine_rig.h"

namespace tidewheel {
namespace {

struct Requeue {
  const char* name;
  WriteOutcome outcome;
};
class EngineTrace : public testing::TestWithParam<Requeue> {};

TEST_P(EngineTrace, WhatComesBackIsRequeuedAndWhatIsWrittenIsNot) {
  VirtualRig rig;
  FakeObject& back = rig.make(1);
  FakeObject& written = rig.make(2);
  bool once = true;
  rig.target.decide = [&](FakeObject& object, WriteSlot& slot) {
    if (&object != &back || !std::exchange(once, false)) return WriteOutcome::kWritten;
    if (GetParam().outcome == WriteOutcome::kFailed) slot.error = TW_FAIL(kIo).error();
    return GetParam().outcome;
  };
  rig.target.on_write = [&](FakeObject& object, const WriteSlot&, WorkKind) {
    if (&object == &back && GetParam().outcome == WriteOutcome::kWritten && object.writes == 0) {
      rig.engine->mark_dirty(object, kDirtyMetadata, rig.clock.now());  // beside its write
    }
  };
  const TraceRecording recording;
  const Instant since = rig.clock.now();
  rig.dirty(back, 4096);
  rig.dirty(written, 4096);
  rig.driver->run_until(rig.clock.now() + seconds(36));
  const auto events = recording.events(TracePoint::writeback_sb_inodes_requeue);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].arguments[0], reinterpret_cast<std::uintptr_t>(static_cast<DirtyObject*>(&back)));
  EXPECT_EQ(events[0].arguments[1], static_cast<std::uint64_t>(GetParam().outcome));
  EXPECT_EQ(events[0].arguments[2], static_cast<std::uint64_t>(since.ns));
  EXPECT_EQ(events[0].arguments[3], rig.context->id());
}

INSTANTIATE_TEST_SUITE_P(Outcomes, EngineTrace,
                         testing::Values(Requeue{"Redirtied", WriteOutcome::kWritten},
                                         Requeue{"Partial", WriteOutcome::kPartial},
                                         Requeue{"Skipped", WriteOutcome::kSkipped},
                                         Requeue{"Failed", WriteOutcome::kFailed}),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace tidewheel
