#include "writeback/object_waiters.h"

namespace tidewheel {
namespace {

LockClass object_waiters_class("object-waiters", LockRank::kContext);

}  // namespace

ObjectWaiters::ObjectWaiters() : lock_(object_waiters_class) {}

void ObjectWaiters::wait(const DirtyObject& object, Driver& driver) {
  Node node;
  node.object = &object;
  MutexLock guard(lock_);
  node.next = first_;
  node.link = &first_;
  if (first_ != nullptr) first_->link = &node.next;
  first_ = &node;
  while (object.state().has_waiters()) driver.wait(lock_, node.condition, Duration::max());
  *node.link = node.next;
  if (node.next != nullptr) node.next->link = node.link;
}

void ObjectWaiters::wake(const DirtyObject* object) {
  MutexLock guard(lock_);
  for (Node* node = first_; node != nullptr; node = node->next) {
    if (node->object == object) node->condition.notify_one();
  }
}

}  // namespace tidewheel
