// A supervisor and its time. For the tests of this folder.
#pragma once

#include <optional>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "lockstep/launch/supervisor.h"

namespace lockstep::launch {

inline MemberIndex M(int32_t index) { return MemberIndex(index); }

class SupervisorFixture : public testing::Test {
 protected:
  // The effects of one event.
  Effects Do(const Event& event) { return supervisor_->Handle(now_, event); }
  Effects Pass(absl::Duration duration) {
    now_ = now_ + duration;
    return Do(DeadlineReached{});
  }

  std::optional<Supervisor> supervisor_;
  Time now_ = Time::FromNanoseconds(1'000'000'000);
};

}  // namespace lockstep::launch
