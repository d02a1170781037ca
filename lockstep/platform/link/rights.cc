#include "lockstep/platform/link/rights.h"

#include <optional>
#include <type_traits>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/kinds.h"

namespace lockstep::link {
namespace {

using wire::native::RequestKind;
using wire::native::Requests;
using wire::native::Role;

template <class Message>
concept NamesJob = requires(const Message& message) {
  message.job;
};

// The job that the request is about; absent: it names none.
using JobOrNone = absl::StatusOr<std::optional<std::string>>;

template <class Message>
JobOrNone JobIn(std::string_view payload) {
  auto message = wire::native::Decode<Message>(payload);
  if (!message.ok()) return wire::native::WithReason(message.status(), "invalid_argument");
  // Absent is as empty: about all jobs.
  if constexpr (requires { message->job.value_or(""); }) {
    return std::optional<std::string>(message->job.value_or(""));
  } else {
    return std::optional<std::string>(std::move(message->job));
  }
}

// Whether the kind is one of these; then `job` is filled in.
template <class... Messages>
bool Look(Requests<Messages...>, RequestKind kind, std::string_view payload, JobOrNone& job) {
  const auto look = [&]<class Message>(std::type_identity<Message>) {
    if (wire::native::KindOf<Message>::kKind != kind) return false;
    if constexpr (NamesJob<Message>) job = JobIn<Message>(payload);
    return true;
  };
  return (look(std::type_identity<Messages>()) || ...);
}

JobOrNone JobOf(RequestKind kind, std::string_view payload) {
  JobOrNone job = std::optional<std::string>();
  Look(wire::native::ServerRequests(), kind, payload, job) ||
      Look(wire::native::LaunchersRequests(), kind, payload, job) ||
      Look(wire::native::SessionRequests(), kind, payload, job);
  return job;
}

absl::Status NotPermitted(std::string text) {
  return wire::native::WithReason(absl::PermissionDeniedError(std::move(text)), "not_permitted");
}

}  // namespace

absl::Status CheckRights(const Rights& rights, RequestKind kind, std::string_view payload) {
  if (rights.role != Role::kOperate && !wire::native::MayAsk(rights.role, kind)) {
    return NotPermitted(
        absl::StrCat("the token's role may not make this request (kind ", kind,
                     "): use a token of another role (`lockstep token create --role`)"));
  }
  if (rights.job.empty()) return absl::OkStatus();
  const JobOrNone job = JobOf(kind, payload);
  if (!job.ok()) return job.status();
  // Requests within a session are about its job, which was checked when it was opened.
  if (!job->has_value() || **job == rights.job) return absl::OkStatus();
  return NotPermitted((*job)->empty()
                          ? absl::StrCat("the token is for job '", rights.job,
                                         "' alone, and the request names no job: name it")
                          : absl::StrCat("the token is for job '", rights.job, "' alone, not for '",
                                         **job, "': use a token for that job"));
}

}  // namespace lockstep::link
