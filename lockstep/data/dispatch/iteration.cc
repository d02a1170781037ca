#include "lockstep/data/dispatch/iteration.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/data/dispatch/admission.h"
#include "lockstep/data/dispatch/failure_kind.h"
#include "lockstep/data/dispatch/iteration_view.h"
#include "lockstep/data/dispatch/request_checks.h"

namespace lockstep::dispatch {

namespace {

// By file: the first share that has nothing to read. It would be looked for to the end of the
// dataset, which may have none; where the end is near, the share is over as soon as it begins.
std::optional<int64_t> EmptyShare(const IterationSpec& spec, const Options& options,
                                  const Shape& shape) {
  if (spec.sharding != Sharding::kStaticFile || shape.segments() < options.file_skips_max) {
    return std::nullopt;
  }
  std::vector<bool> reads(static_cast<size_t>(spec.shares), false);
  for (int64_t file = 0; file < shape.files(); ++file) {
    if (shape.HasRecords(file)) reads[static_cast<size_t>(file % spec.shares)] = true;
  }
  const auto empty = std::find(reads.begin(), reads.end(), false);
  if (empty == reads.end()) return std::nullopt;
  return empty - reads.begin();
}

// Why the iteration cannot begin with what its dataset turned out to be; null: it can.
ErrorPtr CheckShape(const IterationLedger& ledger, const Options& options, const Shape& shape) {
  const IterationSpec& spec = ledger.spec();
  if (spec.sharding == Sharding::kStaticFile && shape.files() < spec.shares) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, reason::kTooFewFiles,
        absl::StrCat("iteration ", ledger.Name(), " is shared out by file to ", spec.shares,
                     " workers, but there are ", shape.files(), " files: share it out by data"));
  }
  if (const std::optional<int64_t> empty = EmptyShare(spec, options, shape)) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, reason::kTooFewFiles,
        absl::StrCat("iteration ", ledger.Name(), " is shared out by file to ", spec.shares,
                     " workers, but of the ", shape.files(), " files those of share ", *empty,
                     " hold no record: share it out by data, or use fewer shares"));
  }
  if (ledger.start().next > shape.segments()) {
    return MakeError(
        absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch,
        absl::StrCat("the cursor with which iteration ", ledger.Name(), " begins is at segment ",
                     ledger.start().next, ", and its dataset has ", shape.segments(),
                     ": take the cursor of this dataset as it is now"));
  }
  return nullptr;
}

// A share of which nothing comes may have nothing more, and a dataset may have no end.
ErrorPtr CheckSearch(const IterationLedger& ledger, const Options& options) {
  if (ledger.tasks().steps() < options.file_skips_max) return nullptr;
  return LimitReached(absl::StrCat("iteration ", ledger.Name(),
                                   " is shared out by file, and what a share reads next was not "
                                   "found in ",
                                   options.file_skips_max,
                                   " steps (file_skips_max): share it out by data"));
}

bool IsStatic(const IterationSpec& spec) {
  return spec.sharding == Sharding::kStaticData || spec.sharding == Sharding::kStaticFile;
}

// A task that nobody has: the worker's own of before, or (unless shares are tied to addresses) any.
std::optional<TaskId> FreeTaskFor(const IterationLedger& ledger, const WorkerChoice& choice,
                                  const Worker& worker) {
  const std::vector<std::string>& addresses = ledger.spec().worker_addresses;
  std::optional<TaskId> free;
  const std::string* home = nullptr;
  for (const auto& [id, task] : ledger.tasks().all()) {
    if (choice.OwnerOf(id) != WorkerId()) continue;
    // The share is tied to the worker of another address.
    if (task.share >= 0 && static_cast<size_t>(task.share) < addresses.size() &&
        addresses[static_cast<size_t>(task.share)] != worker.address) {
      continue;
    }
    if (!free || (task.home == worker.address && *home != worker.address)) {
      free = id;
      home = &task.home;
    }
  }
  return free;
}

