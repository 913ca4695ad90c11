// Log space comes back when a record with the tail is stable, not when the AIL's tail has moved.
#include <gtest/gtest.h>

#include "fs/block/faulty_device.h"
#include "fs/crash/crash_image.h"
#include "fs/crash/enumerate.h"
#include "fs/recovery/log_scan.h"
#include "tests/fs/log_rig.h"

namespace tidewheel {
namespace {

std::uint64_t commit_all(LogRig& rig, std::span<LoggedObject* const> objects,
                         char letter) TW_NO_THREAD_SAFETY_ANALYSIS {
  std::uint32_t bytes = 0;
  for (const LoggedObject* object : objects) {
    bytes += static_cast<std::uint32_t>(object->name.size() + 4090 + 2 * sizeof(disk::LogOp));
  }
  auto ticket = rig.log.reserve(bytes, 1, false);
  if (!ticket) return 0;
  std::vector<LogItem*> items;
  for (LoggedObject* object : objects) {
    object->lock.lock();
    object->text.assign(4090, letter);
    items.push_back(object);
  }
  const std::uint64_t sequence = rig.log.commit(items, *ticket);
  rig.log.end(*ticket);
  return sequence;
}

// A log of 24 blocks. Z fills nearly half of it, A is small. B's commit record is on its way, with Z as its
// tail, when Z and A come home. C then needs the space of Z: had the AIL's tail freed it when B became
// stable, C's first records would come over what the newest tail on the device covers, before C's commit
// record says another.
TEST(LogTail, IsWhatAStableRecordSaysAndNotWhatIsHome) {
  constexpr LogRig::Setup kSetup{
      .sectors = 24 * 8, .soft_bytes = 1 << 20, .pusher = false};
  auto ram = RamDevice::make(LogRig::kLogOffset + std::uint64_t{kSetup.sectors} * kLogSectorBytes).value();
  FaultyDevice device(std::move(ram));
  RecordedDevice recorded(device);
  std::vector<std::unique_ptr<LoggedObject>> objects;
  std::vector<LoggedObject*> z, b;
  for (int i = 0; i < 10; ++i) {
    z.push_back(objects.emplace_back(std::make_unique<LoggedObject>("z" + std::to_string(i))).get());
  }
  for (int i = 0; i < 4; ++i) {
    b.push_back(objects.emplace_back(std::make_unique<LoggedObject>("b" + std::to_string(i))).get());
  }
  LoggedObject a("a");
  LogRig rig(kSetup, &recorded);
  for (const auto& object : objects) rig.add(*object);
  rig.add(a);

  ASSERT_TRUE(rig.log.force(commit_all(rig, z, 'z')));
  recorded.note(1, 0);
  ASSERT_TRUE(rig.log.force(rig.change(a, "a")));
  ASSERT_EQ(rig.log.published_tail(), Lsn::make(1, 0));

  device.add({.op = IoOp::kWrite, .effect = FaultEffect::kStall, .first = 1});
  const std::uint64_t sequence = commit_all(rig, b, 'b');
  rig.log.force(ForceMode::kStart);
  device.wait_stalled(1);
  rig.ail.push_all();
  rig.ail.walk();
  ASSERT_TRUE(rig.ail.empty());
  ASSERT_GT(rig.ail.tail_lsn(), rig.log.published_tail());
  device.release_stalled();
  ASSERT_TRUE(rig.log.force(sequence));
  EXPECT_EQ(rig.log.published_tail(), Lsn::make(1, 0)) << "what B's record says";

  ASSERT_TRUE(rig.log.force(commit_all(rig, z, 'c')));
  EXPECT_GE(rig.log.stats().waits_for_space, 1U) << "C waits for a record that frees Z";
  rig.close();

  // From Z on every crash leaves a log that recovery finds its way through.
  BaseImage base;
  base.size_bytes = device.size_bytes();
  base.blocks.resize(base.size_bytes / kCrashBlockBytes);
  CrashImage image;
  CutWalker walker(recorded.trace(), base);
  std::uint64_t states = 0;
  while (const Cut* cut = walker.next()) {
    if (cut->notes == 0) continue;
    for (const StateSpec& spec : enumerate(*cut, cut->event, 200)) {
      image.reset(base, *cut, spec);
      LogReader reader(image, rig.place);
      const auto scan = scan_log(reader);
      ASSERT_TRUE(scan) << "cut " << cut->event << ": " << scan.error().sentence();
      ++states;
    }
  }
  EXPECT_GT(states, 50U);
}

}  // namespace
}  // namespace tidewheel
