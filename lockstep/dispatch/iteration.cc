#include "lockstep/dispatch/iteration.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/dispatch/failure_kind.h"

namespace lockstep::dispatch {

Iteration::Iteration(Environment& env, IterationId id, IterationSpec spec, Cursor start)
    : env_(env),
      id_(id),
      spec_(std::move(spec)),
      start_(std::move(start)),
      departed_(env.options.leavers_max) {}

std::string Iteration::Name() const { return absl::StrCat(spec_.name, "#", spec_.repetition); }

bool Iteration::HasConsumer(const std::string& name, ConsumerLife life) const {
  return std::any_of(consumers_.begin(), consumers_.end(), [&](const auto& entry) {
    return entry.second.name == name && entry.second.life == life;
  });
}

Iteration::Consumer* Iteration::Find(ConsumerId id) {
  const auto found = consumers_.find(id);
  return found == consumers_.end() ? nullptr : &found->second;
}

Iteration::Consumer* Iteration::FindByName(const std::string& name) {
  for (auto& [id, consumer] : consumers_) {
    if (consumer.name == name) return &consumer;
  }
  return nullptr;
}

ErrorPtr Iteration::CheckOpen(const OpenIteration& request, const Consumer* known) const {
  if (phase_ == Phase::kFailed) return error_;
  if (spec_.mode == Mode::kFirstCome) return nullptr;
  for (const auto& [id, other] : consumers_) {
    if (&other != known && !other.away && request.index >= 0 && other.index == request.index) {
      return MakeError(absl::StatusCode::kAlreadyExists, reason::kConsumerIndexTaken,
                       absl::StrCat("consumer ", request.index, " of iteration ", Name(), " is ",
                                    other.name, " on ", other.host, " (pid ", other.pid,
                                    "), so it cannot be ", request.consumer));
    }
  }
  if (spec_.mode == Mode::kExact && phase_ != Phase::kFinished && known == nullptr &&
      request.index < 0) {
    std::set<int32_t> taken = finished_indices_;
    for (const auto& [id, other] : consumers_) taken.insert(other.index);
    if (static_cast<int32_t>(taken.size()) >= spec_.consumers) {
      return MakeError(
          absl::StatusCode::kAlreadyExists, reason::kConsumerIndexTaken,
          absl::StrCat("iteration ", Name(), " has its ", spec_.consumers,
                       " consumers in exact order, so there is no place for ", request.consumer));
    }
  }
  return CheckPlace(request, known);
}

void Iteration::Open(Time now, const OpenIteration& request, Effects& out) {
  Mark();
  Consumer* known = Predecessor(request);
  if (ErrorPtr error = CheckOpen(request, known); error != nullptr) {
    return out.Fail(request.call, std::move(error));
  }
  if (known == nullptr && consumers_.size() >= env_.options.consumers_max) {
    return out.Fail(request.call,
                    MakeError(absl::StatusCode::kResourceExhausted, reason::kLimitReached,
                              absl::StrCat("iteration ", Name(), " has ", consumers_.size(),
                                           " consumers (consumers_max)")));
  }
  IterationOpened answer{.iteration = id_, .name = spec_.name};
  if (request.member || request.from || !spec_.cursor.empty()) AwaitLost(out);
  const bool has_places = spec_.mode != Mode::kFirstCome;
  if (phase_ == Phase::kFinished && has_places && request.from && PlaceOf(request, known) < end_) {
    Reopen(out);
  }
  if (known != nullptr && (known->life != request.life || known->away)) {
    known = Replace(now, *known, request, out);
  }
  if (known == nullptr) {
    known = &Join(now, request, out);
  }
  answer.lease_had_ended = departed_.Has(request.consumer);
  answer.counted = departed_.CountedOf(request.consumer);
  TakeAcks(request.have, *known, out);
  Hear(now, *known);
  Touch(*known);
  answer.consumer = known->id;
  answer.index = known->index;
  out.Succeed(request.call, std::move(answer));
}

Iteration::Consumer& Iteration::Join(Time now, const OpenIteration& request, Effects& out) {
  int32_t index = request.index;
  if (index < 0 && spec_.mode != Mode::kFirstCome) {
    std::set<int32_t> taken = finished_indices_;
    for (const auto& [id, other] : consumers_) taken.insert(other.index);
    for (index = 0; taken.count(index) > 0;) ++index;
  }
  const ConsumerId id(env_.NextId());
  Commit(record::ConsumerJoined{.consumer = id,
                                .name = request.consumer,
                                .life = request.life,
                                .index = index,
                                .host = request.host,
                                .pid = request.pid,
                                .machine = request.machine,
                                .started = request.started},
         out);
  env_.deadlines.Clear(DueOf(DueKind::kIterationIdle));
  out.Tell(Severity::kInfo,
           absl::StrCat("consumer ", request.consumer, " reads iteration ", Name()));
  Consumer& consumer = *Find(id);
  Hear(now, consumer);
  TouchAll();
  return consumer;
}

void Iteration::Poll(Time now, const ConsumerPoll& request, Effects& out) {
  Mark();
  Consumer* consumer = Find(request.consumer);
  if (consumer == nullptr) {
    return out.Fail(request.call, MakeError(absl::StatusCode::kNotFound, reason::kUnknownConsumer,
                                            absl::StrCat("iteration ", Name(), " has no consumer ",
                                                         request.consumer.value(),
                                                         ": it left, or its lease ended")));
  }
  if (consumer->life != request.life && consumer->away) {
    return out.Fail(request.call,
                    MakeError(absl::StatusCode::kAborted, reason::kConsumerLeaseEnded,
                              absl::StrCat("consumer ", consumer->name, " of iteration ", Name(),
                                           " was lost, and its place waits for another process")));
  }
  if (consumer->life != request.life) {
    return out.Fail(request.call,
                    MakeError(absl::StatusCode::kAborted, reason::kConsumerReplaced,
                              absl::StrCat("consumer ", consumer->name, " of iteration ", Name(),
                                           " is another process now, on ", consumer->host, " (pid ",
                                           consumer->pid, ")")));
  }
  if (consumer->away) TakeBack(*consumer, out);
  if (request.keeps_cursors) AwaitLost(out);
  if (consumer->parked) AnswerParked(now, *consumer, out);
  Hear(now, *consumer);
  consumer->parked = request.call;
  env_.parked[request.call] = {.iteration = id_, .consumer = consumer->id};
  const absl::Duration wait = std::min(request.wait, env_.options.poll_wait_max);
  // Without a wait it is answered behind what this very poll changes.
  if (wait > absl::ZeroDuration()) {
    env_.deadlines.Set(DueOf(DueKind::kConsumerPark, consumer->id), now + wait);
  }
  const bool seen = request.service == env_.options.service && request.after == consumer->version;
  if (!seen || wait <= absl::ZeroDuration()) consumer->dirty = true;

  if (spec_.mode == Mode::kFirstCome && phase_ == Phase::kReading) {
    TakeAcks(request.acks, *consumer, out);
  }
  if (request.number <= consumer->poll_number) return;
  consumer->poll_number = request.number;
  consumer->waits_for = request.waits_for;
  consumer->element_time = request.element_time;
  for (const WorkerId worker : request.unreachable) {
    if (env_.workers.Find(worker) == nullptr) continue;
    consumer->avoid[worker] = now + env_.options.unreachable_for;
    env_.deadlines.Set(DueOf(DueKind::kConsumerReach, consumer->id),
                       now + env_.options.unreachable_for);
    choose_workers_ = true;
    Touch(*consumer);
    out.Tell(Severity::kWarning,
             absl::StrCat("consumer ", consumer->name, " of iteration ", Name(),
                          " cannot reach the worker at ", env_.workers.Find(worker)->address));
  }
  if (phase_ != Phase::kReading) return;
  for (const SegmentFailure& failure : request.failures) {
    TakeFailure(now, failure, out);
    if (phase_ != Phase::kReading) return;
  }
  if (spec_.mode == Mode::kFirstCome) return TakeHeld(request, *consumer);
  TakeProgress(request, *consumer, out);
  if (request.finished && !consumer->finished) {
    Commit(record::ConsumerFinished{.consumer = consumer->id, .end = request.end}, out);
  }
}

void Iteration::TakeProgress(const ConsumerPoll& request, Consumer& consumer, Effects& out) {
  for (const LaneProgress& progress : request.progress) {
    int64_t seq = progress.seq;
    int64_t needs = progress.needs;
    if (spec_.mode == Mode::kExact) {
      if (progress.lane != LaneId()) continue;
      seq = std::min(seq, ExactSegments());
      needs = std::min(needs, seq + env_.options.exact_needs_max);
    } else {
      const auto lane = lanes_.find(progress.lane);
      if (lane == lanes_.end()) continue;
      seq = std::min(seq, lane->second.next_seq());
      needs = std::min(needs, lane->second.next_seq());
    }
    LaneProgress& known = consumer.progress[progress.lane];
    known.lane = progress.lane;
    known.seq = std::max(known.seq, seq);
    if (needs <= known.needs) continue;
    known.needs = needs;
    // What it needs is given to it whatever the window is.
    if (spec_.mode == Mode::kExact) Touch(consumer);
  }
  if (spec_.mode == Mode::kRounds) {
    for (const SegmentCount& count : request.counts) {
      const auto lane = lanes_.find(count.lane);
      if (lane == lanes_.end()) continue;
      const Given* given = lane->second.Find(count.seq);
      if (given == nullptr || given->elements >= 0) continue;
      if (count.elements > shape_->ElementsMost(given->segment)) continue;
      Commit(record::Counted{.lane = count.lane, .seq = count.seq, .elements = count.elements},
             out);
      TouchAll();
    }
    TakeRounds(request, consumer);
  }
}

// Which round it has begun: none that nobody can have begun.
void Iteration::NoteRound(Consumer& consumer, int64_t round) {
  if (round <= consumer.round) return;
  if (round > latest_round_) round = std::min(round, std::max(agreed_round_, ReachableRound()));
  consumer.round = std::max(consumer.round, round);
  latest_round_ = std::max(latest_round_, consumer.round);
}

void Iteration::Close(Time now, const CloseConsumer& request, Effects& out) {
  Mark();
  Consumer* consumer = Find(request.consumer);
  if (consumer != nullptr && consumer->life == request.life) {
    if (phase_ == Phase::kReading) {
      TakeAcks(request.acks, *consumer, out);
      // What it has read nobody reads again: the others begin a round without it behind this one.
      if (spec_.mode == Mode::kRounds) NoteRound(*consumer, request.round);
      if (request.finished && !consumer->finished) {
        Commit(record::ConsumerFinished{.consumer = consumer->id, .end = request.end}, out);
        CheckFinished(now, out);
      }
    }
    FailParked(*consumer,
               MakeError(absl::StatusCode::kCancelled, reason::kCancelled,
                         absl::StrCat("consumer ", consumer->name, " has left iteration ", Name())),
               out);
    if (!SetAway(now, *consumer, "it has closed its reader", true, out)) {
      Remove(now, consumer->id, false, out);
    }
  }
  out.Succeed(request.call, ConsumerClosed{});
}

void Iteration::Remove(Time now, ConsumerId id, bool lease_ended, Effects& out) {
  Consumer& consumer = *Find(id);
  out.Tell(lease_ended ? Severity::kWarning : Severity::kInfo,
           absl::StrCat("consumer ", consumer.name, " has left iteration ", Name(),
                        lease_ended ? ": its lease ended" : ""));
  Unpark(consumer);
  ClearDeadlines(id);
  agreement_.Forget(id);
  if (const auto lane = lanes_.find(LaneId(id.value()));
      spec_.mode == Mode::kFirstCome && lane != lanes_.end()) {
    for (Given& given : lane->second.grants) SetWorker(given, WorkerId());
  }
  Commit(record::ConsumerGone{.consumer = id, .lease_ended = lease_ended}, out);
  TouchAll();
  SetIdle(now);
}

void Iteration::ClearDeadlines(ConsumerId id) {
  for (const DueKind kind : {DueKind::kConsumerLease, DueKind::kConsumerPark,
                             DueKind::kConsumerQuiet, DueKind::kConsumerReach}) {
    env_.deadlines.Clear(DueOf(kind, id));
  }
}

void Iteration::SetIdle(Time now) {
  if (has_consumers()) return;
  absl::Duration after = env_.options.iteration_timeout;
  if (phase_ == Phase::kFinished) after = env_.options.finished_timeout;
  if (phase_ == Phase::kFailed) after = env_.options.consumer_timeout;
  env_.deadlines.Set(DueOf(DueKind::kIterationIdle), now + after);
}

void Iteration::Hear(Time now, Consumer& consumer) {
  consumer.heard = now;
  env_.deadlines.Set(DueOf(DueKind::kConsumerLease, consumer.id),
                     now + env_.options.consumer_timeout);
  if (spec_.mode == Mode::kRounds) {
    env_.deadlines.Set(DueOf(DueKind::kConsumerQuiet, consumer.id),
                       now + env_.options.consumer_grace);
  }
}

void Iteration::Touch(Consumer& consumer) {
  ++consumer.version;
  consumer.dirty = true;
  Mark();
}

void Iteration::TouchAll() {
  for (auto& [id, consumer] : consumers_) Touch(consumer);
  Mark();
}

void Iteration::Unpark(Consumer& consumer) {
  if (!consumer.parked) return;
  env_.parked.erase(*consumer.parked);
  consumer.parked.reset();
  env_.deadlines.Clear(DueOf(DueKind::kConsumerPark, consumer.id));
}

void Iteration::AnswerParked(Time now, Consumer& consumer, Effects& out) {
  const CallId call = *consumer.parked;
  Unpark(consumer);
  consumer.dirty = false;
  // Its lease counts from what it was last told, too.
  Hear(now, consumer);
  Assignment assignment = AssignmentFor(consumer);
  if (phase_ == Phase::kResolving) assignment.waits_for = WaitsForFiles(now);
  out.Succeed(call, std::move(assignment));
  consumer.sent_version = consumer.version;
}

void Iteration::FailParked(Consumer& consumer, const ErrorPtr& error, Effects& out) {
  if (!consumer.parked) return;
  const CallId call = *consumer.parked;
  Unpark(consumer);
  out.Fail(call, error);
}

// Whether the failure is of a segment that somebody may ask for.
bool Iteration::IsGranted(const SegmentFailure& failure) {
  if (spec_.mode == Mode::kExact) {
    return failure.seq >= slowest_ && failure.seq < ExactSegments() &&
           failure.seq - slowest_ <= env_.options.exact_needs_max &&
           ExactSegment(failure.seq).segment == failure.segment;
  }
  const auto lane = lanes_.find(failure.lane);
  const Given* given = lane == lanes_.end() ? nullptr : lane->second.Find(failure.seq);
  return given != nullptr && !given->done && given->segment == failure.segment;
}

void Iteration::TakeFailure(Time now, const SegmentFailure& failure, Effects& out) {
  if (failure.error == nullptr || !IsGranted(failure)) return;
  const Worker* worker = env_.workers.Find(failure.worker);
  const std::string where =
      absl::StrCat("segment ", failure.segment, " of iteration ", Name(), " on the worker at ",
                   worker == nullptr ? "an address that is not known any more" : worker->address);
  const FailureKind kind = KindOf(*failure.error);
  if (IsDeterministic(kind)) {
    return End(now,
               MakeError(failure.error->code, failure.error->reason,
                         absl::StrCat(where, ": ", failure.error->message)),
               out);
  }
  std::map<WorkerId, int32_t>& by_worker = failures_[failure.segment];
  ++by_worker[failure.worker];
  int32_t tries = 0;
  for (const auto& [id, count] : by_worker) tries += count;
  out.Tell(Severity::kWarning, absl::StrCat(where, " failed: ", failure.error->message));
  if (tries >= env_.options.segment_tries) {
    return End(now,
               MakeError(failure.error->code,
                         // As `local()` says it.
                         kind == FailureKind::kFunction ? std::string_view(failure.error->reason)
                                                        : reason::kSegmentFailed,
                         absl::StrCat(where, " failed ", tries, " times, at last with ",
                                      failure.error->reason, ": ", failure.error->message)),
               out);
  }
  choose_workers_ = true;
  TouchAll();
}

void Iteration::Start(Time now, std::shared_ptr<const Shape> shape, Effects& out) {
  if (phase_ != Phase::kResolving) return;
  if (spec_.sharding == Sharding::kStaticFile && shape->files() < spec_.shares) {
    return End(now,
               MakeError(absl::StatusCode::kInvalidArgument, reason::kTooFewFiles,
                         absl::StrCat("iteration ", Name(), " is shared out by file to ",
                                      spec_.shares, " workers, but there are ", shape->files(),
                                      " files: share it out by data")),
               out);
  }
  if (start_.next > shape->segments()) {
    return End(
        now,
        MakeError(absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch,
                  absl::StrCat("the cursor with which iteration ", Name(), " begins is at segment ",
                               start_.next, ", and its dataset has ", shape->segments(),
                               ": take the cursor of this dataset as it is now")),
        out);
  }
  const absl::Status applied = ApplyStarted(std::move(shape));
  LOCKSTEP_CHECK(applied.ok());
  out.records.push_back(record::IterationStarted{.iteration = id_});
  out.Tell(Severity::kInfo, absl::StrCat("iteration ", Name(), " begins"));
  if (spec_.sharding == Sharding::kStaticData || spec_.sharding == Sharding::kStaticFile) {
    for (int32_t share = 0; share < spec_.shares; ++share) {
      Commit(record::TaskAdded{.task = TaskId(env_.NextId()), .share = share}, out);
    }
  }
  for (const auto& [id, worker] : env_.workers.all()) AddTaskFor(worker, out);
  choose_workers_ = true;
  TouchAll();
}

void Iteration::End(Time now, ErrorPtr error, Effects& out) {
  if (phase_ != Phase::kResolving && phase_ != Phase::kReading) return;
  for (auto& [id, lane] : lanes_) {
    if (spec_.mode != Mode::kFirstCome) break;
    for (Given& given : lane.grants) SetWorker(given, WorkerId());
  }
  if (error == nullptr) {
    out.Tell(Severity::kInfo,
             absl::StrCat("iteration ", Name(), " is finished: ", segments_done_, " segments"));
  } else {
    out.Tell(Severity::kError, absl::StrCat("iteration ", Name(), " failed: ", error->message));
  }
  Commit(record::IterationEnded{.error = std::move(error)}, out);
  agreement_.End();
  change_.reset();
  shares_.clear();
  exact_workers_.clear();
  failures_.clear();
  env_.workers.TouchAll();
  TouchAll();
  SetIdle(now);
}

void Iteration::Abandon(Time /*now*/, const ErrorPtr& why, Effects& out) {
  for (auto& [id, consumer] : consumers_) {
    FailParked(consumer, why, out);
    ClearDeadlines(id);
  }
  env_.deadlines.Clear(DueOf(DueKind::kIterationIdle));
}

void Iteration::ForgetCall(ConsumerId id) {
  if (Consumer* consumer = Find(id); consumer != nullptr) {
    consumer->parked.reset();
    env_.deadlines.Clear(DueOf(DueKind::kConsumerPark, id));
    Mark();
  }
}

std::string Iteration::WaitsForFiles(Time now) const {
  if (env_.workers.empty()) return "a worker that lists the dataset's files: there is none";
  const auto resolving = env_.resolving.find(spec_.dataset);
  const Worker* worker =
      resolving == env_.resolving.end() ? nullptr : env_.workers.Find(resolving->second.worker);
  if (worker == nullptr) return "a worker that lists the dataset's files";
  return absl::StrCat(
      "the worker at ", worker->address, ", which lists the dataset's files, for ",
      absl::FormatDuration(absl::Floor(now - resolving->second.since, absl::Seconds(1))), " now");
}

void Iteration::ConsumerLinkEnded(Time now, ConsumerId id) {
  if (Consumer* consumer = Find(id); consumer != nullptr) {
    // A poll that is parked came over another link, or its `CallLeft` comes.
    if (consumer->parked || consumer->away) return;
    if (spec_.mode == Mode::kRounds) {
      env_.deadlines.Set(DueOf(DueKind::kConsumerQuiet, id), now + env_.options.consumer_grace);
    }
    Mark();
  }
}

void Iteration::ReachDue(Time now, const Due& due, Effects& out) {
  Mark();
  Consumer* consumer = Find(due.consumer);
  if (consumer == nullptr) return;
  if (due.kind == DueKind::kConsumerLease) {
    Lose(now, *consumer, "its lease ended", false, out);
  } else if (due.kind == DueKind::kConsumerPark) {
    if (consumer->parked) AnswerParked(now, *consumer, out);
  } else if (due.kind == DueKind::kConsumerReach) {
    Time next = Time::Infinite();
    for (auto it = consumer->avoid.begin(); it != consumer->avoid.end();) {
      if (it->second <= now) {
        it = consumer->avoid.erase(it);
      } else {
        next = std::min(next, it->second);
        ++it;
      }
    }
    env_.deadlines.Set(due, next);
    choose_workers_ = true;
    Touch(*consumer);
  }
}

void Iteration::Restored(Time now) {
  for (auto& [id, consumer] : consumers_) {
    if (!consumer.away) Hear(now, consumer);
  }
  choose_workers_ = true;
  for (const AgreedSeating& seating : seating_.all()) {
    agreed_round_ = std::max(agreed_round_, seating.first_round);
  }
  for (const auto& [id, task] : tasks_) {
    agreed_round_ = std::max(agreed_round_, task.starting_round);
  }
  NoteUnsaid();
  SetIdle(now);
  Mark();
}

void Iteration::Settle(Time now, Effects& out) {
  if (phase_ == Phase::kReading) {
    switch (spec_.mode) {
      case Mode::kFirstCome:
        TopUpFirstCome(out);
        if (choose_workers_) ChooseWorkers();
        TellHolders();
        break;
      case Mode::kExact: {
        if (choose_workers_) TouchAll();
        const int64_t slowest = Slowest();
        if (slowest != slowest_) {
          slowest_ = slowest;
          exact_workers_.erase(exact_workers_.begin(), exact_workers_.lower_bound(slowest));
          TouchAll();
        }
        break;
      }
      case Mode::kRounds:
        if (choose_workers_) TouchAll();
        Agree(now, out);
        TrimLanes(out);
        TopUpRounds(out);
        break;
    }
    choose_workers_ = false;
    CheckFinished(now, out);
  }
  for (auto& [id, consumer] : consumers_) {
    if (consumer.dirty && consumer.parked) AnswerParked(now, consumer, out);
  }
}

}  // namespace lockstep::dispatch