// Null: the poll is of a consumer that is there, from the process that speaks for it.
ErrorPtr CheckPoll(const IterationLedger& ledger, const ConsumerPoll& request) {
  const ConsumerEntry* const consumer = ledger.Find(request.consumer);
  if (consumer == nullptr) {
    return MakeError(absl::StatusCode::kNotFound, reason::kUnknownConsumer,
                     absl::StrCat("iteration ", ledger.Name(), " has no consumer ",
                                  request.consumer.value(), ": it left, or its lease ended"));
  }
  if (consumer->life == request.life) return nullptr;
  if (consumer->away) {
    return MakeError(absl::StatusCode::kAborted, reason::kConsumerLeaseEnded,
                     absl::StrCat("consumer ", consumer->name, " of iteration ", ledger.Name(),
                                  " was lost, and its place waits for another process"));
  }
  return MakeError(
      absl::StatusCode::kAborted, reason::kConsumerReplaced,
      absl::StrCat("consumer ", consumer->name, " of iteration ", ledger.Name(),
                   " is another process now, on ", consumer->host, " (pid ", consumer->pid, ")"));
}

// The worker has a task from here on: one of its own, or one that nobody has.
void GiveTask(const IterationParts& parts, const ReadingMode& mode, const Worker& worker,
              Effects& out) {
  if (!mode.RecordsTasks()) {
    // Segments belong to no task: the share only says that the worker should prepare.
    parts.choice.AddShare(worker.id, TaskId(parts.state.ids.Next()));
    return;
  }
  // One that is read again keeps the owners that it had.
  if (parts.choice.OwnsTask(worker.id)) return;
  if (const std::optional<TaskId> free = FreeTaskFor(parts.ledger, parts.choice, worker)) {
    parts.choice.SetOwner(*free, worker.id);
    parts.choice.MarkStale();
    parts.sessions.TouchAll();
    return;
  }
  // There are as many shares as the spec says: this worker stands in where an owner is missing.
  if (IsStatic(parts.ledger.spec())) return;
  const TaskId task(parts.state.ids.Next());
  // Those who read already have to agree on when its lane begins.
  const bool pending = parts.ledger.spec().mode == Mode::kRounds && !parts.ledger.seating().empty();
  parts.ledger.Commit(
      record::TaskAdded{.task = task, .home = worker.address, .starting_round = pending ? -1 : 0},
      out);
  parts.choice.SetOwner(task, worker.id);
  parts.choice.MarkStale();
}

}  // namespace

Iteration::Iteration(DispatcherState& state, IterationId id, IterationSpec spec, Cursor start)
    : state_(state),
      ledger_(state.options, state.ids, id, std::move(spec), std::move(start)),
      sessions_(state, id, ledger_.spec().mode == Mode::kRounds),
      choice_(state.workers),
      parts_{.state = state, .ledger = ledger_, .sessions = sessions_, .choice = choice_},
      mode_(MakeReadingMode(parts_)),
      roster_(parts_, *mode_) {}

// --- Requests ---

