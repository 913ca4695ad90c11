#include "bench/html_text.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "bench/compare_table.h"

namespace tidewheel::bench {

namespace {

// The length of the UTF-8 character at the start of `text`, or 0 when there is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  std::size_t length = 0;
  unsigned char low = 0x80, high = 0xBF;  // of the second byte: no overlong forms, no surrogates
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  }
  if (length == 0 || text.size() < length || byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return 0;
  }
  return length;
}

}  // namespace

std::string html_escape(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const unsigned char first = static_cast<unsigned char>(text.front());
    if (length == 0 || (first < 0x20 && first != '\n' && first != '\t') || first == 0x7F) {
      out += "\xEF\xBF\xBD";
    } else {
      switch (text.front()) {
        case '<': out += "&lt;"; break;
        case '>': out += "&gt;"; break;
        case '&': out += "&amp;"; break;
        case '"': out += "&quot;"; break;
        case '\'': out += "&#39;"; break;
        default: out += text.substr(0, length);
      }
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string short_time(double ns) {
  if (ns < 999.5) return short_number(ns) + " ns";
  if (ns < 999'500) return short_number(ns / 1e3) + " µs";
  if (ns < 999'500'000) return short_number(ns / 1e6) + " ms";
  return short_number(ns / 1e9) + " s";
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    const auto plain = [](unsigned char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
             std::string_view("-_./,:=%+@").find(static_cast<char>(c)) != std::string_view::npos;
    };
    if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

std::string html_table(const std::string& caption, const std::vector<std::vector<std::string>>& rows) {
  std::string out = "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"" + caption +
                    "\"><table><caption>" + caption + "</caption>\n";
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (r == 0) out += "<thead>";
    if (r == 1) out += "<tbody>";
    out += "<tr>";
    for (std::size_t c = 0; c < rows[r].size(); ++c) {
      const char* tag = r == 0 ? "th scope=\"col\"" : c == 0 ? "th scope=\"row\"" : "td";
      out += "<" + std::string(tag) + ">" + rows[r][c] + "</" + (r == 0 || c == 0 ? "th>" : "td>");
    }
    out += "</tr>";
    if (r == 0) out += "</thead>";
    out += "\n";
  }
  if (rows.size() > 1) out += "</tbody>";
  return out + "</table></div>\n";
}

std::string html_details(const std::string& summary, const std::string& table) {
  return "<details><summary>" + summary + "</summary>" + table + "</details>\n";
}

}  // namespace tidewheel::bench
