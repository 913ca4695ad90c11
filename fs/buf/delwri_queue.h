// fs/buf/delwri_queue.h: buffers to be written together, later, in the order of their blocks (delayed write).
// Owns:      a hold on each of its buffers.
// Threads:   a queue belongs to one thread; a buffer to at most one queue.
// Locks:     takes buffers' locks: try-lock in submit(), waiting in submit_and_wait() and cancel().
// Errors:    submit() none (the buffers' clients hear of them); submit_and_wait() the first.
//            What failed as part of a run is written by itself: by who pushes it again (its client is told
//            that it may), or by submit_and_wait().
// Invariant: a buffer is linked and unlinked under its lock. submit() writes nothing that is pinned, and asks
//            again once it has the lock: a transaction may have pinned it in between.
#pragma once
#include <array>

#include <boost/intrusive/list.hpp>

#include "fs/buf/buffer.h"

namespace tidewheel {

class DelwriQueue {
 public:
  // Neighbours on the device go as one write, of so many buffers and bytes at most.
  static constexpr std::uint32_t kMostRunBuffers = 64;
  static constexpr std::uint32_t kMostRunBytes = 512 * 1024;

  DelwriQueue() = default;
  ~DelwriQueue();  // asserts that it is empty: submit or cancel first
  DelwriQueue(const DelwriQueue&) = delete;
  DelwriQueue& operator=(const DelwriQueue&) = delete;

  // The buffer is locked, done and stays so; the queue takes a hold of its own. False: it is on a queue
  // already (this one or another thread's), which will write it.
  bool add(Buffer& buffer);

  struct Submitted {
    std::uint32_t writing = 0;  // buffers on their way
    std::uint32_t requests = 0;  // of the device; more, where a buffer between others was wrong in memory
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
  // Buffers that are locked, with a hold, and not sent yet.
  class Run {
   public:
    // False: it is no neighbour, or there is no room.
    bool takes(const Buffer& buffer) const;
    void add(Buffer& buffer);
    // Answers how many requests that were: one or none.
    std::uint32_t send();

   private:
    std::uint32_t count_ = 0;
    std::uint32_t bytes_ = 0;
    std::array<Buffer*, kMostRunBuffers> buffers_;
  };

  void sort();

  List list_;
};

}  // namespace tidewheel
