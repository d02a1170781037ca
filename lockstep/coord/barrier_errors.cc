#include "lockstep/coord/barrier_errors.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {
namespace {

ErrorPtr BarrierError(const BarrierRef& barrier, absl::StatusCode code, Reason reason,
                      std::string text, std::string missing = "") {
  return MakeError(Error{.code = code,
                         .reason = reason,
                         .message = std::move(text),
                         .barrier = barrier,
                         .missing = std::move(missing)});
}

ErrorPtr OverLimit(absl::string_view what, absl::string_view limit, size_t value,
                   absl::string_view advice) {
  return MakeError(absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
                   absl::StrCat(what, " is over ", limit, " (", value, "); ", advice));
}

// `2/3 members; missing task/1#1`
std::string Progress(const JobRecord& job, const Gathering& open) {
  return absl::StrCat(open.arrived(), "/", open.size(), " members; missing ",
                      job.NameSome(open.Awaited()));
}

}  // namespace

std::string NameOfInstance(absl::string_view id, int64_t counter) {
  return absl::StrCat("barrier '", id, "::", counter, "'");
}

ErrorPtr BarrierErrors::OfSizes(const ArriveAtBarrier& request,
                                std::optional<size_t> brought) const {
  const CoordinatorOptions& options = job_.options;
  // Stock services take an empty one, so stock clients may.
  if (request.id.empty() && request.caller.native()) {
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kInvalidArgument,
                     "a barrier has a name: all who meet there call it the same");
  }
  if (request.id.size() > options.barrier_id_bytes_max) {
    return OverLimit(absl::StrCat("a barrier id of ", request.id.size(), " bytes"),
                     "barrier_id_bytes_max", options.barrier_id_bytes_max, "use a shorter id");
  }
  if (!request.value) return nullptr;
  const std::string name = NameOfInstance(request.id, request.counter);
  if (request.value->size() > options.barrier_value_bytes_max) {
    return OverLimit(absl::StrCat("a value of ", request.value->size(), " bytes for ", name),
                     "barrier_value_bytes_max", options.barrier_value_bytes_max,
                     "put it under a key instead");
  }
  if (!brought || *brought + request.value->size() <= options.barrier_values_bytes_max) {
    return nullptr;
  }
  return OverLimit(
      absl::StrCat("what the members bring to ", name, ", with the ", request.value->size(),
                   " bytes of ", job_.NameWithLife(request.member), ","),
      "barrier_values_bytes_max", options.barrier_values_bytes_max,
      "put large values under keys instead");
}

ErrorPtr BarrierErrors::OfUnknownMembers(const BarrierRef& barrier,
                                         const ArriveAtBarrier& request) const {
  for (MemberIndex member : request.members) {
    if (job_.IsMember(member)) continue;
    return BarrierError(
        barrier, absl::StatusCode::kInvalidArgument, Reason::kBarrierUnknownMember,
        absl::StrCat(NameOfInstance(barrier), ": ", job_.NameWithLife(request.member),
                     " lists an unexpected task, ", job_.Name(member),
                     ", that is not in the cluster; job '", job_.options.job, "' has ",
                     job_.options.size, " members"));
  }
  return nullptr;
}

ErrorPtr BarrierErrors::OfMembers(const BarrierRef& barrier, const Participants& participants,
                                  const ArriveAtBarrier& request) const {
  const std::vector<MemberIndex>& expected = *participants;
  // Sorting the caller's list is dear, so it is done only when the list is not sorted already.
  const bool same = request.members.empty() ? expected.size() == job_.everybody->size()
                                            : request.members == expected ||
                                                  *MakeParticipants(request.members) == expected;
  if (same) return OfListed(barrier, participants, request.member);
  return BarrierError(
      barrier, absl::StatusCode::kInvalidArgument, Reason::kBarrierConflictingMembers,
      absl::StrCat(
          "Conflicting tasks specified by different processes for the same barrier: ",
          NameOfInstance(barrier), " waits for ", job_.NameSome(expected), ", but ",
          job_.NameWithLife(request.member), " names ",
          request.members.empty() ? "everybody" : job_.NameSome(*MakeParticipants(request.members)),
          "; call it with the same list everywhere"));
}

ErrorPtr BarrierErrors::OfListed(const BarrierRef& barrier, const Participants& participants,
                                 MemberIndex member) const {
  if (std::binary_search(participants->begin(), participants->end(), member)) return nullptr;
  return BarrierError(
      barrier, absl::StatusCode::kInvalidArgument, Reason::kBarrierNotParticipant,
      absl::StrCat("A non-participating task (", job_.NameWithLife(member), ") called ",
                   NameOfInstance(barrier), ", which is of ", job_.NameSome(*participants)));
}

ErrorPtr BarrierErrors::OfHealth(const BarrierRef& barrier,
                                 const Participants& participants) const {
  // The usual case, without a look at each participant.
  if (membership_.failed() == 0) return nullptr;
  for (MemberIndex member : *participants) {
    const Membership::Member& m = membership_.Get(member);
    // A recoverable member may come back, so the others wait for it.
    if (m.state != MemberState::kError || job_.Recoverable(member)) continue;
    return BarrierError(
        barrier, absl::StatusCode::kInternal, Reason::kBarrierMemberFailed,
        absl::StrCat(NameOfInstance(barrier), ": ", job_.Describe(member),
                     " is already in error before the barrier was called: ", m.error->message));
  }
  return nullptr;
}

