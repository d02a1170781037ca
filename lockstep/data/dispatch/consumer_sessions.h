// The consumers of an iteration as they are connected: what nobody records. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/data/dispatch/deadlines.h"
#include "lockstep/data/dispatch/dispatcher_state.h"
#include "lockstep/data/dispatch/effects.h"
#include "lockstep/data/dispatch/events.h"
#include "lockstep/data/dispatch/worker_table.h"

namespace lockstep::dispatch {

// The parked poll, and which version of the assignment the consumer has.
struct PollState {
  int64_t number = 0;  // of the latest poll: reports of an older one are stale
  int64_t version = 1;
  int64_t sent_version = 0;
  bool dirty = false;  // a parked poll is to be answered
  std::optional<CallId> parked;
};

// Where it reads. Exact and rounds.
struct ReadingState {
  int64_t round = -1;              // that it has begun
  std::optional<int64_t> blocked;  // round that it begins only when told to
  std::map<LaneId, LaneProgress> lanes;
};

// First come, acknowledged by hand: what its program holds, as it said...
struct HoldingState {
  int64_t handed_before = 0;
  int64_t unacknowledged = 0;
  uint64_t unacknowledged_bytes = 0;
  bool has_all = false;
  // ...and what it was told of that.
  bool rest_is_own = false;
  std::string ack_needed;
};

// One consumer. Lost with the dispatcher: a consumer says all of it again.
struct ConsumerSession {
  ConsumerId id;
  Time heard;
  PollState poll;
  ReadingState reading;
  HoldingState holding;
  WorkerTable::Avoid avoid;  // workers that it cannot reach, and until when
  std::string waits_for;
  absl::Duration element_time;
};

// Owns the sessions, their parked calls and their deadlines. There is one for each consumer in the
// ledger, in the same order.
//
// Bounds: Options.consumers_max; one parked call for each.
class ConsumerSessions {
 public:
  // `grace`: how long a consumer may be silent before the others stop waiting for it; infinite: the
  // mode lets nobody wait.
  ConsumerSessions(DispatcherState& state, IterationId id, bool has_grace)
      : state_(state), id_(id), has_grace_(has_grace) {}

  // By id, as the ledger has them.
  std::map<ConsumerId, ConsumerSession>& all() { return sessions_; }
  const std::map<ConsumerId, ConsumerSession>& all() const { return sessions_; }  // to read
  // Null: it left, or was lost for good.
  ConsumerSession* Find(ConsumerId id);
  // Of a consumer that is there.
  ConsumerSession& At(ConsumerId id) { return sessions_.at(id); }
  const ConsumerSession& At(ConsumerId id) const { return sessions_.at(id); }  // to read

  // Nothing when it is there.
  ConsumerSession& Add(ConsumerId id);
  // Its call is not answered any more.
  void Remove(ConsumerId id);

  // Its assignment may have changed; the iteration is settled after the event.
  void Touch(ConsumerSession& session);
  // Each of them; see `Touch`.
  void TouchAll();
  void Mark() { state_.touched.insert(id_); }  // the iteration is settled after the event

  // Its lease counts from now.
  void Hear(Time now, ConsumerSession& session);
  // Nobody waits for it any more when it stays silent.
  void StartGrace(Time now, const ConsumerSession& session);
  // It does not reach the worker.
  void Avoid(Time now, ConsumerSession& session, WorkerId worker);
  // It may try those again whose time is over.
  void ForgetAvoided(Time now, ConsumerSession& session);
  // The worker is gone: there is nothing to avoid any more.
  void ForgetWorker(WorkerId worker);

  // The poll waits, at most poll_wait_max, until there is something that the consumer has not
  // heard;
  // answered after this event when there is already, or it does not want to wait.
  void Park(Time now, ConsumerSession& session, const ConsumerPoll& poll);
  // The call is not parked any more: it is to be answered, or its caller left.
  std::optional<CallId> Unpark(ConsumerSession& session);
  // The call is gone, by an answer or since its caller left. Its entry in `parked` is not touched.
  void ForgetCall(ConsumerSession& session);
  // Answers the parked call, if there is one, with the error.
  void Fail(ConsumerSession& session, const ErrorPtr& error, Effects& out);
  // Of this consumer: it is gone, or away.
  void ClearDeadlines(ConsumerId id);

  size_t CountParked() const;  // calls that wait for an answer
  // How `Deadlines` names it.
  Due DueOf(DueKind kind, ConsumerId consumer = {}) const {
    return {.kind = kind, .iteration = id_, .consumer = consumer};
  }

 private:
  DispatcherState& state_;
  const IterationId id_;
  const bool has_grace_;
  std::map<ConsumerId, ConsumerSession> sessions_;
};

}  // namespace lockstep::dispatch
