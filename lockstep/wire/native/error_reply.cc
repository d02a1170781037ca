#include "lockstep/wire/native/error_reply.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "lockstep/base/check.h"
#include "lockstep/wire/native/utf8.h"

namespace lockstep::wire::native {
namespace {

constexpr char kReasonUrl[] = "lockstep.v1.reason";

}  // namespace

absl::Status WithReason(absl::Status status, std::string_view reason) {
  status.SetPayload(kReasonUrl, absl::Cord(std::string(reason)));
  return status;
}

std::string ReasonOf(const absl::Status& status) {
  if (auto reason = status.GetPayload(kReasonUrl)) return std::string(*reason);
  return absl::AsciiStrToLower(absl::StatusCodeToString(status.code()));
}

ErrorReply ToErrorReply(const absl::Status& status) {
  LOCKSTEP_CHECK(!status.ok());
  return {.code = static_cast<int32_t>(status.code()),
          .reason = ToUtf8(ReasonOf(status)),
          .message = ToUtf8(std::string(status.message()))};
}

absl::Status ToStatus(const ErrorReply& reply) {
  const bool known = reply.code >= 1 && reply.code <= 16;
  absl::Status status(
      known ? static_cast<absl::StatusCode>(reply.code) : absl::StatusCode::kUnknown,
      reply.message);
  return reply.reason.empty() ? status : WithReason(std::move(status), reply.reason);
}

}  // namespace lockstep::wire::native