ErrorPtr BarrierErrors::TooManyOpen(const ArriveAtBarrier& request, size_t open) const {
  return BarrierError({request.id, request.counter - 1}, absl::StatusCode::kResourceExhausted,
                      Reason::kLimitExceeded,
                      absl::StrCat(open,
                                   " barriers are open, which is the limit open_barriers_max; wait "
                                   "for some to end"));
}

// Counter -1 makes the stock agent's next call the first.
ErrorPtr BarrierErrors::FirstWithWrongCounter(const ArriveAtBarrier& request) const {
  return BarrierError(
      {request.id, -1}, absl::StatusCode::kInternal, Reason::kBarrierCounterMismatch,
      absl::StrCat(NameOfInstance(request.id, request.counter), ": ",
                   job_.NameWithLife(request.member), " is the first to come, but with counter ",
                   request.counter, "; the others likely restarted; restart this member too"));
}

ErrorPtr BarrierErrors::WrongCounter(const BarrierRef& barrier,
                                     const ArriveAtBarrier& request) const {
  // A side that counts from 0 has most likely started anew.
  const bool restarted = request.counter == 0 || barrier.counter == 0;
  return BarrierError(
      barrier, absl::StatusCode::kInternal, Reason::kBarrierCounterMismatch,
      absl::StrCat(
          NameOfInstance(barrier), ": ", job_.NameWithLife(request.member), " came with counter ",
          request.counter, "; ",
          restarted ? "one of the tasks has likely restarted, or was too quick / slow"
                    : "one task is way too quick / slow: it went on after a timeout before another "
                      "had come once",
          "; look at the first failure in the logs of both"));
}

ErrorPtr BarrierErrors::ValuesForgotten(const BarrierRef& barrier) const {
  return BarrierError(barrier, absl::StatusCode::kDataLoss, Reason::kBarrierValuesForgotten,
                      absl::StrCat(NameOfInstance(barrier),
                                   " has passed, but what its members brought is not kept any "
                                   "more, to stay below kept_barrier_values_bytes_max (",
                                   job_.options.kept_barrier_values_bytes_max,
                                   "); put large values under keys instead"));
}

ErrorPtr BarrierErrors::MoreRecentCall(const BarrierRef& barrier, MemberIndex member) const {
  return MakeError(
      Error{.code = absl::StatusCode::kCancelled,
            .reason = Reason::kSuperseded,
            .message = absl::StrCat("there's a more recent barrier call of ",
                                    job_.NameWithLife(member), " for ", NameOfInstance(barrier)),
            .from_service = false});
}

ErrorPtr BarrierErrors::AlreadyOver(const BarrierRef& barrier) const {
  return BarrierError(barrier, absl::StatusCode::kFailedPrecondition, Reason::kBarrierAlreadyPassed,
                      absl::StrCat(NameOfInstance(barrier), " has already been passed, or failed"));
}

ErrorPtr BarrierErrors::WrongCounterToCancel(const CancelBarrier& request, int64_t current) const {
  return BarrierError({request.id, current}, absl::StatusCode::kFailedPrecondition,
                      Reason::kBarrierCounterMismatch,
                      absl::StrCat(NameOfInstance(request.id, *request.counter),
                                   " cannot be cancelled: the current counter is ", current,
                                   ", likely due to a restart"));
}

ErrorPtr BarrierErrors::Restarted(const BarrierRef& barrier, MemberIndex member) const {
  return BarrierError(barrier, absl::StatusCode::kCancelled, Reason::kSuperseded,
                      absl::StrCat(NameOfInstance(barrier), ": ", job_.NameWithLife(member),
                                   " failed or restarted while it waited"));
}

ErrorPtr BarrierErrors::Cancelled(const BarrierRef& barrier, const Gathering& open,
                                  MemberIndex by) const {
  return BarrierError(barrier, absl::StatusCode::kCancelled, Reason::kBarrierCancelled,
                      absl::StrCat(NameOfInstance(barrier), " was cancelled by ",
                                   job_.NameWithLife(by), " with ", Progress(job_, open)));
}

ErrorPtr BarrierErrors::ParticipantGone(const BarrierRef& barrier, const Gathering& open,
                                        const ErrorPtr& because) const {
  LOCKSTEP_DCHECK(because != nullptr && !open.complete());
  const bool left = because->reason == Reason::kMemberLeft;
  return BarrierError(barrier, absl::StatusCode::kInternal,
                      left ? Reason::kBarrierMemberLeft : Reason::kBarrierMemberFailed,
                      absl::StrCat("Barrier failed because a participant ",
                                   left ? "left: " : "is in error: ", NameOfInstance(barrier),
                                   " with ", Progress(job_, open), "; ", because->message));
}

ErrorPtr BarrierErrors::TimedOut(Time now, const BarrierRef& barrier, const Gathering& open) const {
  LOCKSTEP_DCHECK(now >= open.deadline() && !open.complete());
  const std::vector<MemberIndex> awaited = open.Awaited();
  // Stock clients look for the first three words.
  return BarrierError(barrier, absl::StatusCode::kDeadlineExceeded, Reason::kBarrierTimedOut,
                      absl::StrCat("Barrier timed out: ", NameOfInstance(barrier), " after ",
                                   FormatSpan(now - open.opened()), " with ", open.arrived(), "/",
                                   open.size(), " members; the first was ",
                                   open.first() ? job_.NameWithLife(*open.first()) : "nobody",
                                   "; missing ", DescribeMissing(now, job_, membership_, awaited),
                                   "; look at what the missing do, or give the barrier more time"),
                      job_.ListNames(awaited));
}

}  // namespace lockstep::coord
