// The conversations of native clients with one job: they outlive links and attempts. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"
#include "lockstep/coord/options.h"
#include "lockstep/coord/records.h"

namespace lockstep::coord {

// Which member a session is, or was, and in which attempt.
struct Seat {
  MemberIndex member;
  Incarnation incarnation;
  int64_t attempt = 0;
  ServiceIncarnation service;
};

// Holds who speaks, as what, and the answers that a client may ask for again.
//
//   (unknown) --open--> linked <--open / broke--> unlinked --session_timeout--> (unknown)
//                         '--------- close ---------'------------------------------'
//
// A session that is a live member's is not forgotten, since its membership is what tells whether
// the member is lost: whoever owns the table says which ones those are.
//
// Invariants: (1) a number whose answer is kept is never carried out again; (2) a session is known
// to the journal (SessionChanged) before anything of it is.
//
// Threads: thread-compatible. Bounds: sessions_max; kept_answers_max of each.
// Time: session_timeout counts from the break.
class SessionTable {
 public:
  struct Session {
    SessionId id;
    bool linked = false;
    std::string who;   // as the client calls itself
    std::string peer;  // where its link comes from
    std::optional<Seat> seat;
    std::optional<MemberIndex> asks;  // the member that it last asked to be, or is
    // The client has the answers up to here.
    uint64_t answered_through = 0;
    absl::btree_map<uint64_t, record::AnswerKept> kept;  // by number

   private:
    friend class SessionTable;
    Time opened;
    std::optional<Time> expires;
  };

  explicit SessionTable(const CoordinatorOptions& options) : options_(options) {}

  // A link wants to speak for the session. Null when it may: then it is linked, and `*resumed` says
  // whether it was known. INVALID_ARGUMENT, invalid_argument: its id is zero; NOT_FOUND,
  // unknown_session: it is to be resumed, and nothing is known of it; RESOURCE_EXHAUSTED,
  // limit_exceeded: sessions_max.
  ErrorPtr Open(Time now, const OpenSession& request, bool* resumed, Effects& out);
  // Null when there is none. Stays valid until the session is closed or expires.
  Session* Find(SessionId id);
  bool Knows(SessionId id) const { return sessions_.contains(id); }  // as `Find`
  // Its link broke: from now on it expires, unless it is linked again.
  void Broke(Time now, Session& session);
  // The client has the answers up to this number, so that they are not kept. Never back.
  void AnsweredThrough(Session& session, uint64_t number);
  // Forgets a session that is there, and records that.
  void Close(SessionId id, Effects& out);

  // The session is this member from now on.
  void Sit(SessionId id, const Seat& seat);

  // Null when the request may be carried out; it takes effect, so its answer is going to be kept.
  // INVALID_ARGUMENT, invalid_argument: the client has said that it has this number's answer;
  // RESOURCE_EXHAUSTED, limit_exceeded: kept_answers_max.
  ErrorPtr CheckKeep(const Session& session, uint64_t number) const;
  // Null when the request, which takes no effect, has a number of its own. INVALID_ARGUMENT,
  // invalid_argument: one that took effect had it.
  ErrorPtr CheckNumber(const Session& session, uint64_t number) const;
  // Null when no answer to that number is kept.
  const record::AnswerKept* Kept(const Session& session, uint64_t number) const;
  // Keeps and records it, for a client that asks again.
  void Keep(Session& session, record::AnswerKept&& answer, Effects& out);

  // Forgets those whose time is up, but for those that `lives` holds for.
  template <class Lives>
  void Expire(Time now, const Lives& lives, Effects& out) {
    while (!expiries_.empty() && expiries_.begin()->first <= now) {
      Session& session = *Find(expiries_.begin()->second);
      if (lives(session)) {
        SetExpiry(session, now + options_.session_timeout);
      } else {
        Close(session.id, out);
      }
    }
  }
  // Infinite when no session is without a link.
  Time NextDeadline() const {
    return expiries_.empty() ? Time::Infinite() : expiries_.begin()->first;
  }

  // Opens or closes it, without a record; ignores what is so already.
  void Restore(Time at, const record::SessionChanged& record);
  // False when there is no such session.
  bool Restore(const record::AnswerKept& record);
  // All records are applied: nobody is linked.
  void Restored(Time now);
  // All sessions, in the order of their ids; then `SnapshotAnswers` of each.
  std::vector<const Session*> All() const;
  // `Restore` makes the same of these.
  static void SnapshotSession(const Session& session, std::vector<TimedRecord>& records);
  // In the order of their numbers.
  static void SnapshotAnswers(const Session& session, std::vector<TimedRecord>& records);

  size_t size() const { return sessions_.size(); }  // linked or not
  // What it holds, about as it costs.
  size_t memory() const { return sessions_.size() * kSessionBytes + kept_bytes_; }

 private:
  // With its names, and its places in tables.
  static constexpr size_t kSessionBytes = 768;

  Session& Add(Time at, SessionId id);
  void SetExpiry(Session& session, std::optional<Time> when);
  void Insert(Session& session, record::AnswerKept&& answer);
  // Forgets kept answers up to this one.
  void Drop(Session& session, uint64_t through);

  const CoordinatorOptions& options_;
  absl::flat_hash_map<SessionId, std::unique_ptr<Session>> sessions_;  // looked up only
  std::set<std::pair<Time, SessionId>> expiries_;
  size_t kept_bytes_ = 0;  // of all kept answers
};

}  // namespace lockstep::coord