void Iteration::Handle(Time now, const OpenIteration& request, Effects& out) {
  sessions_.Mark();
  const ConsumerEntry* const known = PredecessorOf(ledger_, request);
  if (ErrorPtr error = CheckOpen(ledger_, sessions_, state_.options, request, known);
      error != nullptr) {
    return out.Fail(request.call, std::move(error));
  }
  // Before the consumer takes its place: whether it is waited for decides which one that is.
  if (request.member || request.from || !spec().cursor.empty()) roster_.AwaitLost(out);
  if (ReadsBeforeEnd(ledger_, request, known)) Reopen(out);
  ConsumerSession* session = known == nullptr ? nullptr : &sessions_.At(known->id);
  if (known != nullptr && (known->life != request.life || known->away)) {
    session = roster_.Replace(now, known->id, request, out);
  }
  if (session == nullptr) session = &roster_.Join(now, request, out);
  // From here on the caller speaks for the consumer.
  LOCKSTEP_DCHECK(ledger_.consumers().at(session->id).life == request.life);
  LOCKSTEP_DCHECK(!ledger_.consumers().at(session->id).away);
  if (ledger_.reading()) mode_->TakeAcks(request.have, *session, out);
  sessions_.Hear(now, *session);
  // Its first poll is answered at once, with all that there is.
  sessions_.Touch(*session);
  out.Succeed(request.call,
              IterationOpened{.iteration = ledger_.id(),
                              .consumer = session->id,
                              .name = spec().name,
                              .index = ledger_.consumers().at(session->id).index,
                              .lease_had_ended = ledger_.departed().Has(request.consumer),
                              .counted = ledger_.departed().CountedOf(request.consumer)});
}

void Iteration::Handle(Time now, const ConsumerPoll& request, Effects& out) {
  sessions_.Mark();
  if (ErrorPtr error = CheckPoll(ledger_, request); error != nullptr) {
    return out.Fail(request.call, std::move(error));
  }
  if (ledger_.Find(request.consumer)->away) roster_.TakeBack(request.consumer, out);
  // One that keeps cursors can be restored, so that it is worth waiting for.
  if (request.keeps_cursors) roster_.AwaitLost(out);
  ConsumerSession& session = sessions_.At(request.consumer);
  // There is one parked poll: the former is answered, whatever there is to say.
  if (session.poll.parked) AnswerParked(now, session, out);
  sessions_.Hear(now, session);
  sessions_.Park(now, session, request);
  // Acknowledgements count whenever they arrive; other reports of an older poll are stale.
  if (ledger_.reading()) mode_->TakeAcks(request.acks, session, out);
  if (request.number <= session.poll.number) return;
  session.poll.number = request.number;
  TakeReports(now, request, session, out);
}

// What a newer poll says; an older one that comes late has nothing to add.
void Iteration::TakeReports(Time now, const ConsumerPoll& request, ConsumerSession& session,
                            Effects& out) {
  session.waits_for = request.waits_for;
  session.element_time = request.element_time;
  const ConsumerEntry& consumer = ledger_.consumers().at(session.id);
  for (const WorkerId id : request.unreachable) {
    const Worker* const worker = state_.workers.Find(id);
    if (worker == nullptr) continue;
    sessions_.Avoid(now, session, id);
    choice_.MarkStale();
    out.Tell(Severity::kWarning,
             absl::StrCat("consumer ", consumer.name, " of iteration ", ledger_.Name(),
                          " cannot reach the worker at ", worker->address));
  }
  if (!ledger_.reading()) return;
  for (const SegmentFailure& failure : request.failures) {
    TakeFailure(now, failure, out);
    if (!ledger_.reading()) return;  // that was one too many
  }
  mode_->TakePoll(request, session, out);
  // There pools and lanes say when all was read.
  if (spec().mode == Mode::kFirstCome) return;
  if (request.finished && !consumer.finished) {
    ledger_.Commit(record::ConsumerFinished{.consumer = session.id, .end = request.end}, out);
  }
}

void Iteration::Handle(Time now, const CloseConsumer& request, Effects& out) {
  sessions_.Mark();
  const ConsumerEntry* const consumer = ledger_.Find(request.consumer);
  if (consumer != nullptr && consumer->life == request.life) {
    if (ledger_.reading()) {
      // Its last words count before it goes: what it did not acknowledge goes to others then.
      ConsumerSession& session = sessions_.At(request.consumer);
      mode_->TakeAcks(request.acks, session, out);
      mode_->TakeClose(request, session);
      if (request.finished && !consumer->finished) {
        ledger_.Commit(record::ConsumerFinished{.consumer = session.id, .end = request.end}, out);
        if (mode_->IsFinished()) End(now, nullptr, out);
      }
    }
    roster_.Leave(now, request.consumer, out);
  }
  out.Succeed(request.call, ConsumerClosed{});
}

