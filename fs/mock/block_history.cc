#include <array>

#include "fs/crash/block_map.h"
#include "fs/mock/trans_workload.h"

namespace tidewheel {

std::uint64_t BlockHistory::add_data(std::uint64_t block, std::uint32_t freed_at, std::uint64_t hash) {
  data_.push_back({block, freed_at, hash});
  return data_.size() - 1;
}

bool BlockHistory::matches(const Image& image, const Found& found,
                           const std::vector<bool>& acknowledged) const {
  for (std::size_t block = 0; block < image.size(); ++block) {
    const Expected& expected = image[block];
    if (!expected.free && (expected.hash != found.content[block] || !found.good[block])) return false;
  }
  for (std::size_t i = 0; i < data_.size(); ++i) {
    if (!acknowledged[i]) continue;
    const Expected& expected = image[data_[i].block];
    if (!expected.free || expected.freed_at != data_[i].freed_at) continue;
    if (found.whole[data_[i].block] != data_[i].hash) return false;
  }
  return true;
}

CheckResult BlockHistory::check(BlockDevice& device, Acks acks) const {
  std::size_t forced = 0;
  std::vector<bool> acknowledged(data_.size()), has_data(layout_.objects);
  for (const auto& ack : acks) {
    if (ack.what == kForced) forced = std::max<std::size_t>(forced, ack.value);
    if (ack.what == kData) acknowledged[ack.value] = has_data[data_[ack.value].block] = true;
  }

  const disk::Geometry geometry = layout_.geometry();
  Found found;
  for (std::uint64_t number = 0; number < layout_.objects; ++number) {
    alignas(4096) std::array<std::byte, kFsBlockBytes> block;
    const DeviceAddress address = layout_.home(number);
    if (!device.read(address.bytes(), block)) return CheckFailure{"home", "it cannot be read"};
    const disk::VerifyContext context{
        .geometry = &geometry, .address = address, .owner = number, .newest = disk::kNewestLsn};
    found.content.push_back(hash_of_content(block));
    found.good.push_back(disk::verify_read(disk::BlockType::kMock, block, context).good());
    found.whole.push_back(has_data[number] ? hash_of_bytes(block, 0) : 0);
  }
  // The newest first: most often it is the last that was acknowledged, or soon after.
  for (std::size_t k = after_.size(); k-- > forced;) {
    if (!matches(after_[k], found, acknowledged)) continue;
    if (!asks_whether_clean(found.content.front() ^ found.content.back())) return {};
    if (!is_log_clean(device, layout_.log())) return CheckFailure{"log", "it does not say that it is clean"};
    return {};
  }
  for (std::size_t k = forced; k-- > 0;) {
    if (!matches(after_[k], found, acknowledged)) continue;
    return CheckFailure{"lost", "what " + std::to_string(k) + " transactions leave, after " +
                                    std::to_string(forced) + " were acknowledged"};
  }
  // Which blocks no transaction has left like that says more than that there is no such number.
  std::string blocks;
  for (std::size_t block = 0; block < found.content.size(); ++block) {
    bool known = false;
    for (std::size_t k = forced; k < after_.size() && !known; ++k) {
      known = after_[k][block].free || (after_[k][block].hash == found.content[block] && found.good[block]);
    }
    if (!known) blocks += (blocks.empty() ? "" : ", ") + std::to_string(block);
  }
  return CheckFailure{"torn", "no number of whole transactions leaves what is there" +
                                  (blocks.empty() ? "" : "; blocks that none leaves so: " + blocks)};
}

}  // namespace tidewheel
