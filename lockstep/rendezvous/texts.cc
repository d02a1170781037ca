#include "lockstep/rendezvous/texts.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep::rendezvous {

std::string NameOf(const Options& options, MemberIndex member) {
  const auto index = static_cast<size_t>(member.value());
  // Only for texts, which must not fail: a member may be named before its index is checked.
  if (index < options.names.size()) return options.names[index];
  return absl::StrCat("member ", member.value());
}

ErrorPtr CheckKey(const Options& options, MemberIndex peer, std::string_view name) {
  if (peer.value() < 0 || static_cast<size_t>(peer.value()) >= options.names.size()) {
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kUnknownMember,
                     absl::StrFormat("there is no member %d: the job has %d, from 0 up",
                                     peer.value(), options.names.size()));
  }
  if (name.empty() || name.size() > options.name_bytes_max) {
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kKeyInvalid,
                     absl::StrFormat("a key's name has 1 to %d bytes (name_bytes_max), not %d",
                                     options.name_bytes_max, name.size()));
  }
  return nullptr;
}

ErrorPtr StepClosedHere(StepId step) {
  return MakeError(
      absl::StatusCode::kFailedPrecondition, Reason::kStepClosed,
      absl::StrFormat("step %d is closed here; a step is not used again in one attempt",
                      step.value()));
}

ErrorPtr NotReceived(const Options& options, MemberIndex by) {
  return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kStepClosed,
                   absl::StrCat(NameOf(options, by), " closed the step without receiving it"));
}

ErrorPtr QuotaExceeded(const Options& options, size_t held_values, uint64_t held_bytes,
                       uint64_t more_bytes) {
  return MakeError(
      absl::StatusCode::kResourceExhausted, Reason::kQuotaExceeded,
      absl::StrFormat("%d values of %d bytes wait for their receivers, and %d bytes more are over "
                      "the limit of %d values (quota_values) and %d bytes (quota_bytes): receive "
                      "them, close steps that are done, or send with wait",
                      held_values, held_bytes, more_bytes, options.quota_values,
                      options.quota_bytes));
}

ErrorPtr ClosedBySender(const Options& options, StepId step) {
  return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kStepClosed,
                   absl::StrFormat("%s closed step %d and sent nothing (more) under this key",
                                   NameOf(options, options.self), step.value()));
}

ErrorPtr TooManyUnopened(const Options& options) {
  return MakeError(absl::StatusCode::kResourceExhausted, Reason::kTooManyWaits,
                   absl::StrFormat("%s has %d steps that others began and it has not opened "
                                   "(unopened_steps_max)",
                                   NameOf(options, options.self), options.unopened_steps_max));
}

ErrorPtr TooManyWaits(std::string_view limit, size_t max) {
  return MakeError(absl::StatusCode::kResourceExhausted, Reason::kTooManyWaits,
                   absl::StrFormat("%d receives wait already (%s)", max, limit));
}

ErrorPtr SizeMismatch(StepId step, std::string_view name, std::string_view from,
                      uint64_t into_bytes, const Value& came) {
  const std::string what =
      came.dead ? "no value" : absl::StrFormat("a value of %d bytes", came.bytes);
  return MakeError(absl::StatusCode::kInvalidArgument, Reason::kSizeMismatch,
                   absl::StrFormat("step %d, key '%s': %s sent %s, the destination has %d bytes",
                                   step.value(), name, from, what, into_bytes));
}

}  // namespace lockstep::rendezvous
