#include "lockstep/server/stack_questions.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

namespace lockstep::server {
namespace {

// "barrier 'x' timed out"; empty: the error says nothing of a wait that took too long.
std::string WhatTimedOut(const coord::Error& error) {
  switch (error.reason) {
    case coord::Reason::kBarrierTimedOut:
      return error.barrier ? absl::StrCat("barrier '", error.barrier->id, "' timed out")
                           : "a barrier timed out";
    case coord::Reason::kAgreementTimedOut:
      return "an agreement timed out";
    case coord::Reason::kRegistrationFailed:
      return "the members did not all register in time";
    default:
      return "";
  }
}

}  // namespace

void StackQuestions::Saw(Time now, const coord::Event& event) {
  if (std::holds_alternative<coord::ProcessStarted>(event)) looks_.ProcessStarted();
  const auto* set = std::get_if<coord::SetKey>(&event);
  if (set == nullptr || set->key != wire::native::kStackQuestionKey) return;
  const auto asked = wire::native::DecodeQuestion(set->value);
  // Without a reason a person has asked, who reads the answers and leaves.
  if (!asked.ok() || asked->because.empty()) return;
  looks_.Asked({.id = asked->id, .because = asked->because, .at = now, .awaited = {}});
}

std::optional<StackQuestions::Cause> StackQuestions::TimedOut(
    const std::vector<coord::Reply>& replies) const {
  for (const coord::Reply& reply : replies) {
    if (!reply.error) continue;
    std::string because = WhatTimedOut(*reply.error);
    if (because.empty()) continue;
    // All who waited get the same error: the first one is enough.
    return Cause{.because = std::move(because),
                 .awaited = job_.members_named(reply.error->missing)};
  }
  return std::nullopt;
}

std::optional<coord::SetKey> StackQuestions::Ask(Time now, int64_t unix_us, Cause cause) {
  if (!looks_.Wants(now) || !job_.any_process_runs()) return std::nullopt;
  const std::string id = absl::StrCat("timeout-", unix_us);
  coord::SetKey question = {
      .caller = {.service = job_.service()},
      .key = wire::native::kStackQuestionKey,
      .value = wire::native::EncodeQuestion({.id = id, .because = cause.because, .say = true}),
      .overwrite = true,
      .lifetime = {.ttl = wire::native::kStackQuestionOfTimeoutLives}};
  // Noted before the question comes back through `Saw`, which then knows it as ours.
  looks_.Asks({.id = id,
               .because = std::move(cause.because),
               .at = now,
               .awaited = std::move(cause.awaited)});
  return question;
}

std::optional<wire::native::StacksTaken> StackQuestions::Last(Time now) const {
  const coord::StackSnapshot* const last = looks_.Last(now);
  if (last == nullptr) return std::nullopt;
  return wire::native::StacksTaken{.id = last->id,
                                   .because = last->because,
                                   .ago_us = absl::ToInt64Microseconds(now - last->at),
                                   .awaited = last->awaited};
}

}  // namespace lockstep::server
