#include "lockstep/data/dispatch/consumer_roster.h"

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/data/dispatch/admission.h"

namespace lockstep::dispatch {

ConsumerSession& ConsumerRoster::Join(Time now, const OpenIteration& request, Effects& out) {
  // The record before the session: there is one session for each consumer of the ledger.
  const ConsumerId id(parts_.state.ids.Next());
  LOCKSTEP_DCHECK(parts_.ledger.Find(id) == nullptr && parts_.sessions.Find(id) == nullptr);
  parts_.ledger.Commit(record::ConsumerJoined{.consumer = id,
                                              .name = request.consumer,
                                              .life = request.life,
                                              .index = IndexFor(parts_.ledger, request),
                                              .host = request.host,
                                              .pid = request.pid,
                                              .machine = request.machine,
                                              .started = request.started,
                                              .job = request.job},
                       out);
  // Somebody reads the iteration from here on, so it is not collected.
  parts_.state.deadlines.Clear(parts_.sessions.DueOf(DueKind::kIterationIdle));
  out.Tell(Severity::kInfo,
           absl::StrCat("consumer ", request.consumer, " reads iteration ", parts_.ledger.Name()));
  ConsumerSession& session = parts_.sessions.Add(id);
  parts_.sessions.Hear(now, session);
  // All are told: who reads decides what each of them gets.
  parts_.sessions.TouchAll();
  LOCKSTEP_DCHECK(parts_.sessions.all().size() == parts_.ledger.consumers().size());
  return session;
}

ConsumerSession* ConsumerRoster::Replace(Time now, ConsumerId id, const OpenIteration& request,
                                         Effects& out) {
  // The former process learns of it before its place is another's.
  const ConsumerEntry& known = Entry(id);
  LOCKSTEP_DCHECK(known.life != request.life || known.away);
  ConsumerSession& session = parts_.sessions.At(id);
  parts_.sessions.Fail(
      session,
      MakeError(absl::StatusCode::kAborted, reason::kConsumerReplaced,
                absl::StrCat("consumer ", known.name, " of iteration ", parts_.ledger.Name(),
                             " came back as another process on ", request.host, " (pid ",
                             request.pid, ")")),
      out);
  // Without its place in the rounds it begins at the next round that all agree on.
  if (parts_.ledger.spec().mode == Mode::kRounds && !parts_.ledger.waits_for_lost() &&
      !request.from && parts_.ledger.seating().IsSeated(id)) {
    mode_.NoteUnsaid();
    Remove(now, id, false, out);
    return nullptr;
  }
  out.Tell(Severity::kInfo,
           absl::StrCat("consumer ", known.name, " of iteration ", parts_.ledger.Name(),
                        " is another process now: ", request.consumer, " on ", request.host,
                        " (pid ", request.pid, ")"));
  parts_.ledger.Commit(
      record::ConsumerReplaced{.consumer = id,
                               .life = request.life,
                               .host = request.host,
                               .pid = request.pid,
                               .machine = request.machine,
                               .started = request.started,
                               .name = request.consumer == known.name ? "" : request.consumer,
                               .job = request.job},
      out);
  // What the former process said of itself does not count for this one.
  session.poll.number = 0;
  session.holding.handed_before = 0;
  session.holding.has_all = false;
  session.reading.lanes.clear();
  session.reading.blocked.reset();
  // Grants that the former process had in full are read again, and have no worker.
  parts_.choice.MarkStale();
  mode_.TakeReplaced(session, request.from ? request.from->round : 0, out);
  parts_.state.deadlines.Clear(parts_.sessions.DueOf(DueKind::kIterationIdle));
  return &session;
}

// As the same process: a record with its own life again says that it is not away any more.
void ConsumerRoster::TakeBack(ConsumerId id, Effects& out) {
  const ConsumerEntry& consumer = Entry(id);
  LOCKSTEP_DCHECK(consumer.away);
  out.Tell(Severity::kInfo, absl::StrCat("consumer ", consumer.name, " of iteration ",
                                         parts_.ledger.Name(), " is back"));
  parts_.ledger.Commit(record::ConsumerReplaced{.consumer = id,
                                                .life = consumer.life,
                                                .host = consumer.host,
                                                .pid = consumer.pid,
                                                .machine = consumer.machine,
                                                .started = consumer.started,
                                                .name = "",
                                                .job = consumer.job},
                       out);
  // While it was away it did not keep the iteration from being collected.
  parts_.state.deadlines.Clear(parts_.sessions.DueOf(DueKind::kIterationIdle));
}

void ConsumerRoster::Leave(Time now, ConsumerId id, Effects& out) {
  const ConsumerEntry& consumer = Entry(id);
  // Answered first: its session goes with it.
  parts_.sessions.Fail(parts_.sessions.At(id),
                       MakeError(absl::StatusCode::kCancelled, reason::kCancelled,
                                 absl::StrCat("consumer ", consumer.name, " has left iteration ",
                                              parts_.ledger.Name())),
                       out);
  // Also one that leaves in good order has a successor where the others wait for the lost.
  if (SetAway(now, id, "it has closed its reader", true, out)) return;
  Remove(now, id, false, out);
}

void ConsumerRoster::Lose(Time now, ConsumerId id, const std::string& why, bool ended,
                          Effects& out) {
  // Answered first, as in `Leave`.
  parts_.sessions.Fail(parts_.sessions.At(id),
                       MakeError(absl::StatusCode::kAborted, reason::kConsumerLeaseEnded,
                                 absl::StrCat("consumer ", Entry(id).name, " is lost: ", why)),
                       out);
  if (SetAway(now, id, why, ended, out)) return;
  // While its place and the lanes are still as it may have read them.
  mode_.NoteUnsaid();
  Remove(now, id, true, out);
}

// Its entry, its seat and its index stay; only what connects it goes.
bool ConsumerRoster::SetAway(Time now, ConsumerId id, const std::string& why, bool ended,
                             Effects& out) {
  // Whoever calls has answered its poll.
  LOCKSTEP_DCHECK(!parts_.sessions.At(id).poll.parked.has_value());
  if (!mode_.KeepsPlace(id)) return false;
  const ConsumerEntry& consumer = Entry(id);
  // Nobody waits for one that has finished, so its loss is no warning.
  out.Tell(consumer.finished ? Severity::kInfo : Severity::kWarning,
           absl::StrCat("consumer ", consumer.name, " of iteration ", parts_.ledger.Name(),
                        " is away: ", why,
                        consumer.finished ? "" : "; its place waits for its successor"));
  parts_.sessions.Unpark(parts_.sessions.At(id));
  // It has no lease while it is away.
  parts_.sessions.ClearDeadlines(id);
  // Its successor has agreed to nothing yet.
  mode_.Forget(id);
  parts_.ledger.Commit(record::ConsumerAway{.consumer = id, .ended = ended}, out);
  parts_.sessions.TouchAll();
  SetIdle(now);
  return true;
}

void ConsumerRoster::Remove(Time now, ConsumerId id, bool lease_ended, Effects& out) {
  LOCKSTEP_DCHECK(!parts_.sessions.At(id).poll.parked.has_value());
  out.Tell(lease_ended ? Severity::kWarning : Severity::kInfo,
           absl::StrCat("consumer ", Entry(id).name, " has left iteration ", parts_.ledger.Name(),
                        lease_ended ? ": its lease ended" : ""));
  parts_.sessions.Remove(id);
  // Before the record, behind which its lane is not there any more.
  mode_.Forget(id);
  parts_.ledger.Commit(record::ConsumerGone{.consumer = id, .lease_ended = lease_ended}, out);
  parts_.sessions.TouchAll();
  SetIdle(now);
}

void ConsumerRoster::AwaitLost(Effects& out) {
  const IterationLedger& ledger = parts_.ledger;
  if (ledger.spec().mode != Mode::kRounds || ledger.spec().on_lost != OnLost::kAuto) return;
  // Never taken back: one record is enough.
  if (ledger.progress().awaits_lost) return;
  // Once it is over, nobody waits for anybody.
  if (ledger.phase() != Phase::kResolving && !ledger.reading()) return;
  parts_.ledger.Commit(record::LostAwaited{}, out);
}

void ConsumerRoster::SetIdle(Time now) {
  // Those that are away do not keep it alive.
  if (parts_.ledger.HasConsumersThere()) return;
  const Options& options = parts_.state.options;
  absl::Duration after = options.iteration_timeout;
  // Longer: whoever comes late under its name must find it over, and not begin it anew.
  if (parts_.ledger.phase() == Phase::kFinished) after = options.finished_timeout;
  // Kept only for consumers that have yet to hear why.
  if (parts_.ledger.phase() == Phase::kFailed) after = options.consumer_timeout;
  parts_.state.deadlines.Set(parts_.sessions.DueOf(DueKind::kIterationIdle), now + after);
}

}  // namespace lockstep::dispatch
