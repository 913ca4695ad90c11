// bench/html_text.h: text and numbers for an HTML page.
// Threads:   pure functions.
// Invariant: whatever bytes go into html_escape(), what comes out is UTF-8 without markup.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tidewheel::bench {

// For element content and for attribute values in double quotes. What is not UTF-8, and control characters,
// become U+FFFD.
std::string html_escape(std::string_view text);
std::string fixed(double value, int digits);
// A time from nanoseconds: "850 ns", "12.4 us", "3.10 ms", "1.25 s".
std::string short_time(double ns);
// Words as a shell would have to be given them.
std::string shell_line(const std::vector<std::string>& words);
// <table> of cells that are HTML already; the first row is the head, the first column heads the rows.
std::string html_table(const std::string& caption, const std::vector<std::vector<std::string>>& rows);
// A closed <details> with a table: the exact figures behind a chart.
std::string html_details(const std::string& summary, const std::string& table);

}  // namespace tidewheel::bench
