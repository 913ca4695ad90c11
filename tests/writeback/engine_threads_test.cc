// Contexts on real threads that the system may refuse.
#include "engine_rig.h"

#include "tests/base/no_threads.h"
#include "writeback/driver_thread.h"

namespace tidewheel {
namespace {

TEST(EngineContexts, AContextWhoseFlusherGetsNoThreadIsRefused) {
  FakeTarget target;
  auto engine = WritebackEngine::make({}, std::make_unique<ThreadDriver>()).value();
  Error why;
  {
    const NoThreads none;
    EXPECT_EQ(engine->add_context(target, {}, &why), nullptr);
  }
  EXPECT_EQ(why.code, Reason::kNoThread);
  WritebackContext* context = engine->add_context(target, {}, &why);
  ASSERT_NE(context, nullptr) << "the place is free";
  EXPECT_EQ(context->id(), 0);
  EXPECT_TRUE(engine->remove_context(*context));
  engine->stop();
  EXPECT_EQ(engine->add_context(target, {}, &why), nullptr);
  EXPECT_EQ(why.code, Reason::kShutDown);
}

}  // namespace
}  // namespace tidewheel
