#include "lockstep/server/log.h"

#include <atomic>
#include <chrono>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "lockstep/base/limits.h"
#include "lockstep/observe/text_parts.h"
#include "nlohmann/json.hpp"
#include "spdlog/async.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

namespace lockstep::server {
namespace {

using Json = nlohmann::ordered_json;
using wire::native::EventSeverity;
using wire::native::JobEvent;

constexpr size_t kLogLinesMax = 8192;

// Of one line of the text log: `log_line_bytes_max`.
constexpr size_t kLineBytesMax = size_t{16} << 10;
static_assert(kErrorTextBytesMax < kLineBytesMax);  // an error is logged whole

// Before a line whose rest is the fields of a transition, already JSON. In no text of ours.
constexpr char kFieldsMark = '\x01';

std::atomic<LogFormat> format_in_use = LogFormat::kText;

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

spdlog::level::level_enum LevelOf(EventSeverity severity) {
  if (severity == EventSeverity::kError) return spdlog::level::err;
  if (severity == EventSeverity::kWarning) return spdlog::level::warn;
  return spdlog::level::info;
}

}  // namespace

void JsonLines::format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) {
  const std::string at =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::FromChrono(message.time), absl::UTCTimeZone());
  const auto level = spdlog::level::to_string_view(message.level);
  std::string payload(message.payload.data(), message.payload.size());
  Json line = {{"at", at}, {"level", std::string(level.data(), level.size())}};
  std::string text;
  if (!payload.empty() && payload.front() == kFieldsMark) {
    // Joins two objects: what ours ends with, and the fields begin with, is a brace.
    text = Dump(line);
    text.back() = ',';
    text += payload.substr(2);
  } else {
    line["text"] = std::move(payload);
    text = Dump(line);
  }
  text += '\n';
  out.append(text.data(), text.data() + text.size());
}

void TextLines::format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) {
  const std::string clean =
      observe::CleanText({message.payload.data(), message.payload.size()}, kLineBytesMax);
  spdlog::details::log_msg cleaned = message;
  cleaned.payload = clean;
  pattern_.format(cleaned, out);
  // Where the pattern puts its colours.
  message.color_range_start = cleaned.color_range_start;
  message.color_range_end = cleaned.color_range_end;
}

std::unique_ptr<spdlog::formatter> TextLines::clone() const {
  return std::make_unique<TextLines>();
}

std::unique_ptr<spdlog::formatter> JsonLines::clone() const {
  return std::make_unique<JsonLines>();
}

void UseLogFormat(LogFormat format) { format_in_use = format; }

void SetUpLog(LogFormat format, bool verbose) {
  UseLogFormat(format);
  spdlog::init_thread_pool(kLogLinesMax, 1);
  spdlog::set_default_logger(
      spdlog::create_async_nb<spdlog::sinks::stderr_color_sink_mt>("lockstep"));
  if (format == LogFormat::kJson) {
    spdlog::set_formatter(std::make_unique<JsonLines>());
  } else {
    spdlog::set_formatter(std::make_unique<TextLines>());
  }
  spdlog::set_level(verbose ? spdlog::level::debug : spdlog::level::info);
  spdlog::flush_on(spdlog::level::info);
}

void LogEvent(const std::string& job, const JobEvent& event) {
  const auto level = LevelOf(event.severity);
  if (format_in_use == LogFormat::kText) {
    const bool named = job.empty() || absl::StartsWith(event.text, "job '");
    spdlog::log(level, "{}{}", named ? "" : absl::StrCat("job '", job, "': "), event.text);
    return;
  }
  Json fields = {{"kind", std::string(NameOf(event.kind))}};
  if (!job.empty()) fields["job"] = job;
  if (event.attempt > 0) fields["attempt"] = event.attempt;
  if (!event.member.empty()) fields["member"] = event.member;
  fields["text"] = event.text;
  spdlog::log(level, "{}{}", kFieldsMark, Dump(fields));
}

}  // namespace lockstep::server