void Iteration::TakeFailure(Time now, const SegmentFailure& failure, Effects& out) {
  LOCKSTEP_DCHECK(ledger_.reading());
  // A late word of what others have read by now says nothing.
  if (failure.error == nullptr || !mode_->IsGiven(failure)) return;
  const Worker* const worker = state_.workers.Find(failure.worker);
  const std::string where = absl::StrCat(
      "segment ", failure.segment, " of iteration ", ledger_.Name(), " on the worker at ",
      worker == nullptr ? "an address that is not known any more" : worker->address);
  const FailureKind kind = KindOf(*failure.error);
  // Any worker would fail in the same way.
  if (IsDeterministic(kind)) {
    return End(now,
               MakeError(failure.error->code, failure.error->reason,
                         absl::StrCat(where, ": ", failure.error->message)),
               out);
  }
  const int32_t tries = choice_.NoteFailure(failure.segment, failure.worker);
  out.Tell(Severity::kWarning, absl::StrCat(where, " failed: ", failure.error->message));
  if (tries >= state_.options.segment_tries) {
    return End(now,
               MakeError(failure.error->code,
                         // As `local()` says it.
                         kind == FailureKind::kFunction ? std::string_view(failure.error->reason)
                                                        : reason::kSegmentFailed,
                         absl::StrCat(where, " failed ", tries, " times, at last with ",
                                      failure.error->reason, ": ", failure.error->message)),
               out);
  }
  choice_.MarkStale();
  sessions_.TouchAll();
}

// --- Its life ---

void Iteration::Start(Time now, std::shared_ptr<const Shape> shape, Effects& out) {
  LOCKSTEP_DCHECK(shape != nullptr);
  // Whoever calls names all iterations of the dataset, those that have begun as well.
  if (phase() != Phase::kResolving) return;
  if (ErrorPtr error = CheckShape(ledger_, state_.options, *shape); error != nullptr) {
    return End(now, std::move(error), out);
  }
  const absl::Status applied = ledger_.Start(std::move(shape));
  LOCKSTEP_CHECK(applied.ok());
  out.records.push_back(record::IterationStarted{.iteration = ledger_.id()});
  out.Tell(Severity::kInfo, absl::StrCat("iteration ", ledger_.Name(), " begins"));
  // The shares are there before the workers take them.
  for (int32_t share = 0; IsStatic(spec()) && share < spec().shares; ++share) {
    ledger_.Commit(record::TaskAdded{.task = TaskId(state_.ids.Next()), .share = share}, out);
  }
  for (const auto& [id, worker] : state_.workers.all()) GiveTask(parts_, *mode_, worker, out);
  choice_.MarkStale();
  sessions_.TouchAll();
}

void Iteration::End(Time now, ErrorPtr error, Effects& out) {
  // It ends once, for the first reason.
  if (phase() != Phase::kResolving && !ledger_.reading()) return;
  if (error == nullptr) {
    out.Tell(Severity::kInfo, absl::StrCat("iteration ", ledger_.Name(), " is finished: ",
                                           ledger_.lanes().totals().segments_done, " segments"));
  } else {
    out.Tell(Severity::kError,
             absl::StrCat("iteration ", ledger_.Name(), " failed: ", error->message));
  }
  ledger_.Commit(record::IterationEnded{.error = std::move(error)}, out);
  mode_->TakeEnded();
  // After the record: tasks that it left are there to be read again.
  choice_.End(!ledger_.tasks().all().empty());
  state_.workers.TouchAll();
  sessions_.TouchAll();
  roster_.SetIdle(now);
}

