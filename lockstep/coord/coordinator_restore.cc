// How a coordinator is remembered beyond its own death: what its records do to it, and which ones
// make it again.
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
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
  LOCKSTEP_DCHECK(session.seat.has_value());
  const Seat& seat = *session.seat;
  record::MemberChanged was{.member = seat.member,
                            .incarnation = seat.incarnation,
                            .life = 1,
                            .left = true,
                            .session = session.id};
  // The number is known as long as the job remembers the life; else 1 stands in for it.
  for (const record::MemberChanged& life : job.lives.RecordsOf(seat.member)) {
    if (life.incarnation == seat.incarnation) was.life = life.life;
  }
  return was;
}

// What the job still knows of attempts that are over: which lives its members had, which sessions
// were members, and how the last one went.
void SnapshotOldAttempts(const JobRecord& job, const Attempt& current, const SessionTable& sessions,
                         std::vector<TimedRecord>& records) {
  struct Old {
    ServiceIncarnation service;
    std::vector<const SessionTable::Session*> sessions;
  };
  // In order: a replay accepts attempts whose numbers go up.
  std::map<int64_t, Old> attempts;
  if (job.former) attempts[job.former->attempt].service = job.former->service;
  for (const auto* session : sessions.All()) {
    // Sessions of the current attempt follow with its members.
    if (!session->seat || session->seat->attempt == job.attempt) continue;
    Old& old = attempts[session->seat->attempt];
    old.service = session->seat->service;
    old.sessions.push_back(session);
  }
  LOCKSTEP_DCHECK(attempts.empty() || attempts.rbegin()->first < job.attempt);
  // Lives of earlier attempts go with the first of these: only their order counts.
  bool first = true;
  for (const auto& [attempt, old] : attempts) {
    records.push_back({Time(), record::AttemptBegan{attempt, old.service}});
    for (int32_t i = 0; first && i < job.options.size; ++i) {
      std::vector<record::MemberChanged> lives = job.lives.RecordsOf(MemberIndex(i));
      // The newest ones are the current attempt's, and its members record them.
      const size_t here = current.membership().lives().CountHere(MemberIndex(i));
      LOCKSTEP_DCHECK(here <= lives.size());
      for (size_t k = 0; k + here < lives.size(); ++k) {
        records.push_back({Time(), std::move(lives[k])});
      }
    }
    first = false;
    for (const auto* session : old.sessions) {
      records.push_back({Time(), WasMember(job, *session)});
    }
    // Behind its members: the next attempt takes it over as how this one went.
    if (job.former && job.former->attempt == attempt && job.former->root_cause) {
      records.push_back({Time(), record::AttemptFailed{job.former->root_cause}});
    }
  }
}

}  // namespace

absl::Status Coordinator::Apply(Time at, const Record& record) {
  // Sessions outlive attempts, so they may begin before the first one.
  if (!attempts_.recorded() && !std::holds_alternative<record::AttemptBegan>(record) &&
      !std::holds_alternative<record::SessionChanged>(record)) {
    return OutOfPlace("no attempt has begun");
  }
  return std::visit(
      Overloaded{[&](const record::AttemptBegan& r) { return attempts_.Apply(r); },
                 [&](const record::MemberChanged& r) { return ApplyMember(at, r); },
                 [&](const record::ProcessChanged& r) {
                   if (!job_->IsMember(r.member)) {
                     return OutOfPlace(absl::StrCat("process of member ", r.member.value()));
                   }
                   job_->processes.Restore(at, r);
                   return absl::OkStatus();
                 },
                 [&](const record::ErrorKept& r) {
                   job_->changes.KeepError({.at = at,
                                            .code = r.code,
                                            .reason = r.reason,
                                            .message = r.message,
                                            .origin = r.origin,
                                            .consequence = r.consequence,
                                            .attempt = r.attempt});
                   return absl::OkStatus();
                 },
                 [&](const record::SessionChanged& r) {
                   sessions_.Apply(at, r);
                   return absl::OkStatus();
                 },
                 [&](const record::AnswerKept& r) {
                   return sessions_.Apply(r)
                              ? absl::OkStatus()
                              : OutOfPlace("an answer of a session that did not begin");
                 },
                 [&](const auto& r) { return attempts_.current().Apply(at, r); }},
      record);
}

absl::Status Coordinator::ApplyMember(Time at, const record::MemberChanged& record) {
  if (!job_->IsMember(record.member)) {
    return OutOfPlace(absl::StrCat("member ", record.member.value(), " of a job of ",
                                   job_->options.size,
                                   "; was the job started with another size before?"));
  }
  // After the check: members are looked up by index.
  const Membership::Member& known = attempts_.current().membership().Get(record.member);
  // A former life says nothing of the member as it is; its session still gets its seat.
  const bool former = record.life != 0 && record.life < job_->lives.Count(record.member);
  // As WasMember says it: who leaves does so in the session that it is in.
  const bool elsewhere = record.left && known.ever_registered &&
                         known.incarnation == record.incarnation && known.session != record.session;
  if (!former && !elsewhere) {
    if (absl::Status applied = attempts_.current().Apply(at, record); !applied.ok()) return applied;
  }
  sessions_.Apply(record);
  return absl::OkStatus();
}

std::vector<TimedRecord> Coordinator::Snapshot() const {
  std::vector<TimedRecord> records;
  // Nothing has happened that a replay could follow.
  if (!attempts_.recorded()) return records;
  const std::vector<const SessionTable::Session*> sessions = sessions_.table().All();
  // First: members and answers refer to sessions that have begun.
  for (const auto* session : sessions) SessionTable::SnapshotSession(*session, records);
  // Before the current attempt, which a replay opens in their place.
  SnapshotOldAttempts(*job_, attempts_.current(), sessions_.table(), records);
  records.push_back({Time(), record::AttemptBegan{job_->attempt, attempts_.current().service()}});
  attempts_.current().Snapshot(records);
  for (const auto* session : sessions) {
    if (!session->seat || session->seat->attempt != job_->attempt) continue;
    // The member's own record gives this session its seat.
    if (attempts_.current().membership().Get(session->seat->member).session == session->id)
      continue;
    records.push_back({Time(), WasMember(*job_, *session)});
  }
  // Behind the attempts: the begin of each changes what is said of processes.
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
  // Last: an answer needs its session, and nothing needs an answer.
  for (const auto* session : sessions) SessionTable::SnapshotAnswers(*session, records);
  return records;
}

}  // namespace lockstep::coord
