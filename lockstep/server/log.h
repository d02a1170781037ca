// The server's log: lines for people, or one JSON object each.
#pragma once

#include <string>

#include "lockstep/server/options.h"
#include "lockstep/wire/native/job_messages.h"
#include "spdlog/formatter.h"
#include "spdlog/pattern_formatter.h"

namespace lockstep::server {

// Makes spdlog's default logger write to standard error by a thread of its own, so that a reader
// that stalls does not hold up the loop. Bounds: 8192 lines wait (`log_lines_max`); then the oldest
// go.
void SetUpLog(LogFormat format, bool verbose);

// What LogEvent writes; set by SetUpLog.
void UseLogFormat(LogFormat format);

// One line for a transition. `job` is empty for the server itself.
void LogEvent(const std::string& job, const wire::native::JobEvent& event);

// {"at": "2026-11-21T05:51:27.123456Z", "level": "info", "text": "..."}; transitions have "kind"
// and, where they are about one, "job", "attempt" and "member".
class JsonLines final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override;
  std::unique_ptr<spdlog::formatter> clone() const override;
};

// "2026-11-21T05:51:27.123 info ...", one line each: control characters, of which peers may have
// sent some, become blanks. Bounds: 16 KiB of text (`log_line_bytes_max`).
class TextLines final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override;
  std::unique_ptr<spdlog::formatter> clone() const override;

 private:
  spdlog::pattern_formatter pattern_{"%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v"};
};

}  // namespace lockstep::server
