#include "timerwheel/bucket.h"

namespace tidewheel {

void BucketPool::grow() noexcept {
  Chunk& chunk = *chunks_.emplace_back(std::make_unique<Chunk>());
  for (std::uint32_t i = kChunkBuckets; i-- > 0;) {
    ++in_use_;
    give(&chunk.buckets[i]);
  }
}

void BucketPool::trim() {
  TW_ASSERT(in_use_ == 0, "a bucket pool is trimmed while buckets are in use");
  free_ = nullptr;
  chunks_.clear();
  chunks_.shrink_to_fit();
}

}  // namespace tidewheel