// Only what was finished, and only in the modes that know what came before the end.
void Iteration::Reopen(Effects& out) {
  LOCKSTEP_DCHECK(phase() == Phase::kFinished && spec().mode != Mode::kFirstCome);
  out.Tell(Severity::kInfo, absl::StrCat("iteration ", ledger_.Name(),
                                         " is read again: a consumer goes on from before its end"));
  ledger_.Commit(record::IterationReopened{}, out);
  mode_->TakeReopened();
  // The end took the workers' tasks away, and who came since has none.
  for (const auto& [id, worker] : state_.workers.all()) GiveTask(parts_, *mode_, worker, out);
  state_.workers.TouchAll();
  choice_.MarkStale();
  sessions_.TouchAll();
}

// The state stays as it is: nothing is recorded.
void Iteration::Abandon(const ErrorPtr& why, Effects& out) {
  for (auto& [id, session] : sessions_.all()) {
    sessions_.Fail(session, why, out);
    sessions_.ClearDeadlines(id);
  }
  state_.deadlines.Clear(sessions_.DueOf(DueKind::kIterationIdle));
  state_.deadlines.Clear(sessions_.DueOf(DueKind::kIterationSeeks));
}

void Iteration::Restored(Time now) {
  LOCKSTEP_DCHECK(sessions_.all().empty());
  for (const auto& [id, consumer] : ledger_.consumers()) {
    ConsumerSession& session = sessions_.Add(id);
    // One that is away has no lease: its place waits.
    if (!consumer.away) sessions_.Hear(now, session);
  }
  choice_.MarkStale();
  mode_->TakeRestored();
  roster_.SetIdle(now);
  sessions_.Mark();
}

void Iteration::Settle(Time now, Effects& out) {
  if (ledger_.reading()) {
    ledger_.Seek(state_.file_skips_left);
    if (ErrorPtr error = CheckSearch(ledger_, state_.options); error != nullptr) {
      End(now, std::move(error), out);
    } else {
      mode_->Settle(now, out);
      // Behind the mode, which has chosen.
      choice_.MarkFresh();
      if (mode_->IsFinished()) End(now, nullptr, out);
    }
    // What is not found yet is due at once: others have their turn before it.
    if (ledger_.tasks().seeks()) {
      state_.deadlines.Set(sessions_.DueOf(DueKind::kIterationSeeks), now);
    }
    state_.file_skips_left = ledger_.Seek(0);
  }
  // Last, so that each is told all of it at once.
  for (auto& [id, session] : sessions_.all()) {
    if (session.poll.dirty && session.poll.parked) AnswerParked(now, session, out);
  }
  LOCKSTEP_DCHECK(Holds());
}

bool Iteration::Holds() const {
  return ledger_.Holds() &&
         std::equal(ledger_.consumers().begin(), ledger_.consumers().end(), sessions_.all().begin(),
                    sessions_.all().end(), [](const auto& consumer, const auto& session) {
                      return consumer.first == session.first;
                    });
}

// --- Workers ---

void Iteration::WorkerCame(const Worker& worker, Effects& out) {
  if (!ledger_.reading()) return;
  GiveTask(parts_, *mode_, worker, out);
  choice_.MarkStale();
  sessions_.TouchAll();
}

void Iteration::WorkerGone(WorkerId worker) {
  // Also where nothing is read: a finished iteration may be read again.
  choice_.ForgetWorker(worker);
  sessions_.ForgetWorker(worker);
  if (!ledger_.reading()) return;
  choice_.MarkStale();
  sessions_.TouchAll();
}

// What the worker prepares for: a share of its own, or the tasks that it owns.
void Iteration::ListTasks(WorkerId worker, std::vector<WorkerTask>& out) const {
  if (!ledger_.reading()) return;
  if (const auto share = choice_.shares().find(worker); share != choice_.shares().end()) {
    out.push_back({.task = share->second, .iteration = ledger_.id(), .dataset = spec().dataset});
  }
  for (const auto& [id, task] : ledger_.tasks().all()) {
    if (choice_.OwnerOf(id) != worker) continue;
    out.push_back({.task = id,
                   .iteration = ledger_.id(),
                   .dataset = spec().dataset,
                   .starting_round = spec().mode == Mode::kRounds ? task.starting_round : 0});
  }
}

