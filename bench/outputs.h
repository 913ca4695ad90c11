// bench/outputs.h: files and standard output that hold a run's figures.
// Errors:    a line that says which and why; empty: all is written.
#pragma once
#include <string>

namespace tidewheel::bench {

// Whether write_text() will be able to, as far as that can be told before; changes nothing.
std::string check_output(const std::string& path);

// Writes all of `text` to the file, or to standard output for "-". A regular file is written under another
// name beside it and renamed, so that it holds the old figures or the new ones; where its folder allows no
// new file, and for pipes and terminals, the text goes straight in.
std::string write_text(const std::string& path, const std::string& text);

// File descriptors 0 to 2 are open from here on: no file of a run can take their place. Writing to one that
// was closed fails.
void keep_standard_descriptors();

// A pipe that nobody reads any more and a file beyond `ulimit -f` fail the write (EPIPE, EFBIG) instead of
// killing the program, which then cleans up and reports as after any other error.
void take_failed_writes_as_errors();

// An exception that nobody catches (memory that ran out, a thread the system refuses) ends the program with
// one line and status 1, at once: other threads are in the middle of their work.
void end_quietly_on_exceptions();

}  // namespace tidewheel::bench
