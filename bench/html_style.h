// bench/html_style.h: the look of the page and its one small script, as text.
// Note:      the page works without the script: it only shows figures under the pointer, and checks itself
//            (data-ready, data-overflow and data-errors of <html>), which tests read.
#pragma once

namespace tidewheel::bench {

extern const char* const kPageStyle;
extern const char* const kPageScript;

}  // namespace tidewheel::bench
