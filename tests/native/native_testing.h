// A job and its members, for the tests with a NativeServer. Tests only.
#pragma once

#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/client/member.h"
#include "tests/native/native_server.h"

namespace lockstep {

inline coord::CoordinatorOptions JobOf(int32_t size) {
  return {.job = "digits", .role = "trainer", .size = size, .shutdown_timeout = absl::Seconds(30)};
}

inline JoinOptions Joining(const NativeServer& server) {
  return {.address = server.address(), .job = "digits", .timeout = absl::Seconds(30)};
}

// All members of the job, joined side by side.
inline std::vector<std::unique_ptr<Member>> JoinAll(const NativeServer& server, int32_t size) {
  std::vector<std::future<absl::StatusOr<std::unique_ptr<Member>>>> joins;
  for (int32_t i = 0; i < size; ++i) {
    joins.push_back(std::async(std::launch::async, [&, i] {
      JoinOptions options = Joining(server);
      options.index = i;
      return Join(options);
    }));
  }
  std::vector<std::unique_ptr<Member>> members;
  for (auto& join : joins) {
    auto member = join.get();
    EXPECT_TRUE(member.ok()) << member.status();
    if (member.ok()) members.push_back(*std::move(member));
  }
  return members;
}

}  // namespace lockstep