// --- Consumers ---

void Iteration::CallLeft(ConsumerId id) {
  ConsumerSession* const session = sessions_.Find(id);
  if (session == nullptr) return;
  sessions_.ForgetCall(*session);
  sessions_.Mark();
}

// It is quiet, not lost: its lease runs on, and it may come back over another link.
void Iteration::ConsumerLinkEnded(Time now, ConsumerId id) {
  ConsumerSession* const session = sessions_.Find(id);
  if (session == nullptr) return;
  // A poll that is parked came over another link, or its `CallLeft` comes.
  if (session->poll.parked || ledger_.consumers().at(id).away) return;
  sessions_.StartGrace(now, *session);
  sessions_.Mark();
}

void Iteration::ConsumerEnded(Time now, ConsumerId id, ConsumerLife life, Effects& out) {
  const ConsumerEntry* const consumer = ledger_.Find(id);
  // Another process may speak for it by now.
  if (consumer == nullptr || consumer->life != life) return;
  sessions_.Mark();
  roster_.Lose(now, id, "its process has ended", true, out);
}

void Iteration::ReachDue(Time now, const Due& due, Effects& out) {
  sessions_.Mark();
  ConsumerSession* const session = sessions_.Find(due.consumer);
  if (session == nullptr) return;
  if (due.kind == DueKind::kConsumerLease) {
    // One that is away has no lease.
    LOCKSTEP_DCHECK(!ledger_.consumers().at(due.consumer).away);
    roster_.Lose(now, due.consumer, "its lease ended", false, out);
  } else if (due.kind == DueKind::kConsumerPark) {
    if (session->poll.parked) AnswerParked(now, *session, out);
  } else if (due.kind == DueKind::kConsumerReach) {
    sessions_.ForgetAvoided(now, *session);
    choice_.MarkStale();
  }
  // kConsumerQuiet: `Settle` sees that it has been silent for long enough.
  // kIterationSeeks, which has no consumer: `Settle` goes on.
}

void Iteration::AnswerParked(Time now, ConsumerSession& session, Effects& out) {
  LOCKSTEP_DCHECK(session.poll.parked.has_value());
  const std::optional<CallId> call = sessions_.Unpark(session);
  session.poll.dirty = false;
  // Its lease counts from what it was last told, too.
  sessions_.Hear(now, session);
  out.Succeed(*call, AssignmentFor(now, session));
  // Behind the answer, which is of that version.
  session.poll.sent_version = session.poll.version;
}

Assignment Iteration::AssignmentFor(Time now, const ConsumerSession& session) {
  Assignment assignment{.service = state_.options.service,
                        .version = session.poll.version,
                        .phase = phase(),
                        .error = ledger_.progress().error};
  if (phase() == Phase::kResolving) {
    assignment.waits_for = WaitsForFiles(state_, spec().dataset, now);
  }
  // Phase and error are all there is to say.
  if (!ledger_.reading()) return assignment;
  mode_->FillAssignment(session, assignment);
  // Each worker once, however many grants name it.
  std::set<WorkerId> named;
  for (const Lane& lane : assignment.lanes) {
    for (const Grant& grant : lane.grants) named.insert(grant.worker);
  }
  for (const WorkerId id : named) {
    const Worker* const worker = state_.workers.Find(id);
    if (worker == nullptr) continue;
    assignment.workers.push_back(
        {.worker = id, .address = worker->address, .host_card = worker->host_card});
  }
  return assignment;
}

IterationRow Iteration::Row(Time now) const { return RowOf(parts_, *mode_, now); }

}  // namespace lockstep::dispatch
