// tests/fs/fault_rig.h: one run of a crash workload on a device that fails by rule.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "fs/block/faulty_device.h"
#include "fs/block/ram_device.h"
#include "fs/crash/recording.h"

namespace tidewheel {

template <class Workload>
struct FaultyRunOf {
  template <class... Args>
  explicit FaultyRunOf(Args... args)
      : workload(args...), device(RamDevice::make(workload.image_bytes()).value()), recorded(device) {
    if (!workload.format(device)) std::abort();
  }
  Result<void> run() {
    AckLog acks(recorded);
    return workload.run(recorded, acks);
  }
  // What is there without the fault.
  void expect_recovers(const std::string& what) {
    device.clear_rules();
    const auto recovered = workload.recover(device);
    ASSERT_TRUE(recovered) << what << ": " << recovered.error().sentence();
    const CheckResult wrong = workload.check(device, recorded.trace().notes);
    EXPECT_FALSE(wrong) << what << ": " << wrong->oracle << ": " << wrong->detail;
  }

  Workload workload;
  FaultyDevice device;
  RecordedDevice recorded;
};

inline std::string name_of(const FaultRule& rule) {
  return "operation " + std::to_string(static_cast<int>(rule.op)) + ", number " +
         std::to_string(rule.first) + ", effect " + std::to_string(static_cast<int>(rule.effect)) +
         ", times " + std::to_string(rule.count);
}

}  // namespace tidewheel
