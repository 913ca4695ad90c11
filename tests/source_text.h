// Files of the source tree as tests read them. Paths are from the tree's root, which the test's CMake target
// defines as TW_SOURCE_DIR. A file that isn't there reads as empty.
#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace tidewheel {

inline std::string text_of(const std::string& path) {
  std::ifstream in(std::string(TW_SOURCE_DIR) + "/" + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// What stands between ```LANGUAGE and ``` in a page, in order.
inline std::vector<std::string> blocks_of(const std::string& page, const std::string& language) {
  std::vector<std::string> found;
  const std::string text = "\n" + text_of(page);
  const std::string opening = "\n```" + language + "\n";
  for (std::size_t at = text.find(opening); at != std::string::npos; at = text.find(opening, at)) {
    at += opening.size();
    const std::size_t end = text.find("\n```", at);
    found.push_back(text.substr(at, end + 1 - at));
    at = end;
  }
  return found;
}

}  // namespace tidewheel
