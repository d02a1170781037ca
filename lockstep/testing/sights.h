// For tests of the machines of sources: times, answers, and reading what came of them.
#pragma once

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/preempt/http_machine.h"

namespace lockstep::testing {

inline absl::Time Wall(const std::string& text) {
  absl::Time time;
  std::string error;
  EXPECT_TRUE(absl::ParseTime(absl::RFC3339_full, text, &time, &error)) << error;
  return time;
}

// Noon of a day that is `later` old; the steady clock began then at 1000 s.
inline preempt::Now At(absl::Duration later = absl::ZeroDuration()) {
  return {.steady = Time() + absl::Seconds(1000) + later,
          .wall = Wall("2026-03-01T12:00:00Z") + later};
}

inline preempt::HttpMessage Answer(int status, std::string body = "",
                                   preempt::HttpHeaders headers = {}) {
  return {.status = status, .headers = std::move(headers), .body = std::move(body)};
}

inline std::string HeaderOf(const preempt::HttpRequest& request, const std::string& name) {
  for (const auto& [key, value] : request.headers) {
    if (key == name) return value;
  }
  return {};
}

// The only notice that stands.
inline preempt::Notice Only(const preempt::Sight& sight) {
  EXPECT_TRUE(sight.health.ok()) << sight.health;
  EXPECT_TRUE(sight.notices && sight.notices->size() == 1);
  return sight.notices && sight.notices->size() == 1 ? sight.notices->front() : preempt::Notice{};
}

inline bool IsQuiet(const preempt::Sight& sight) {
  return sight.health.ok() && sight.notices && sight.notices->empty();
}

}  // namespace lockstep::testing
