// fs/buf/delwri_queue.h: buffers to be written together, later, in the order of their blocks (delayed write).
// Owns:      a hold on each of its buffers.
// Threads:   a queue belongs to one thread; a buffer to at most one queue.
// Locks:     takes buffers' locks: try-lock in submit(), waiting in submit_and_wait() and cancel().
// Errors:    submit() none (the buffers' clients hear of them); submit_and_wait() the first.
// Invariant: a buffer is linked and unlinked under its lock. submit() writes nothing that is pinned, and asks
//            again once it has the lock: a transaction may have pinned it in between.
#pragma once
#include <boost/intrusive/list.hpp>

#include "fs/buf/buffer.h"

namespace tidewheel {

class DelwriQueue {
 public:
  DelwriQueue() = default;
  ~DelwriQueue();  // asserts that it is empty: submit or cancel first
  DelwriQueue(const DelwriQueue&) = delete;
  DelwriQueue& operator=(const DelwriQueue&) = delete;

  // The buffer is locked, done and stays so; the queue takes a hold of its own. False: it is on a queue
  // already (this one or another thread's), which will write it.
  bool add(Buffer& buffer);

  struct Submitted {
    std::uint32_t writing = 0;  // requests started
    std::uint32_t pinned = 0;   // kept: a log force is what they wait for
    std::uint32_t locked = 0;   // kept: somebody is at work on them
    std::uint32_t dropped = 0;  // stale, or written meanwhile
  };
  // Never sleeps for a buffer (the device may make it wait for its queue).
  Submitted submit();
  // Waits for locks and for pins (the caller has forced the log), then for every write.
  Result<void> submit_and_wait();
  // Lets go of everything unwritten: after a shutdown.
  void cancel();

  bool empty() const { return list_.empty(); }
  std::size_t size() const { return list_.size(); }

 private:
  using List =
      boost::intrusive::list<Buffer,
                             boost::intrusive::member_hook<Buffer, Buffer::ListHook, &Buffer::delwri_hook_>,
                             boost::intrusive::constant_time_size<false>>;
  void sort();

  List list_;
};

}  // namespace tidewheel
