#include "lockstep/coord/agreement_errors.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {
namespace {

ErrorPtr AgreementError(BarrierRef agreement, absl::StatusCode code, Reason reason,
                        std::string text, std::string missing = "") {
  return MakeError(Error{.code = code,
                         .reason = reason,
                         .message = std::move(text),
                         .barrier = std::move(agreement),
                         .missing = std::move(missing)});
}

std::string NameOf(const BarrierRef& agreement) {
  return NameOfAgreement(agreement.id, agreement.counter);
}
std::string NameOf(const AgreeOnIndex& request) {
  return NameOfAgreement(request.name, request.counter);
}

}  // namespace

std::string NameOfAgreement(absl::string_view name, int64_t counter) {
  return absl::StrCat("agreement '", name, "::", counter, "'");
}

ErrorPtr AgreementErrors::OfRequest(const AgreeOnIndex& request) const {
  const CoordinatorOptions& options = job_.options;
  // The length comes first: the texts below have the name in them.
  if (request.name.size() > options.barrier_id_bytes_max) {
    return MakeError(absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
                     absl::StrCat("a name of ", request.name.size(),
                                  " bytes for an agreement is over barrier_id_bytes_max (",
                                  options.barrier_id_bytes_max, "); use a shorter name"));
  }
  if (request.stride <= 0 || request.index < 0 || request.counter < 0) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, Reason::kInvalidArgument,
        absl::StrCat(NameOf(request), " is asked for index ", request.index, " and stride ",
                     request.stride,
                     "; the stride must be above zero, index and counter must not be below"));
  }
  for (MemberIndex member : request.members) {
    if (job_.IsMember(member)) continue;
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kUnknownMember,
                     absl::StrCat(NameOf(request), ": ", job_.NameWithLife(request.member),
                                  " lists ", job_.Name(member), ", but job '", options.job,
                                  "' has ", options.size, " members"));
  }
  // Without itself in the list the caller would wait for an answer that is not for it.
  if (!request.members.empty() && std::find(request.members.begin(), request.members.end(),
                                            request.member) == request.members.end()) {
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kCallerNotListed,
                     absl::StrCat(job_.NameWithLife(request.member), " asks for ", NameOf(request),
                                  ", which is of ", job_.NameSome(request.members),
                                  "; put it in the list, or leave it out"));
  }
  return nullptr;
}

ErrorPtr AgreementErrors::OfCaller(const AgreeOnIndex& request) const {
  const Membership::Member& member = membership_.Get(request.member);
  if (member.state == MemberState::kConnected) return nullptr;
  if (member.state == MemberState::kError) {
    return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kMemberFailed,
                     absl::StrCat(job_.NameWithLife(request.member),
                                  " is already in error: ", member.error->message));
  }
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      member.grace_until ? Reason::kMemberLeft : Reason::kNotRegistered,
      absl::StrCat(job_.NameWithLife(request.member), " is not in the job",
                   member.grace_until ? " any more" : " yet", "; it cannot agree on anything"));
}

ErrorPtr AgreementErrors::OfTerms(const BarrierRef& agreement, int64_t stride,
                                  const Gathering& open, const AgreeOnIndex& request,
                                  const Participants& list) const {
  const std::string who = job_.NameWithLife(request.member);
  // The counter first: another use of the name may have other terms.
  if (request.counter != agreement.counter) {
    return AgreementError(
        agreement, absl::StatusCode::kAborted, Reason::kAgreementCounterMismatch,
        absl::StrCat(NameOf(agreement), ": ", who, " came with counter ", request.counter,
                     "; one side restarted, or went on after a time-out before another had come "
                     "once: look at the first failure in the logs of both"));
  }
  if (request.stride != stride) {
    LOCKSTEP_DCHECK(open.first().has_value());  // the terms of the first are its own
    return AgreementError(
        agreement, absl::StatusCode::kInvalidArgument, Reason::kAgreementConflict,
        absl::StrCat(NameOf(agreement), " has the stride ", stride, ", as ",
                     job_.NameWithLife(*open.first()), " said, but ", who, " says ", request.stride,
                     "; ask with the same stride everywhere"));
  }
  const std::vector<MemberIndex>& expected = *open.participants();
  // By value: callers make a list each, and only that of everybody is shared.
  if (*list == expected) return nullptr;
  return AgreementError(
      agreement, absl::StatusCode::kInvalidArgument, Reason::kAgreementConflict,
      absl::StrCat(NameOf(agreement), " is of ", job_.NameSome(expected), ", but ", who, " names ",
                   list == job_.everybody ? "everybody" : job_.NameSome(*list),
                   "; ask with the same list everywhere"));
}

ErrorPtr AgreementErrors::WrongCounter(const AgreeOnIndex& request, int64_t last) const {
  return AgreementError(
      {request.name, last}, absl::StatusCode::kAborted, Reason::kAgreementCounterMismatch,
      absl::StrCat(NameOf(request), ": ", job_.NameWithLife(request.member), " came with counter ",
                   request.counter, ", the next is ", last + 1,
                   "; one of the members has likely restarted: look at the "
                   "first failure in the logs"));
}

ErrorPtr AgreementErrors::TooManyOpen(const AgreeOnIndex& request, int64_t last,
                                      size_t open) const {
  return AgreementError({request.name, last}, absl::StatusCode::kResourceExhausted,
                        Reason::kLimitExceeded,
                        absl::StrCat(open,
                                     " agreements are open, which is the limit "
                                     "open_barriers_max; wait for some to end"));
}

ErrorPtr AgreementErrors::MoreRecentCall(const BarrierRef& agreement, MemberIndex member) const {
  return AgreementError(agreement, absl::StatusCode::kCancelled, Reason::kSuperseded,
                        absl::StrCat("there's a more recent call of ", job_.NameWithLife(member),
                                     " for ", NameOf(agreement)));
}

ErrorPtr AgreementErrors::Overflow(const BarrierRef& agreement, int64_t stride,
                                   int64_t index) const {
  LOCKSTEP_DCHECK(index >= 0 && stride > 0 && index % stride != 0);  // else it is a multiple itself
  return AgreementError(
      agreement, absl::StatusCode::kOutOfRange, Reason::kNumberOverflow,
      absl::StrCat(NameOf(agreement), ": the next multiple of ", stride, " after index ", index,
                   " does not fit in 64 bits; use a smaller stride"));
}

ErrorPtr AgreementErrors::TimedOut(Time now, const BarrierRef& agreement,
                                   const Gathering& open) const {
  LOCKSTEP_DCHECK(now >= open.deadline());
  // Who is not connected is not awaited, and so not to blame.
  std::vector<MemberIndex> awaited = open.Awaited();
  std::erase_if(awaited, [this](MemberIndex member) {
    return membership_.Get(member).state != MemberState::kConnected;
  });
  return AgreementError(
      agreement, absl::StatusCode::kDeadlineExceeded, Reason::kAgreementTimedOut,
      absl::StrCat("Agreement timed out: ", NameOf(agreement), " after ",
                   FormatSpan(now - open.opened()), " with ", open.arrived(), "/", open.size(),
                   " members; the first was ",
                   open.first() ? job_.NameWithLife(*open.first()) : "nobody", "; missing ",
                   DescribeMissing(now, job_, membership_, awaited),
                   "; look at what the missing do, or give the agreement more time"),
      job_.ListNames(awaited));
}

}  // namespace lockstep::coord
