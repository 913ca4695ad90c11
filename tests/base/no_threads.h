// tests/base/no_threads.h: while one of these lives, the system refuses every thread of this process.
// Threads:   one; it changes the whole process.
#pragma once
#include <gtest/gtest.h>
#include <pthread.h>

namespace tidewheel {

class NoThreads {
 public:
  NoThreads() {
    pthread_attr_init(&usual_);
    EXPECT_EQ(pthread_getattr_default_np(&usual_), 0);
    pthread_attr_t vast;
    pthread_attr_init(&vast);
    EXPECT_EQ(pthread_attr_setstacksize(&vast, 1ULL << 46), 0);  // a stack that no address space holds
    EXPECT_EQ(pthread_setattr_default_np(&vast), 0);
    pthread_attr_destroy(&vast);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&usual_);
    pthread_attr_destroy(&usual_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t usual_;
};

}  // namespace tidewheel
