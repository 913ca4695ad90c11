// tests/heap_count.h: how often this program has asked the heap. Its operator new counts, in a file of its
// own that a test program links (tests/CMakeLists.txt), and without base/'s atomics, which are scheduling
// points inside a simulation.
#pragma once

namespace tidewheel::tests {
long heap_allocations();
}
