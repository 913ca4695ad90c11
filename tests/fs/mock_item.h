// A log item that does what its test says, and counts every call.
#pragma once
#include <functional>

#include "fs/ail/ail.h"

namespace tidewheel {

class MockItem final : public LogItem {
 public:
  explicit MockItem(PushResult first_answer = PushResult::kPushed) : answer(first_answer) {}

  LogSize size() const noexcept override { return {1, 128}; }
  void format(LogVectorWriter&) noexcept override { ++formats; }
  void pin() noexcept override { ++pins; }
  void unpin(bool) noexcept override { ++unpins; }
  void committing(std::uint64_t) noexcept override { ++commits; }
  void release() noexcept override { ++releases; }
  PushResult push(PushScope& scope) noexcept override {
    ++pushes;
    return on_push ? on_push(*this, scope) : answer;
  }

  PushResult answer;
  std::function<PushResult(MockItem&, PushScope&)> on_push;
  std::uint32_t pushes = 0, formats = 0, pins = 0, unpins = 0, commits = 0, releases = 0;
};

// What the AIL talks to.
class MockLog final : public LogForcer, public AilWriter, public TailListener {
 public:
  void force(ForceMode mode) override {
    forces.push_back(mode);
    if (on_force) on_force();
  }
  std::uint32_t submit_pushed() override {
    ++submits;
    return on_submit ? on_submit() : 0;
  }
  void tail_moved() override { ++tail_moves; }

  std::vector<ForceMode> forces;
  std::uint32_t submits = 0, tail_moves = 0;
  std::function<void()> on_force;
  std::function<std::uint32_t()> on_submit;
};

}  // namespace tidewheel
