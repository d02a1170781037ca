#include "lockstep/data/plan/error.h"

#include <utility>

#include "absl/strings/cord.h"

namespace lockstep::plan {
namespace {

// The same as in lockstep/wire/native/error_reply.cc.
constexpr char kReasonUrl[] = "lockstep.v1.reason";

}  // namespace

absl::Status Error(absl::StatusCode code, std::string_view reason, const std::string& message) {
  absl::Status status(code, message);
  status.SetPayload(kReasonUrl, absl::Cord(std::string(reason)));
  return status;
}

absl::Status Invalid(const std::string& message) {
  return Error(absl::StatusCode::kInvalidArgument, kDefinitionInvalid, message);
}

std::string ReasonOf(const absl::Status& status) {
  const auto reason = status.GetPayload(kReasonUrl);
  return reason ? std::string(*reason) : std::string();
}

}  // namespace lockstep::plan
