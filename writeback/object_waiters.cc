#include "writeback/object_waiters.h"

namespace tidewheel {
namespace {

LockClass object_waiters_class("object-waiters", LockRank::kContext);

}  // namespace

ObjectWaiters::Bucket::Bucket() : lock(object_waiters_class) {}

void ObjectWaiters::wait(const DirtyObject& object, Driver& driver) {
  Node node;
  node.object = &object;
  Bucket& bucket = bucket_of(&object);
  MutexLock guard(bucket.lock);
  node.next = bucket.first;
  node.link = &bucket.first;
  if (bucket.first != nullptr) bucket.first->link = &node.next;
  bucket.first = &node;
  while (object.state().has_waiters()) driver.wait(bucket.lock, node.condition, Duration::max());
  *node.link = node.next;
  if (node.next != nullptr) node.next->link = node.link;
}

void ObjectWaiters::wake(const DirtyObject* object) {
  Bucket& bucket = bucket_of(object);
  MutexLock guard(bucket.lock);
  for (Node* node = bucket.first; node != nullptr; node = node->next) {
    if (node->object == object) node->condition.notify_one();
  }
}

}  // namespace tidewheel
