#include "lockstep/data/dispatch/consumer_sessions.h"

#include <algorithm>

#include "lockstep/base/check.h"

namespace lockstep::dispatch {

ConsumerSession* ConsumerSessions::Find(ConsumerId id) {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : &found->second;
}

ConsumerSession& ConsumerSessions::Add(ConsumerId id) {
  ConsumerSession& session = sessions_[id];
  session.id = id;
  return session;
}

void ConsumerSessions::Remove(ConsumerId id) {
  // By then the call has been answered, or its caller has left: nothing is said here.
  ClearDeadlines(id);
  if (ConsumerSession* session = Find(id); session != nullptr) Unpark(*session);
  sessions_.erase(id);
}

void ConsumerSessions::Touch(ConsumerSession& session) {
  // The answer carries the version: a poll that names it has seen all before.
  ++session.poll.version;
  LOCKSTEP_DCHECK(session.poll.version > session.poll.sent_version);
  session.poll.dirty = true;
  Mark();
}

void ConsumerSessions::TouchAll() {
  for (auto& [id, session] : sessions_) Touch(session);
  // Also without any session: the event is settled.
  Mark();
}

void ConsumerSessions::Hear(Time now, ConsumerSession& session) {
  // Time does not go back: a lease that was extended does not shrink.
  LOCKSTEP_DCHECK(session.heard <= now);
  session.heard = now;
  state_.deadlines.Set(DueOf(DueKind::kConsumerLease, session.id),
                       now + state_.options.consumer_timeout);
  // A shorter time than the lease: until then the others wait for it at a round.
  StartGrace(now, session);
}

void ConsumerSessions::StartGrace(Time now, const ConsumerSession& session) {
  if (!has_grace_) return;
  state_.deadlines.Set(DueOf(DueKind::kConsumerQuiet, session.id),
                       now + state_.options.consumer_grace);
}

void ConsumerSessions::Avoid(Time now, ConsumerSession& session, WorkerId worker) {
  const Time until = now + state_.options.unreachable_for;
  session.avoid[worker] = until;
  // There is one deadline: the latest of its times counts for all workers that it avoids.
  state_.deadlines.Set(DueOf(DueKind::kConsumerReach, session.id), until);
  Touch(session);
}

void ConsumerSessions::ForgetAvoided(Time now, ConsumerSession& session) {
  Time next = Time::Infinite();
  for (auto it = session.avoid.begin(); it != session.avoid.end();) {
    if (it->second <= now) {
      it = session.avoid.erase(it);
    } else {
      next = std::min(next, it->second);
      ++it;
    }
  }
  // Infinite when none is left, which clears it.
  state_.deadlines.Set(DueOf(DueKind::kConsumerReach, session.id), next);
  Touch(session);
}

void ConsumerSessions::ForgetWorker(WorkerId worker) {
  for (auto& [id, session] : sessions_) session.avoid.erase(worker);
}

void ConsumerSessions::Park(Time now, ConsumerSession& session, const ConsumerPoll& request) {
  // One call for each consumer: whoever calls has answered the former one.
  LOCKSTEP_DCHECK(!session.poll.parked && !state_.parked.contains(request.call));
  session.poll.parked = request.call;
  // Also when it is answered at once: a departure finds the call here until then.
  state_.parked[request.call] = {.iteration = id_, .consumer = session.id};
  const absl::Duration wait = std::min(request.wait, state_.options.poll_wait_max);
  // Without a wait it is answered behind what this very poll changes.
  if (wait > absl::ZeroDuration()) {
    state_.deadlines.Set(DueOf(DueKind::kConsumerPark, session.id), now + wait);
  }
  // Versions of another life of the service mean nothing here.
  const bool seen =
      request.service == state_.options.service && request.after == session.poll.version;
  if (!seen || wait <= absl::ZeroDuration()) session.poll.dirty = true;
}

std::optional<CallId> ConsumerSessions::Unpark(ConsumerSession& session) {
  // Out of both tables before it is answered, so that it is answered once.
  const std::optional<CallId> call = session.poll.parked;
  if (!call) return call;
  LOCKSTEP_DCHECK(state_.parked.contains(*call));
  state_.parked.erase(*call);
  ForgetCall(session);
  return call;
}

void ConsumerSessions::ForgetCall(ConsumerSession& session) {
  session.poll.parked.reset();
  state_.deadlines.Clear(DueOf(DueKind::kConsumerPark, session.id));
}

void ConsumerSessions::Fail(ConsumerSession& session, const ErrorPtr& error, Effects& out) {
  // Without a call there is nobody to be told: its next poll hears the error.
  if (const std::optional<CallId> call = Unpark(session)) out.Fail(*call, error);
}

void ConsumerSessions::ClearDeadlines(ConsumerId id) {
  for (const DueKind kind : {DueKind::kConsumerLease, DueKind::kConsumerPark,
                             DueKind::kConsumerQuiet, DueKind::kConsumerReach}) {
    state_.deadlines.Clear(DueOf(kind, id));
  }
}

size_t ConsumerSessions::CountParked() const {
  return static_cast<size_t>(
      std::count_if(sessions_.begin(), sessions_.end(),
                    [](const auto& entry) { return entry.second.poll.parked.has_value(); }));
}

}  // namespace lockstep::dispatch
