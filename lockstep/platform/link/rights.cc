#include "lockstep/platform/link/rights.h"

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/kinds.h"
#include "lockstep/wire/native/role_names.h"

namespace lockstep::link {
namespace {

using wire::native::NamedRole;
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

// Calls `visit` with the type of the request, if it is one of these.
template <class... Messages, class Visit>
bool VisitOneOf(Requests<Messages...>, RequestKind kind, const Visit& visit) {
  const auto look = [&]<class Message>(std::type_identity<Message> type) {
    if (wire::native::KindOf<Message>::kKind != kind) return false;
    visit(type);
    return true;
  };
  return (look(std::type_identity<Messages>()) || ...);
}

// The same, of all that a server answers.
template <class Visit>
bool VisitRequest(RequestKind kind, const Visit& visit) {
  return VisitOneOf(wire::native::ServerRequests(), kind, visit) ||
         VisitOneOf(wire::native::LaunchersRequests(), kind, visit) ||
         VisitOneOf(wire::native::SessionRequests(), kind, visit) ||
         VisitOneOf(wire::native::StockRequests(), kind, visit);
}

JobOrNone JobOf(RequestKind kind, std::string_view payload) {
  JobOrNone job = std::optional<std::string>();
  VisitRequest(kind, [&]<class Message>(std::type_identity<Message>) {
    if constexpr (NamesJob<Message>) job = JobIn<Message>(payload);
  });
  return job;
}

// "the role observe may not make the request DeleteJob, which needs the role operator".
std::string WrongRole(Role role, RequestKind kind) {
  std::string name = absl::StrCat("of kind ", kind);
  VisitRequest(kind, [&]<class Message>(std::type_identity<Message>) {
    name = Message::kName.substr(Message::kName.rfind('.') + 1);
  });
  const char* own = "nobody";
  std::vector<const char*> needed;
  for (const NamedRole& named : wire::native::kNamedRoles) {
    if (named.role == role) own = named.name;
    if (named.role == Role::kOperate || wire::native::MayAsk(named.role, kind)) {
      needed.push_back(named.name);
    }
  }
  return absl::StrCat("the role ", own, " may not make the request ", name,
                      ", which needs the role ", absl::StrJoin(needed, " or "));
}

absl::Status NotPermitted(std::string text) {
  return wire::native::WithReason(absl::PermissionDeniedError(std::move(text)), "not_permitted");
}

}  // namespace

absl::Status CheckRights(const Rights& rights, RequestKind kind, std::string_view payload) {
  if (rights.role != Role::kOperate && !wire::native::MayAsk(rights.role, kind)) {
    return NotPermitted(absl::StrCat(WrongRole(rights.role, kind),
                                     ": use such a token (`lockstep token create --role`)"));
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
