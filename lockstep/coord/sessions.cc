#include "lockstep/coord/sessions.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/coord/job_record.h"

namespace lockstep::coord {
namespace {

// Of `who` and `peer`, which are for people.
constexpr size_t kNameBytesKept = 256;

size_t CostOf(const record::AnswerKept& kept) { return sizeof(kept) + 64 + kept.key.size(); }

}  // namespace

ErrorPtr SessionTable::Open(Time now, const OpenSession& request, bool* resumed, Effects& out) {
  if (request.session.none()) {
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kInvalidArgument,
                     "a session id of zeros: choose 16 random bytes");
  }
  Session* session = Find(request.session);
  *resumed = session != nullptr;
  // Only a session that is new takes memory, so only that can be refused.
  if (session == nullptr) {
    // Before the limit: a client that resumes must learn that its requests are in doubt.
    if (request.resume) {
      return MakeError(
          absl::StatusCode::kNotFound, Reason::kUnknownSession,
          absl::StrCat("job '", options_.job, "' does not know this session, or not any more: ",
                       "sessions without a member are forgotten ",
                       FormatSpan(options_.session_timeout),
                       " after their link broke, and a server without its state forgets all; "
                       "nobody can say which of the open requests took effect, so begin a new "
                       "session and join again"));
    }
    if (sessions_.size() >= options_.sessions_max) {
      return MakeError(absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
                       absl::StrCat("job '", options_.job, "' has ", sessions_.size(),
                                    " sessions, which is the limit sessions_max; close some, or "
                                    "look who opens them"));
    }
    session = &Add(now, request.session);
    // Ahead of all that the session does (2).
    out.records.push_back(record::SessionChanged{.session = request.session, .open = true});
  }
  session->linked = true;
  session->who = request.who.substr(0, kNameBytesKept);
  session->peer = request.peer.substr(0, kNameBytesKept);
  // It does not expire while it has a link.
  SetExpiry(*session, std::nullopt);
  return nullptr;
}

SessionTable::Session& SessionTable::Add(Time at, SessionId id) {
  auto& session = sessions_[id];
  LOCKSTEP_DCHECK(session == nullptr);  // it is opened once
  session = std::make_unique<Session>();
  session->id = id;
  session->opened = at;
  return *session;
}

SessionTable::Session* SessionTable::Find(SessionId id) {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.get();
}

void SessionTable::SetExpiry(Session& session, std::optional<Time> when) {
  // A session has one place at most, and none while it is linked.
  if (session.expires) expiries_.erase({*session.expires, session.id});
  session.expires = when;
  if (when) expiries_.emplace(*when, session.id);
}

void SessionTable::Broke(Time now, Session& session) {
  // Its time counts from the first word of it.
  if (!session.linked) return;
  LOCKSTEP_DCHECK(!session.expires);  // a linked session does not
  session.linked = false;
  SetExpiry(session, now + options_.session_timeout);
}

void SessionTable::AnsweredThrough(Session& session, uint64_t number) {
  // A word that was held up: what it says was said before.
  if (number <= session.answered_through) return;
  session.answered_through = number;
  Drop(session, number);
}

void SessionTable::Drop(Session& session, uint64_t through) {
  const auto end = session.kept.upper_bound(through);
  for (auto it = session.kept.begin(); it != end; ++it) {
    LOCKSTEP_DCHECK(kept_bytes_ >= CostOf(it->second));
    kept_bytes_ -= CostOf(it->second);
  }
  session.kept.erase(session.kept.begin(), end);
}

void SessionTable::Close(SessionId id, Effects& out) {
  const auto found = sessions_.find(id);
  LOCKSTEP_CHECK(found != sessions_.end());
  // The tables first, which name the session; then its answers, which are counted.
  SetExpiry(*found->second, std::nullopt);
  Drop(*found->second, std::numeric_limits<uint64_t>::max());
  sessions_.erase(found);
  out.records.push_back(record::SessionChanged{.session = id, .open = false});
}

void SessionTable::Sit(SessionId id, const Seat& seat) {
  Session* session = Find(id);
  if (session == nullptr) return;  // it was closed while it waited to be let in
  session->seat = seat;
  session->asks = seat.member;
}

