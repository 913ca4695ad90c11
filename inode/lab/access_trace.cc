#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

#include "inode/lab/access.h"

namespace tidewheel::lab {

namespace {

constexpr std::uint64_t kMostMicroseconds = INT64_MAX / 1000;

std::string at_line(std::size_t line, const std::string& what) {
  return "line " + std::to_string(line) + ": " + what;
}

std::string_view next_word(std::string_view& rest) {
  const auto begin = std::min(rest.find_first_not_of(" \t\r"), rest.size());
  const auto end = std::min(rest.find_first_of(" \t\r", begin), rest.size());
  const std::string_view word = rest.substr(begin, end - begin);
  rest.remove_prefix(end);
  return word;
}

bool number_of(std::string_view word, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc{} && end == word.data() + word.size() && !word.empty();
}

// Empty: `access` is what the line says.
std::string parse_line(std::string_view line, Access& access) {
  constexpr const char* kFields[] = {"time_us", "op", "inode", "offset", "length"};
  std::string_view words[5];
  for (int i = 0; i < 5; ++i) {
    words[i] = next_word(line);
    if (words[i].empty()) {
      return std::string(kFields[i]) + " is missing (a line is: time_us op inode offset length)";
    }
  }
  if (const std::string_view more = next_word(line); !more.empty()) {
    return "'" + std::string(more) + "' follows the length, the last field";
  }
  std::uint64_t numbers[5] = {};
  for (const int i : {0, 2, 3, 4}) {
    if (!number_of(words[i], numbers[i])) {
      return std::string(kFields[i]) + " '" + std::string(words[i]) + "' is not a decimal number";
    }
  }
  if (words[1] == "read") {
    access.kind = AccessKind::kRead;
  } else if (words[1] == "write") {
    access.kind = AccessKind::kWrite;
  } else {
    return "op '" + std::string(words[1]) + "' is neither read nor write";
  }
  if (numbers[0] > kMostMicroseconds) return "time_us is beyond 292 years";
  if (numbers[4] == 0) return "length is 0";
  if (numbers[4] > kLongestAccess) return "length is more than 1 GiB";
  if (numbers[3] > static_cast<std::uint64_t>(INT64_MAX) - numbers[4]) return "the end is beyond 2^63 - 1";
  access.at = microseconds(static_cast<std::int64_t>(numbers[0]));
  access.inode = numbers[2];
  access.offset = numbers[3];
  access.length = numbers[4];
  return {};
}

}  // namespace

Accesses parse_trace(std::string_view text) {
  Accesses parsed;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view content = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    content = content.substr(0, std::min(content.find('#'), content.size()));
    if (content.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    Access access;
    std::string flaw = parse_line(content, access);
    if (flaw.empty() && !parsed.list.empty() && access.at < parsed.list.back().at) {
      flaw = "time_us goes back";
    }
    if (!flaw.empty()) return {{}, at_line(line, flaw)};
    parsed.list.push_back(access);
  }
  if (parsed.list.empty()) parsed.error = "the trace has no access";
  return parsed;
}

Accesses read_trace(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return {{}, path + ": cannot be opened"};
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) return {{}, path + ": cannot be read"};
  Accesses parsed = parse_trace(text);
  if (!parsed.error.empty()) parsed.error = path + ": " + parsed.error;
  return parsed;
}

std::string to_trace(const std::vector<Access>& accesses) {
  std::string text = "# time_us op inode offset length\n";
  for (const Access& a : accesses) {
    text += std::to_string(a.at.ns / 1000) + (a.kind == AccessKind::kRead ? " read " : " write ") +
            std::to_string(a.inode) + " " + std::to_string(a.offset) + " " + std::to_string(a.length) + "\n";
  }
  return text;
}

}  // namespace tidewheel::lab
