// How a coordinator is remembered beyond its own death: what its records do to it, and which ones
// make it again.
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/limits.h"
#include "lockstep/coord/coordinator.h"

namespace lockstep::coord {
namespace {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

absl::Status OutOfPlace(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("a record out of place: ", what));
}

// Says only that the session was this member, in a life that is over or goes on in another session.
record::MemberChanged WasMember(const JobRecord& job, const SessionTable::Session& session) {
  const Seat& seat = *session.seat;
  record::MemberChanged was{.member = seat.member,
                            .incarnation = seat.incarnation,
                            .life = 1,
                            .left = true,
                            .session = session.id};
  for (const record::MemberChanged& life : job.lives.RecordsOf(seat.member)) {
    if (life.incarnation == seat.incarnation) was.life = life.life;
  }
  return was;
}

}  // namespace

absl::Status Coordinator::Apply(Time at, const Record& record) {
  if (!begun_ && !std::holds_alternative<record::AttemptBegan>(record) &&
      !std::holds_alternative<record::SessionChanged>(record)) {
    return OutOfPlace("no attempt has begun");
  }
  return std::visit(
      Overloaded{[&](const record::AttemptBegan& r) { return ApplyAttempt(r); },
                 [&](const record::MemberChanged& r) { return ApplyMember(at, r); },
                 [&](const record::ProcessChanged& r) {
                   if (!job_->IsMember(r.member)) {
                     return OutOfPlace(absl::StrCat("process of member ", r.member.value()));
                   }
                   job_->processes.Restore(at, r);
                   return absl::OkStatus();
                 },
                 [&](const record::ErrorKept& r) {
                   ApplyError(at, r);
                   return absl::OkStatus();
                 },
                 [&](const record::SessionChanged& r) {
                   sessions_.Restore(at, r);
                   return absl::OkStatus();
                 },
                 [&](const record::AnswerKept& r) {
                   return sessions_.Restore(r)
                              ? absl::OkStatus()
                              : OutOfPlace("an answer of a session that did not begin");
                 },
                 [&](const auto& r) { return attempt_->Apply(at, r); }},
      record);
}

absl::Status Coordinator::ApplyAttempt(const record::AttemptBegan& record) {
  if (begun_ && record.attempt <= job_->attempt) {
    return OutOfPlace(absl::StrCat("attempt ", record.attempt, " after attempt ", job_->attempt));
  }
  if (record.attempt < 0 || record.attempt > kAttemptMax) {
    return OutOfPlace(absl::StrCat("attempt ", record.attempt, " is over attempt_max (",
                                   kAttemptMax, "), so no attempt can follow it"));
  }
  const int64_t revision = begun_ ? attempt_->keys().table().revision() + 1 : 1;
  if (begun_) job_->former = {job_->attempt, attempt_->service(), attempt_->root_cause()};
  begun_ = true;
  job_->attempt = record.attempt;
  job_->BeginAttempt();
  attempt_ = std::make_unique<Attempt>(*job_, record.service, revision);
  return absl::OkStatus();
}

absl::Status Coordinator::ApplyMember(Time at, const record::MemberChanged& record) {
  if (!job_->IsMember(record.member)) {
    return OutOfPlace(absl::StrCat("member ", record.member.value(), " of a job of ",
                                   job_->options.size,
                                   "; was the job started with another size before?"));
  }
  const Membership::Member& known = attempt_->membership().Get(record.member);
  const bool former = record.life != 0 && record.life < job_->lives.Count(record.member);
  // As WasMember says it: who leaves does so in the session that it is in.
  const bool elsewhere = record.left && known.ever_registered &&
                         known.incarnation == record.incarnation && known.session != record.session;
  if (!former && !elsewhere) {
    if (absl::Status applied = attempt_->Apply(at, record); !applied.ok()) return applied;
  }
  if (record.state == MemberState::kConnected || record.left) {
    sessions_.Sit(record.session,
                  {record.member, record.incarnation, job_->attempt, attempt_->service()});
  }
  return absl::OkStatus();
}

void Coordinator::ApplyError(Time at, const record::ErrorKept& record) {
  job_->changes.KeepError({.at = at,
                           .code = record.code,
                           .reason = record.reason,
                           .message = record.message,
                           .origin = record.origin,
                           .consequence = record.consequence,
                           .attempt = record.attempt});
}

std::vector<TimedRecord> Coordinator::Snapshot() const {
  std::vector<TimedRecord> records;
  if (!begun_) return records;
  const std::vector<const SessionTable::Session*> sessions = sessions_.All();
  for (const auto* session : sessions) SessionTable::SnapshotSession(*session, records);
  SnapshotOldAttempts(records);
  records.push_back({Time(), record::AttemptBegan{job_->attempt, attempt_->service()}});
  attempt_->Snapshot(records);
  for (const auto* session : sessions) {
    if (!session->seat || session->seat->attempt != job_->attempt) continue;
    if (attempt_->membership().Get(session->seat->member).session == session->id) continue;
    records.push_back({Time(), WasMember(*job_, *session)});
  }
  for (int32_t i = 0; i < job_->options.size; ++i) {
    const ProcessRecord& process = job_->processes[i];
    if (process.pid == 0 && !process.left_out) continue;
    records.push_back({process.since, job_->processes.RecordOf(MemberIndex(i))});
  }
  for (const auto& [version, error] : job_->changes.errors()) {
    records.push_back({error.at, record::ErrorKept{.code = error.code,
                                                   .reason = error.reason,
                                                   .message = error.message,
                                                   .origin = error.origin,
                                                   .consequence = error.consequence,
                                                   .attempt = error.attempt}});
  }
  for (const auto* session : sessions) SessionTable::SnapshotAnswers(*session, records);
  return records;
}

// What the job still knows of attempts that are over: which lives its members had, which sessions
// were members, and how the last one went.
void Coordinator::SnapshotOldAttempts(std::vector<TimedRecord>& records) const {
  struct Old {
    ServiceIncarnation service;
    std::vector<const SessionTable::Session*> sessions;
  };
  std::map<int64_t, Old> attempts;
  if (job_->former) attempts[job_->former->attempt].service = job_->former->service;
  for (const auto* session : sessions_.All()) {
    if (!session->seat || session->seat->attempt == job_->attempt) continue;
    Old& old = attempts[session->seat->attempt];
    old.service = session->seat->service;
    old.sessions.push_back(session);
  }
  bool first = true;
  for (const auto& [attempt, old] : attempts) {
    records.push_back({Time(), record::AttemptBegan{attempt, old.service}});
    for (int32_t i = 0; first && i < job_->options.size; ++i) {
      std::vector<record::MemberChanged> lives = job_->lives.RecordsOf(MemberIndex(i));
      const size_t here = attempt_->membership().lives().CountHere(MemberIndex(i));
      for (size_t k = 0; k + here < lives.size(); ++k) {
        records.push_back({Time(), std::move(lives[k])});
      }
    }
    first = false;
    for (const auto* session : old.sessions) {
      records.push_back({Time(), WasMember(*job_, *session)});
    }
    if (job_->former && job_->former->attempt == attempt && job_->former->root_cause) {
      records.push_back({Time(), record::AttemptFailed{job_->former->root_cause}});
    }
  }
}

}  // namespace lockstep::coord
