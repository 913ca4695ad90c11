#include "base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cerrno>
#include <memory>
#include <mutex>

namespace tidewheel {

namespace {

constexpr const char* kFormat = "%Y-%m-%dT%H:%M:%S.%e [%l] %v";

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
    case LogLevel::kOff: return spdlog::level::off;
  }
  return spdlog::level::warn;
}

std::shared_ptr<spdlog::logger> make_logger(spdlog::sink_ptr sink, LogLevel level) {
  auto logger = std::make_shared<spdlog::logger>("tidewheel", std::move(sink));
  logger->set_pattern(kFormat);
  logger->set_level(to_spdlog(level));
  logger->flush_on(spdlog::level::warn);
  // spdlog sets up its clock and formatter caches on first use; a line that no level lets through does
  // not, so one is formatted here, before threads start, and thrown away.
  spdlog::memory_buf_t scrap;
  spdlog::pattern_formatter(kFormat).format(spdlog::details::log_msg("tidewheel", spdlog::level::debug, ""),
                                            scrap);
  return logger;
}

std::shared_ptr<spdlog::logger>& logger() {
  static auto* const current = new std::shared_ptr<spdlog::logger>(
      make_logger(std::make_shared<spdlog::sinks::stderr_sink_mt>(), LogLevel::kWarning));
  return *current;
}

void write(spdlog::level::level_enum level, std::string_view who, std::string_view text) {
  spdlog::logger& log = *logger();
  if (log.should_log(level)) log.log(level, "{}: {}", who, text);
}

const char* name_of(Reason reason) {
  switch (reason) {
#define TW_REASON_NAME(name, number, sentence) \
  case Reason::name:                           \
    return #name;
    TW_REASONS(TW_REASON_NAME)
#undef TW_REASON_NAME
  }
  return "?";
}

}  // namespace

Result<void> set_up_log(const LogOptions& options) {
  if (options.file.empty()) {
    logger() = make_logger(std::make_shared<spdlog::sinks::stderr_sink_mt>(), options.level);
    return {};
  }
  try {
    logger() = make_logger(std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file), options.level);
  } catch (const spdlog::spdlog_ex&) {
    return errno == EACCES ? Result<void>(TW_FAIL_WITH(kAccess, errno))
                           : Result<void>(TW_FAIL_WITH(kSystem, errno));
  }
  return {};
}

bool log_enabled(LogLevel level) { return logger()->should_log(to_spdlog(level)); }

void log_debug(std::string_view who, std::string_view text) { write(spdlog::level::debug, who, text); }
void log_info(std::string_view who, std::string_view text) { write(spdlog::level::info, who, text); }
void log_warning(std::string_view who, std::string_view text) { write(spdlog::level::warn, who, text); }
void log_error(std::string_view who, std::string_view text) { write(spdlog::level::err, who, text); }

void log_error(std::string_view who, std::string_view text, Error error) {
  spdlog::logger& log = *logger();
  if (!log.should_log(spdlog::level::err)) return;
  log.error("{}: {}: {} ({}, line {}, detail {})", who, text, error.sentence(), name_of(error.code),
            error.line, error.detail);
}

}  // namespace tidewheel
