// tests/fs/heap_count.h: how often this program has asked the heap. Its operator new counts, in a file of its
// own (and without base/'s atomics, which are scheduling points inside a simulation).
#pragma once

namespace tidewheel::fs_test {
long heap_allocations();
}
