// writeback/object_waiters.h: who waits until a flusher is done with one object.
// Owns:      nothing; a waiter's node is on its stack.
// Threads:   wait() from any thread that keeps the object alive; wake() from flushers.
// Locks:     a bucket's (kContext), held for one pass over those who wait for its objects. Objects are spread
//            by address, so that thousands who wait for as many objects are not all looked at for each.
// Invariant: the waiters bit of the object is looked at under its bucket's lock, and wake() comes after
//            the bit was cleared: no wake-up is lost. Only this object's waiters are woken.
#pragma once
#include <array>
#include <cstdint>

#include "base/sync.h"
#include "writeback/dirty_object.h"
#include "writeback/driver.h"

namespace tidewheel {

class ObjectWaiters {
 public:
  static constexpr std::size_t kBuckets = 256;

  // Until the object's waiters bit is clear. May return early.
  void wait(const DirtyObject& object, Driver& driver);
  // The object may be gone: only its address is used.
  void wake(const DirtyObject* object);

 private:
  struct Node {
    const DirtyObject* object = nullptr;
    CondVar condition;
    Node* next = nullptr;
    Node** link = nullptr;
  };
  struct Bucket {
    Bucket();
    Mutex lock TW_ACQUIRED_AFTER(kRankContext) TW_ACQUIRED_BEFORE(kRankStore);
    Node* first TW_GUARDED_BY(lock) = nullptr;
  };
  // Only who meets whom depends on the address, no order.
  Bucket& bucket_of(const DirtyObject* object) {
    return buckets_[(reinterpret_cast<std::uintptr_t>(object) >> 3) * 0x9E3779B97F4A7C15ULL >> 56];
  }
  std::array<Bucket, kBuckets> buckets_;
};

}  // namespace tidewheel
