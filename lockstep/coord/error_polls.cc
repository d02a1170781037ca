#include "lockstep/coord/error_polls.h"

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {

void ErrorPolls::AwaitFirst(MemberIndex member, CallId registration) {
  ForgetRegistration(member);
  // A native member's session tells how its connection is.
  if (membership_.Get(member).native()) return;
  registrations_[member] = registration;
  calls_[registration] = member;
  LOCKSTEP_DCHECK(InvariantsHold());
}

void ErrorPolls::AwaitFirstAgain(Time now, MemberIndex member, CallId registration) {
  if (polls_.contains(member) || membership_.Get(member).native()) return;
  membership_.detector().ConnectionBack(now, member);
  AwaitFirst(member, registration);
}

void ErrorPolls::Poll(Time now, MemberIndex member, CallId call, const ErrorPtr& root_cause,
                      Effects& out) {
  used_ = true;
  // The attempt has failed already: there is nothing left to wait for.
  if (root_cause) return Tell(member, call, root_cause, out);
  // A new poll shows that the connection is back, whatever broke before.
  membership_.detector().ConnectionBack(now, member);
  Cancel(now, member,
         MakeError(absl::StatusCode::kCancelled, Reason::kSuperseded,
                   absl::StrCat("a new request to poll for errors came from the same task, ",
                                job_.NameWithLife(member))),
         out);
  polls_[member] = call;
  calls_[call] = member;
  membership_.detector().SetPolls(now, member, true);
  LOCKSTEP_DCHECK(InvariantsHold());
}

void ErrorPolls::Cancel(Time now, MemberIndex member, const ErrorPtr& error, Effects& out) {
  ForgetRegistration(member);
  const auto poll = polls_.find(member);
  if (poll == polls_.end()) return;
  // Before the answer: the end of this call is then no break of the connection.
  calls_.erase(poll->second);
  out.Fail(poll->second, error);
  polls_.erase(poll);
  membership_.detector().SetPolls(now, member, false);
}

// The membership goes on to count the poll as a sign of life: a member that was told is lost when
// it would have been lost, had its poll gone on.
void ErrorPolls::FailAll(const ErrorPtr& error, Effects& out) {
  for (const auto& [member, call] : polls_) {
    calls_.erase(call);
    Tell(member, call, error, out);
  }
  polls_.clear();
  LOCKSTEP_DCHECK(InvariantsHold());
}

bool ErrorPolls::Forget(Time now, const CallLeft& fact) {
  const auto found = calls_.find(fact.call);
  if (found == calls_.end()) return false;
  const MemberIndex member = found->second;
  calls_.erase(found);
  bool broke = true;
  if (registrations_.erase(member) == 0) {
    polls_.erase(member);
    // Without its poll the member has the usual time to be heard of.
    membership_.detector().SetPolls(now, member, false);
    broke = !membership_.Get(member).native();  // whose session tells how its connection is
  }
  if (!broke) return true;
  FailureDetector& detector = membership_.detector();
  switch (fact.agent) {
    case CallLeft::Agent::kConnected:
      detector.ConnectionBroke(now, member);
      break;
    case CallLeft::Agent::kAway:
      detector.ConnectionSilent(now, member);
      break;
    case CallLeft::Agent::kEnded:
      detector.ConnectionBroke(now, member, FailureDetector::Link::kAgentEnded);
      break;
  }
  LOCKSTEP_DCHECK(InvariantsHold());
  return true;
}

void ErrorPolls::AgentEnded(Time now, const std::vector<MemberIndex>& members) {
  for (const MemberIndex member : members) {
    if (!registrations_.contains(member)) continue;
    membership_.detector().ConnectionBroke(now, member, FailureDetector::Link::kAgentEnded);
  }
}

void ErrorPolls::AgentBack(Time now, const std::vector<MemberIndex>& members) {
  for (const MemberIndex member : members) {
    if (registrations_.contains(member)) membership_.detector().ConnectionBack(now, member);
  }
}

void ErrorPolls::Tell(MemberIndex member, CallId call, const ErrorPtr& error, Effects& out) {
  LOCKSTEP_DCHECK(error != nullptr);
  told_.insert(member);
  job_.changes.Touch(member);
  out.Fail(call, error);
}

void ErrorPolls::ForgetRegistration(MemberIndex member) {
  const auto registration = registrations_.find(member);
  if (registration == registrations_.end()) return;
  calls_.erase(registration->second);
  registrations_.erase(registration);
}

bool ErrorPolls::InvariantsHold() const {
  LOCKSTEP_CHECK(calls_.size() == polls_.size() + registrations_.size());
  for (const auto& [call, member] : calls_) {
    const auto poll = polls_.find(member);
    const auto registration = registrations_.find(member);
    LOCKSTEP_CHECK((poll == polls_.end()) != (registration == registrations_.end()));
    LOCKSTEP_CHECK((poll != polls_.end() ? poll : registration)->second == call);
  }
  return true;
}

}  // namespace lockstep::coord
