// bench/interrupt.h: Ctrl-C, once: the run ends early and cleanly. A second one kills, as usual.
// Threads:   interrupted() from any thread.
#pragma once

namespace tidewheel::bench {

// SIGINT and SIGTERM from now on only set the flag.
void catch_interrupts();
bool interrupted();
void clear_interrupt_for_test();

}  // namespace tidewheel::bench