ErrorPtr SessionTable::CheckKeep(const Session& session, uint64_t number) const {
  // Whether it was carried out cannot be told any more, and it must not be done twice.
  if (number != 0 && number <= session.answered_through) {
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kInvalidArgument,
                     absl::StrCat("request ", number, " comes after its client said that it has ",
                                  "all answers up to ", session.answered_through,
                                  ": its answer is not kept any more, and it is not carried out "
                                  "twice; give each request a number of its own"));
  }
  // Before the request runs: an effect without a kept answer could happen twice.
  if (session.kept.size() < options_.kept_answers_max) return nullptr;
  return MakeError(absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
                   absl::StrCat(session.kept.size(),
                                " answers are kept for this session, which is "
                                "the limit kept_answers_max; its client has to say which it has "
                                "(`answered`); nothing was changed"));
}

ErrorPtr SessionTable::CheckNumber(const Session& session, uint64_t number) const {
  if (Kept(session, number) == nullptr) return nullptr;
  return MakeError(absl::StatusCode::kInvalidArgument, Reason::kInvalidArgument,
                   absl::StrCat("request ", number,
                                " of this session was another one, whose answer is kept: give each "
                                "request a number of its own"));
}

const record::AnswerKept* SessionTable::Kept(const Session& session, uint64_t number) const {
  // Not numbered: it is carried out again.
  if (number == 0) return nullptr;
  const auto kept = session.kept.find(number);
  return kept == session.kept.end() ? nullptr : &kept->second;
}

void SessionTable::Keep(Session& session, record::AnswerKept&& answer, Effects& out) {
  LOCKSTEP_DCHECK(answer.number > session.answered_through);  // else it is dropped at once
  // With the record, so that a replay drops what was dropped here.
  answer.through = session.answered_through;
  out.records.push_back(answer);
  Insert(session, std::move(answer));
}

void SessionTable::Insert(Session& session, record::AnswerKept&& answer) {
  // Answers that the client has are dropped first, so that the limit counts what it lacks.
  AnsweredThrough(session, answer.through);
  const auto [place, added] = session.kept.try_emplace(answer.number);
  // A replay may bring a number again, by a snapshot and by a later entry.
  if (!added) kept_bytes_ -= CostOf(place->second);
  kept_bytes_ += CostOf(answer);
  place->second = std::move(answer);
  // Only in a replay: live, what is over the limit was refused.
  while (session.kept.size() > options_.kept_answers_max) {
    Drop(session, session.kept.begin()->first);
  }
}

void SessionTable::Restore(Time at, const record::SessionChanged& record) {
  Effects nothing;
  const bool known = Find(record.session) != nullptr;
  // A snapshot may repeat what an entry said.
  if (record.open && !known) {
    Add(at, record.session);
  } else if (!record.open && known) {
    Close(record.session, nothing);
  }
}

bool SessionTable::Restore(const record::AnswerKept& record) {
  Session* session = Find(record.session);
  // Not an answer to drop silently: its effect could be repeated.
  if (session == nullptr) return false;
  Insert(*session, record::AnswerKept(record));
  return true;
}

void SessionTable::Restored(Time now) {
  for (const Session* each : All()) {
    Session& session = *Find(each->id);
    // No link outlives a server: each has the usual time to come back.
    session.linked = false;
    SetExpiry(session, now + options_.session_timeout);
  }
}

std::vector<const SessionTable::Session*> SessionTable::All() const {
  std::vector<const Session*> all;
  all.reserve(sessions_.size());
  for (const auto& [id, session] : sessions_) all.push_back(session.get());
  // The table has no order, and effects must not depend on how it lies.
  std::sort(all.begin(), all.end(),
            [](const Session* a, const Session* b) { return a->id < b->id; });
  return all;
}

void SessionTable::SnapshotSession(const Session& session, std::vector<TimedRecord>& records) {
  records.push_back({session.opened, record::SessionChanged{.session = session.id, .open = true}});
}

void SessionTable::SnapshotAnswers(const Session& session, std::vector<TimedRecord>& records) {
  for (const auto& [number, answer] : session.kept) {
    record::AnswerKept kept = answer;
    kept.through = session.answered_through;
    records.push_back({session.opened, std::move(kept)});
  }
}

}  // namespace lockstep::coord
