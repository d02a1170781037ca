// What only native clients ask of an attempt, or tell it, and how an attempt is restored.
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lockstep/coord/attempt.h"

namespace lockstep::coord {

Answer Attempt::LetIn(MemberIndex member) const {
  if (!membership_.Get(member).native()) return Registered{service_};
  const RoleRecord& role = job_.RoleOf(member);
  return Joined{.member = member,
                .role = role.name,
                .index = member.value() - role.first,
                .name = job_.NameWithLife(member),
                .service = service_,
                .attempt = job_.attempt,
                .size = job_.options.size,
                .recoverable = job_.Recoverable(member)};
}

void Attempt::Handle(Time now, MemberIndex member, const ReportProgress& request, Effects& out) {
  const CallId call = request.caller.call;
  if (ErrorPtr refusal = CheckIn(now, member)) return out.Fail(call, refusal);
  if (request.phase.size() > job_.options.label_bytes_max) {
    return out.Fail(
        call, MakeError(absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
                        absl::StrCat(
                            "a phase of ", request.phase.size(), " bytes is over label_bytes_max (",
                            job_.options.label_bytes_max, "); say it in one or two words")));
  }
  membership_.Heard(now, member);
  membership_.NoteProgress(member, request.step, request.phase);
  out.Succeed(call);
}

void Attempt::Handle(Time now, const GetMemberStates& request, Effects& out) {
  NoteLife(now, request.caller);
  auto members = std::make_shared<std::vector<MemberStatus>>();
  members->reserve(request.members.size());
  for (MemberIndex index : request.members) {
    if (!CheckMember(index, request.caller.call, out)) return;
    const Membership::Member& member = membership_.Get(index);
    members->push_back({index, member.incarnation, member.state, member.error});
  }
  out.Succeed(request.caller.call, MembersWatched{std::move(members), membership_.version()});
}

void Attempt::SessionBroke(Time now, MemberIndex member, bool silent) {
  if (silent) return membership_.ConnectionSilent(now, member);
  membership_.ConnectionBroke(now, member);
}

void Attempt::SessionBack(Time now, MemberIndex member) {
  membership_.ConnectionBack(now, member);
  membership_.Heard(now, member);
}

void Attempt::SessionClosed(Time now, MemberIndex member, Effects& out) {
  const ErrorPtr error = MakeError(Error{
      .code = absl::StatusCode::kUnavailable,
      .reason = Reason::kConnectionLost,
      .message = absl::StrCat(job_.Describe(member),
                              " was lost: it closed its session without leaving the job; if it had "
                              "finished, let it leave first, else look at the end of its log"),
      .origin = member});
  if (registration_.MemberEnded(now, member, error, out)) return;
  if (membership_.Get(member).state != MemberState::kConnected) return;
  Fail(now, {{member, now, error}}, out);
}

void Attempt::Settle(Time now, Effects& out) {
  SettlePreemption(now, out);
  RecordMembers(out);
  health_.Tell(now, failed() || ended(), out);
  watch_.Flush(now, out);
}

void Attempt::RecordMembers(Effects& out) {
  for (MemberIndex member : membership_.TakeChanged()) {
    out.records.push_back(membership_.RecordOf(member));
  }
}

absl::Status Attempt::Apply(Time at, const record::AttemptRuns& record) {
  registration_.Apply(at, record);
  return absl::OkStatus();
}

absl::Status Attempt::Apply(Time, const record::AttemptFailed& record) {
  root_cause_ = record.root_cause;
  return absl::OkStatus();
}

absl::Status Attempt::Apply(Time, const record::ShutdownEnded& record) {
  shutdown_.Apply(record);
  return absl::OkStatus();
}

absl::Status Attempt::Apply(Time at, const record::MemberChanged& record) {
  registration_.RestoreBegun(at);
  if (!record.role.empty()) job_.SettleRole(record.role);
  membership_.Restore(at, record);
  if (record.state == MemberState::kConnected) job_.SomebodyJoined();
  return absl::OkStatus();
}

absl::Status Attempt::Apply(Time at, const record::KeySet& record) {
  return keys_.Apply(at, record);
}
absl::Status Attempt::Apply(Time at, const record::KeyDeleted& record) {
  return keys_.Apply(at, record);
}
absl::Status Attempt::Apply(Time, const record::OwnerGone& record) {
  keys_.Apply(record);
  return absl::OkStatus();
}
absl::Status Attempt::Apply(Time at, const record::BarrierEnded& record) {
  return barriers_.Apply(at, record);
}
absl::Status Attempt::Apply(Time at, const record::IndexAgreed& record) {
  return agreements_.Apply(at, record);
}
absl::Status Attempt::Apply(Time at, const record::PreemptionChanged& record) {
  return preemption_.Apply(at, record);
}
absl::Status Attempt::Apply(Time at, const record::SyncMemberChanged& record) {
  return preemption_.Apply(at, record);
}

void Attempt::Restored(Time now, int64_t version, Effects& out) {
  membership_.Restored(now, version);
  health_.Restored(out);
  polls_.Restored();
  preemption_.Restored(now, out);
}

void Attempt::Snapshot(std::vector<TimedRecord>& records) const {
  for (int32_t i = 0; i < membership_.size(); ++i) {
    const MemberIndex index(i);
    const Membership::Member& member = membership_.Get(index);
    if (!member.ever_registered && member.state == MemberState::kDisconnected) continue;
    std::vector<record::MemberChanged> former = job_.KeptLives(index);
    const size_t here = membership_.LivesHere(index);
    for (size_t k = former.size() - here; k + 1 < former.size(); ++k) {
      records.push_back({member.since, std::move(former[k])});
    }
    record::MemberChanged now_is = membership_.RecordOf(index);
    if (member.state == MemberState::kError && member.was_in) {
      // Of one that failed nobody sees whether it was in before.
      record::MemberChanged was = now_is;
      was.state = MemberState::kConnected;
      was.error = nullptr;
      records.push_back({member.since, std::move(was)});
    }
    records.push_back({member.since, std::move(now_is)});
  }
  registration_.Snapshot(records);
  if (root_cause_) records.push_back({Time(), record::AttemptFailed{root_cause_}});
  shutdown_.Snapshot(records);
  keys_.Snapshot(records);
  barriers_.Snapshot(records);
  agreements_.Snapshot(records);
  preemption_.Snapshot(records);
}

}  // namespace lockstep::coord
