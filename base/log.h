// base/log.h: the log: lines for people, with a severity, who speaks, and a reason code where there is one.
// Owns:      one sink, standard error until set_up_log names a file.
// Threads:   thread-safe. set_up_log() before threads start.
// Errors:    set_up_log: kAccess, kSystem when the file cannot be opened; a line that cannot be written is
//            dropped.
// Note:      text is made by the caller; nothing is formatted below the level. Not for hot paths: trace
//            points (base/trace.h) are.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tidewheel {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError, kOff };

struct LogOptions {
  LogLevel level = LogLevel::kWarning;
  std::string file;  // empty: standard error; else appended to
};
Result<void> set_up_log(const LogOptions& options);
bool log_enabled(LogLevel level);

// who: the file system's or device's name, or the part that speaks: "engine", "vda", "flat:out/image".
void log_debug(std::string_view who, std::string_view text);
void log_info(std::string_view who, std::string_view text);
void log_warning(std::string_view who, std::string_view text);
// "[error] flat:out/image: writeback failed: the device reported an error (kIo, line 81, detail 5)"
void log_error(std::string_view who, std::string_view text, Error error);
void log_error(std::string_view who, std::string_view text);

}  // namespace tidewheel
