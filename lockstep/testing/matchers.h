// Matchers for the coordinator's replies. Tests only.
//
//   EXPECT_THAT(h.Reply(call), HasError(absl::StatusCode::kAborted, Reason::kMemberRestarted));
#pragma once

#include <string>

#include "gmock/gmock.h"
#include "lockstep/coord/effects.h"
#include "lockstep/testing/print_effects.h"

namespace lockstep::testing {

using ReplyMatcher = ::testing::Matcher<const coord::Reply&>;

inline bool ReplySucceeded(const coord::Reply& reply) { return reply.error == nullptr; }
inline absl::StatusCode ReplyCode(const coord::Reply& reply) {
  return reply.error ? reply.error->code : absl::StatusCode::kOk;
}
inline std::string ReplyText(const coord::Reply& reply) {
  return reply.error ? reply.error->message : "";
}
inline bool ReplyHasReason(const coord::Reply& reply, coord::Reason reason) {
  return reply.error && reply.error->reason == reason;
}

// Success, whatever it brings back.
inline ReplyMatcher Succeeded() {
  return ::testing::ResultOf("success", ReplySucceeded, ::testing::IsTrue());
}

inline ReplyMatcher HasError(absl::StatusCode code) {
  return ::testing::ResultOf("code", ReplyCode, ::testing::Eq(code));
}

// The text contains all of `texts`.
template <class... Texts>
ReplyMatcher HasText(const Texts&... texts) {
  return ::testing::ResultOf("text", ReplyText,
                             ::testing::AllOf(::testing::HasSubstr(std::string(texts))...));
}

inline ReplyMatcher TextStartsWith(const std::string& text) {
  return ::testing::ResultOf("text", ReplyText, ::testing::StartsWith(text));
}

// The code, and a text that contains all of `texts`.
template <class... Texts>
ReplyMatcher HasError(absl::StatusCode code, const std::string& text, const Texts&... texts) {
  return ::testing::AllOf(HasError(code), HasText(text, texts...));
}

inline ReplyMatcher HasReason(coord::Reason reason) {
  return ::testing::Truly(
      [reason](const coord::Reply& reply) { return ReplyHasReason(reply, reason); });
}

// The code, the reason, and a text that contains all of `texts`.
inline ReplyMatcher HasError(absl::StatusCode code, coord::Reason reason) {
  return ::testing::AllOf(HasError(code), HasReason(reason));
}
template <class... Texts>
ReplyMatcher HasError(absl::StatusCode code, coord::Reason reason, const std::string& text,
                      const Texts&... texts) {
  return ::testing::AllOf(HasError(code), HasReason(reason), HasText(text, texts...));
}

// The error is about this member.
inline ReplyMatcher IsAbout(int member) {
  return ::testing::ResultOf(
      "origin",
      [](const coord::Reply& reply) {
        return reply.error && reply.error->origin ? reply.error->origin->value() : -1;
      },
      ::testing::Eq(member));
}

// The error, or the success, belongs to this instance of a barrier.
inline ReplyMatcher FailedBarrier(const std::string& id, int64_t counter) {
  return ::testing::Truly([id, counter](const coord::Reply& reply) {
    return reply.error && reply.error->barrier == coord::BarrierRef{id, counter};
  });
}
inline ReplyMatcher PassedBarrier(int64_t counter) {
  return ::testing::Truly([counter](const coord::Reply& reply) {
    const auto* passed = std::get_if<coord::BarrierPassed>(&reply.answer);
    return !reply.error && passed != nullptr && passed->counter == counter;
  });
}

// Refused since it belongs to another attempt than `right`.
inline ReplyMatcher IsFromAnotherAttempt(ServiceIncarnation right) {
  return ::testing::AllOf(
      HasError(absl::StatusCode::kInternal, coord::Reason::kWrongServiceIncarnation,
               "wrong service incarnation"),
      ::testing::Truly([right](const coord::Reply& reply) {
        return reply.error && reply.error->right_service == right;
      }));
}

}  // namespace lockstep::testing
