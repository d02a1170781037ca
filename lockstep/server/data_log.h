// The dispatcher's sentences for operators.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/data/dispatch/effects.h"
#include "lockstep/observe/log_limiter.h"

namespace lockstep::server {

// Bounds: kLines in each interval, since whoever reaches the port can cause them.
class DataLog {
 public:
  using Tell = std::function<void(dispatch::Severity, std::string)>;

  explicit DataLog(Tell tell) : tell_(std::move(tell)) {}

  // At most `kLines` in each `kInterval`; the next that passes says how many were left out.
  void Pass(Time now, const dispatch::LogEntry& entry) {
    if (const auto line = limiter_.Pass(now, entry.text)) tell_(entry.severity, *line);
  }

 private:
  static constexpr int kLines = 100;
  static constexpr absl::Duration kInterval = absl::Seconds(10);

  const Tell tell_;
  observe::LogLimiter limiter_{kLines, kInterval};
};

}  // namespace lockstep::server
