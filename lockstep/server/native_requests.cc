#include "lockstep/server/native_requests.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {

namespace {

// Of an exception's text: `process_error_bytes_max`.
constexpr size_t kProcessErrorBytesMax = 512;
// What a report may say that it waited; longer counts as this.
constexpr absl::Duration kReportAgeMax = absl::Hours(24);

std::string OneLine(std::string text) {
  text.resize(std::min(text.size(), kProcessErrorBytesMax));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

}  // namespace

absl::StatusOr<coord::Event> EventOf(const wire::native::ProcessReport& report, int32_t size) {
  using wire::native::ProcessEvent;
  if (report.member < 0 || report.member >= size) {
    return wire::native::WithReason(absl::InvalidArgumentError(absl::StrFormat(
                                        "job '%s' has no member %d: its members are 0 to %d",
                                        report.job, report.member, size - 1)),
                                    "unknown_member");
  }
  const MemberIndex member(report.member);
  switch (report.event) {
    case ProcessEvent::kStarted:
      return coord::ProcessStarted{.member = member, .host = report.host, .pid = report.pid};
    case ProcessEvent::kEnded:
      return coord::ProcessEnded{.member = member,
                                 .pid = report.pid,
                                 .exit_code = report.exit_code,
                                 .signal = report.signal,
                                 .ago = std::clamp(absl::Microseconds(report.waited_us),
                                                   absl::ZeroDuration(), kReportAgeMax)};
    case ProcessEvent::kEnding:
      return coord::ProcessEnding{
          .member = member, .pid = report.pid, .error = OneLine(report.error)};
    case ProcessEvent::kStopped:
      return coord::ProcessStopped{.member = member, .pid = report.pid};
    case ProcessEvent::kContinued:
      return coord::ProcessContinued{.member = member, .pid = report.pid};
    case ProcessEvent::kUnspecified:
      break;
  }
  return wire::native::WithReason(
      absl::InvalidArgumentError(absl::StrFormat(
          "process event %d is not known to this server; is it older than its launcher?",
          static_cast<int>(report.event))),
      "invalid_argument");
}

}  // namespace lockstep::server
