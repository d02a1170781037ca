#include "lockstep/wire/native/error_reply.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lockstep/base/check.h"
#include "lockstep/wire/native/utf8.h"

namespace lockstep::wire::native {
namespace {

constexpr char kReasonUrl[] = "lockstep.v1.reason";
// Each detail is a payload of its own, by its name.
constexpr std::string_view kDetailUrl = "lockstep.v1.detail.";

}  // namespace

absl::Status WithReason(absl::Status status, std::string_view reason) {
  status.SetPayload(kReasonUrl, absl::Cord(std::string(reason)));
  return status;
}

std::string ReasonOf(const absl::Status& status) {
  if (auto reason = status.GetPayload(kReasonUrl)) return std::string(*reason);
  return absl::AsciiStrToLower(absl::StatusCodeToString(status.code()));
}

absl::Status WithDetail(absl::Status status, std::string_view name, std::string_view value) {
  status.SetPayload(absl::StrCat(std::string(kDetailUrl), std::string(name)),
                    absl::Cord(std::string(value)));
  return status;
}

std::map<std::string, std::string> DetailsOf(const absl::Status& status) {
  std::map<std::string, std::string> details;
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& value) {
    if (!absl::ConsumePrefix(&url, absl::string_view(kDetailUrl.data(), kDetailUrl.size()))) return;
    details.emplace(std::string(url), std::string(value));
  });
  return details;
}

ErrorReply ToErrorReply(const absl::Status& status) {
  LOCKSTEP_CHECK(!status.ok());
  ErrorReply reply = {.code = static_cast<int32_t>(status.code()),
                      .reason = ToUtf8(ReasonOf(status)),
                      .message = ToUtf8(std::string(status.message()))};
  for (const auto& [name, value] : DetailsOf(status)) {
    reply.details.push_back({.name = ToUtf8(name), .value = ToUtf8(value)});
  }
  return reply;
}

absl::Status ToStatus(const ErrorReply& reply) {
  const bool known = reply.code >= 1 && reply.code <= 16;
  absl::Status status(
      known ? static_cast<absl::StatusCode>(reply.code) : absl::StatusCode::kUnknown,
      reply.message);
  if (!reply.reason.empty()) status = WithReason(std::move(status), reply.reason);
  for (const auto& [name, value] : reply.details) {
    status = WithDetail(std::move(status), name, value);
  }
  return status;
}

}  // namespace lockstep::wire::native
