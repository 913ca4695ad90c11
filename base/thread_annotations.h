// base/thread_annotations.h: clang's thread-safety attributes; empty elsewhere. Preset `tsa` makes
// their violation an error.
#pragma once

#if defined(__clang__)
#define TW_ANNOTATION(x) __attribute__((x))
#else
#define TW_ANNOTATION(x)
#endif

#define TW_CAPABILITY(name) TW_ANNOTATION(capability(name))
#define TW_SCOPED_CAPABILITY TW_ANNOTATION(scoped_lockable)
#define TW_GUARDED_BY(x) TW_ANNOTATION(guarded_by(x))
#define TW_PT_GUARDED_BY(x) TW_ANNOTATION(pt_guarded_by(x))
#define TW_ACQUIRED_AFTER(...) TW_ANNOTATION(acquired_after(__VA_ARGS__))
#define TW_ACQUIRED_BEFORE(...) TW_ANNOTATION(acquired_before(__VA_ARGS__))
#define TW_REQUIRES(...) TW_ANNOTATION(requires_capability(__VA_ARGS__))
#define TW_REQUIRES_SHARED(...) TW_ANNOTATION(requires_shared_capability(__VA_ARGS__))
#define TW_ACQUIRE(...) TW_ANNOTATION(acquire_capability(__VA_ARGS__))
#define TW_ACQUIRE_SHARED(...) TW_ANNOTATION(acquire_shared_capability(__VA_ARGS__))
#define TW_RELEASE(...) TW_ANNOTATION(release_capability(__VA_ARGS__))
#define TW_RELEASE_SHARED(...) TW_ANNOTATION(release_shared_capability(__VA_ARGS__))
#define TW_RELEASE_GENERIC(...) TW_ANNOTATION(release_generic_capability(__VA_ARGS__))
#define TW_TRY_ACQUIRE(...) TW_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define TW_TRY_ACQUIRE_SHARED(...) TW_ANNOTATION(try_acquire_shared_capability(__VA_ARGS__))
#define TW_EXCLUDES(...) TW_ANNOTATION(locks_excluded(__VA_ARGS__))
#define TW_ASSERT_CAPABILITY(x) TW_ANNOTATION(assert_capability(x))
#define TW_RETURN_CAPABILITY(x) TW_ANNOTATION(lock_returned(x))
#define TW_NO_THREAD_SAFETY_ANALYSIS TW_ANNOTATION(no_thread_safety_analysis)
