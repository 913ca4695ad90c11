// writeback/object_waiters.h: who waits until a flusher is done with one object.
// Owns:      nothing; a waiter's node is on its stack.
// Threads:   wait() from any thread that keeps the object alive; wake() from flushers.
// Locks:     lock_ (kContext), held for one pass over the waiters: few ever wait at once.
// Invariant: the waiters bit of the object is looked at under lock_, and wake() comes after the bit was
//            cleared: no wake-up is lost. Only this object's waiters are woken.
#pragma once
#include "base/sync.h"
#include "writeback/dirty_object.h"
#include "writeback/driver.h"

namespace tidewheel {

class ObjectWaiters {
 public:
  ObjectWaiters();
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
  Mutex lock_ TW_ACQUIRED_AFTER(kRankContext) TW_ACQUIRED_BEFORE(kRankStore);
  Node* first_ TW_GUARDED_BY(lock_) = nullptr;
};

}  // namespace tidewheel
