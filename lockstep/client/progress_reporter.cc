#include "lockstep/client/progress_reporter.h"

#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/wire/native/utf8.h"

namespace lockstep::client {
namespace {

// As the server's label_bytes_max, over which it takes nothing of a report.
constexpr size_t kPhaseBytesMax = 256;

std::string Shortened(std::string_view phase) {
  std::string text = wire::native::ToUtf8(phase);
  if (text.size() <= kPhaseBytesMax) return text;
  size_t end = kPhaseBytesMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
  return text;
}

}  // namespace

void ProgressReporter::Note(int64_t step, std::string_view phase) {
  if (step >= 0) step_ = step;
  if (!phase.empty()) phase_ = Shortened(phase);
  news_ = true;
}

Time ProgressReporter::Due() const {
  if (!active_ || in_flight_ != 0) return Time::Infinite();
  return last_report_ + (news_ ? progress_interval_ : heartbeat_interval_);
}

wire::native::ReportProgress ProgressReporter::Report(Time now, RequestNumber request) {
  LOCKSTEP_DCHECK(active_ && in_flight_ == 0 && request != 0);  // one at a time
  in_flight_ = request;
  last_report_ = now;
  wire::native::ReportProgress report;
  if (!std::exchange(news_, false)) return report;
  if (step_ >= 0) report.step = step_;
  report.phase = phase_;
  return report;
}

bool ProgressReporter::TakeAnswer(RequestNumber request) {
  if (request == 0 || request != in_flight_) return false;
  in_flight_ = 0;
  return true;
}

}  // namespace lockstep::client
