#include "lockstep/data/dispatch/iteration_ledger.h"

#include <algorithm>
#include <type_traits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::dispatch {

namespace {

absl::Status Unfit(const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("a record of an iteration does not fit: ", what));
}

// Looked at one by one only where there are few: a program may hold many thousands.
constexpr size_t kGrantsLookedAt = 256;

// Whether each segment is in its pool, or in one grant, and never in two places.
bool AreGivenOnce(const TaskTable& tasks, const LaneTable& lanes) {
  size_t grants = 0;
  for (const auto& [id, lane] : lanes.all()) grants += lane.grants.size();
  if (grants > kGrantsLookedAt) return true;
  std::set<std::pair<TaskId, int64_t>> given;
  for (const auto& [id, lane] : lanes.all()) {
    for (const LaneGrant& grant : lane.grants) {
      const Pool* const pool = tasks.PoolOf(grant.task);
      if (pool == nullptr || grant.segment >= pool->next()) return false;
      if (!given.emplace(grant.task, grant.segment).second) return false;
      for (const SegmentRest& rest : pool->returned()) {
        if (rest.segment == grant.segment && !grant.done) return false;
      }
    }
  }
  return true;
}

// Each as its records would have made it: joined, then finished, then away.
void SnapshotConsumers(const IterationLedger& ledger, std::vector<Record>& out) {
  const ReadingPlace& end = ledger.progress().end;
  for (const auto& [id, consumer] : ledger.consumers()) {
    out.push_back(record::ConsumerJoined{.iteration = ledger.id(),
                                         .consumer = id,
                                         .name = consumer.name,
                                         .life = consumer.life,
                                         .index = consumer.index,
                                         .host = consumer.host,
                                         .pid = consumer.pid,
                                         .machine = consumer.machine,
                                         .started = consumer.started,
                                         .job = consumer.job});
    if (consumer.finished) {
      out.push_back(record::ConsumerFinished{.iteration = ledger.id(), .consumer = id, .end = end});
    }
    if (consumer.away) {
      out.push_back(record::ConsumerAway{
          .iteration = ledger.id(), .consumer = id, .ended = consumer.life == ConsumerLife(0)});
    }
  }
  ledger.departed().Snapshot(ledger.id(), out);
  const std::set<int32_t>& indices = ledger.progress().finished_indices;
  if (!indices.empty() || end != ReadingPlace{}) {
    out.push_back(record::FinishersKept{
        .iteration = ledger.id(), .indices = {indices.begin(), indices.end()}, .end = end});
  }
}

}  // namespace

IterationLedger::IterationLedger(const Options& options, IdCounter& ids, IterationId id,
                                 IterationSpec spec, Cursor start)
    : ids_(ids),
      id_(id),
      spec_(std::move(spec)),
      start_(std::move(start)),
      departed_(options.leavers_max),
      tasks_(spec_),
      lanes_(keeps_history(), options.rounds_history_max) {}

std::string IterationLedger::Name() const {
  return absl::StrCat(spec_.name, "#", spec_.repetition);
}

const ConsumerEntry* IterationLedger::Find(ConsumerId id) const {
  const auto found = consumers_.find(id);
  return found == consumers_.end() ? nullptr : &found->second;
}

const ConsumerEntry* IterationLedger::Find(const std::string& name) const {
  for (const auto& [id, consumer] : consumers_) {
    if (consumer.name == name) return &consumer;
  }
  return nullptr;
}

bool IterationLedger::HasConsumersThere() const {
  return std::any_of(consumers_.begin(), consumers_.end(),
                     [](const auto& entry) { return !entry.second.away; });
}

absl::Status IterationLedger::Start(std::shared_ptr<const Shape> shape) {
  if (phase() != Phase::kResolving) return Unfit("it has begun already");
  LOCKSTEP_DCHECK(shape != nullptr);
  shape_ = std::move(shape);
  progress_.phase = Phase::kReading;
  tasks_.Begin(shape_);
  // Exact order counts its grants from the cursor, and takes nothing from the pool.
  if (spec_.mode == Mode::kRounds && !tasks_.per_task()) {
    tasks_.Restart(TaskId(), start_.next, start_.rests);
  }
  return absl::OkStatus();
}

// Records of lanes alone go to the lanes; those that concern several parts are taken here.
absl::Status IterationLedger::Apply(const Record& any) {
  return std::visit(
      [this](const auto& r) {
        if constexpr (requires { ApplyOne(r); }) {
          return ApplyOne(r);
        } else if constexpr (requires { lanes_.Apply(r); }) {
          return lanes_.Apply(r);
        } else {
          return Unfit("it is none of an iteration");
        }
      },
      any);
}

absl::Status IterationLedger::ApplyOne(const record::IterationEnded& r) {
  progress_.phase = r.error == nullptr ? Phase::kFinished : Phase::kFailed;
  progress_.error = r.error;
  // Whoever comes back from an older place reads on.
  if (r.error == nullptr && keeps_history()) return absl::OkStatus();
  // Nothing is given any more; the consumers and the totals stay.
  lanes_.Clear();
  tasks_.Clear();
  seating_.Clear();
  return absl::OkStatus();
}

absl::Status IterationLedger::ApplyOne(const record::IterationReopened&) {
  // Without a shape nothing was kept that could be read again.
  if (phase() != Phase::kFinished || shape_ == nullptr) {
    return absl::InvalidArgumentError("what is reopened is not finished");
  }
  progress_.phase = Phase::kReading;
  tasks_.Begin(shape_);
  return absl::OkStatus();
}

absl::Status IterationLedger::ApplyOne(const record::LostAwaited&) {
  progress_.awaits_lost = true;
  return absl::OkStatus();
}

absl::Status IterationLedger::ApplyOne(const record::ConsumerJoined& r) {
  ids_.Note(r.consumer.value());
  ConsumerEntry& consumer = consumers_[r.consumer];
  consumer.id = r.consumer;
  consumer.name = r.name;
  consumer.life = r.life;
  consumer.index = r.index;
  consumer.host = r.host;
  consumer.pid = r.pid;
  consumer.machine = r.machine;
  consumer.started = r.started;
  consumer.job = r.job;
  // Whoever joins while it is read takes the index back; once it is over, the index tells who is
  // done.
  const bool over = phase() == Phase::kFinished || phase() == Phase::kFailed;
  if (over) {
    consumer.finished = progress_.finished_indices.count(r.index) > 0;
  } else {
    progress_.finished_indices.erase(r.index);
  }
  if (spec_.mode == Mode::kFirstCome && !over) lanes_.Add(LaneId(r.consumer.value()));
  return absl::OkStatus();
}

absl::Status IterationLedger::ApplyOne(const record::ConsumerReplaced& r) {
  const auto found = consumers_.find(r.consumer);
  if (found == consumers_.end()) return Unfit("the consumer is not known");
  ConsumerEntry& consumer = found->second;
  consumer.life = r.life;
  consumer.host = r.host;
  consumer.pid = r.pid;
  consumer.machine = r.machine;
  consumer.started = r.started;
  consumer.job = r.job;
  consumer.away = false;
  if (!r.name.empty()) consumer.name = r.name;
  // It goes on where it says, which may be before the end; not when all is over.
  if (phase() == Phase::kFinished) return absl::OkStatus();
  consumer.finished = false;
  progress_.finished_indices.erase(consumer.index);
  return absl::OkStatus();
}

absl::Status IterationLedger::ApplyOne(const record::ConsumerFinished& r) {
  const auto found = consumers_.find(r.consumer);
  if (found == consumers_.end()) return Unfit("the consumer is not known");
  found->second.finished = true;
  // By index, since the consumer may be gone before the others have finished.
  if (spec_.mode == Mode::kExact) progress_.finished_indices.insert(found->second.index);
  // The end of the iteration is where the last of them was.
  progress_.end = std::max(progress_.end, r.end);
  return absl::OkStatus();
}

// What the consumer did not acknowledge goes where the visitation says; what counted is remembered
// for its return.
absl::Status IterationLedger::ReturnGrants(const ConsumerEntry& consumer, const LaneState& lane) {
  DepartedConsumer departed{.id = consumer.id};
  int64_t seq = lane.first_seq - 1;
  for (const LaneGrant& grant : lane.grants) {
    ++seq;
    if (grant.done) continue;
    departed.seqs.push_back(seq);
    departed.elements.push_back(grant.acknowledged);
    if (tasks_.PoolOf(grant.task) == nullptr) return Unfit("a grant of no pool");
    // From what is acknowledged, from the beginning again, or for nobody.
    switch (spec_.visitation) {
      case Visitation::kExactlyOnce:
        tasks_.Return(grant.task, {.segment = grant.segment, .from = grant.acknowledged});
        break;
      case Visitation::kAtLeastOnce:
        tasks_.Return(grant.task, {.segment = grant.segment, .from = grant.from});
        break;
      case Visitation::kAtMostOnce:
        lanes_.Drop();
        break;
    }
  }
  if (!departed.seqs.empty()) departed_.Keep(consumer.name, std::move(departed));
  return absl::OkStatus();
}

absl::Status IterationLedger::ApplyOne(const record::ConsumerGone& r) {
  const ConsumerEntry* const consumer = Find(r.consumer);
  if (consumer == nullptr) return Unfit("the consumer is not known");
  const LaneId id(r.consumer.value());
  if (const LaneState* const lane = lanes().Find(id);
      spec_.mode == Mode::kFirstCome && lane != nullptr) {
    if (absl::Status status = ReturnGrants(*consumer, *lane); !status.ok()) return status;
    // After its grants were returned, which are in it.
    lanes_.Erase(id);
  }
  consumers_.erase(r.consumer);
  return absl::OkStatus();
}

absl::Status IterationLedger::ApplyOne(const record::ConsumerAway& r) {
  const auto found = consumers_.find(r.consumer);
  if (found == consumers_.end()) return absl::InvalidArgumentError("the consumer is not known");
  found->second.away = true;
  // No process comes back under this life.
  if (r.ended) found->second.life = ConsumerLife(0);
  return absl::OkStatus();
}

absl::Status IterationLedger::ApplyOne(const record::TaskAdded& r) {
  // Its pool is made of the shape.
  if (!shape_) return Unfit("a task before the iteration began");
  ids_.Note(r.task.value());
  tasks_.Add(r.task, {.home = r.home, .share = r.share, .starting_round = r.starting_round});
  if (spec_.mode == Mode::kRounds) {
    // The lane has the task's number, so that records name but one of them.
    lanes_.AddOfTask(LaneId(r.task.value()), r.task, std::max<int64_t>(0, r.starting_round));
  }
  return absl::OkStatus();
}

absl::Status IterationLedger::ApplyOne(const record::TaskStarted& r) {
  if (!tasks_.SetStartingRound(r.task, r.starting_round)) return Unfit("the task is not known");
  lanes_.StartInRound(LaneId(r.task.value()), r.starting_round);
  return absl::OkStatus();
}

absl::Status IterationLedger::ApplyOne(const record::SeatingAgreed& r) {
  seating_.Agree({.first_round = r.first_round, .consumers = r.consumers});
  return absl::OkStatus();
}

absl::Status IterationLedger::ApplyOne(const record::SeatingsTrimmed& r) {
  while (seating_.size() > 1 && seating_.all()[1].first_round <= r.first_round) {
    // The lanes count their turns from where the dropped seating ended: its width is lost then.
    const int64_t width = seating_.DropOldest().width();
    lanes_.MoveBases(seating_.oldest().first_round, width);
  }
  return absl::OkStatus();
}

absl::Status IterationLedger::ApplyOne(const record::Granted& r) {
  const LaneState* const lane = lanes().Find(r.lane);
  if (lane == nullptr || lane->next_seq() != r.seq) {
    return Unfit("a grant that is not the next of its lane");
  }
  // Looked at before, so that nothing is taken for a grant that is refused.
  if (!tasks_.Take(r.task, {.segment = r.segment, .from = r.from})) {
    return Unfit("a grant of what is not in the pool");
  }
  return lanes_.Push(r.lane, r.seq,
                     {.task = r.task,
                      .segment = r.segment,
                      .from = r.from,
                      .acknowledged = r.from,
                      .elements = shape_->ElementsOf(r.segment).value_or(-1)});
}

absl::Status IterationLedger::ApplyOne(const record::Acknowledged& r) {
  const LaneState* const lane = lanes().Find(r.lane);
  const LaneGrant* const grant = lane == nullptr ? nullptr : lane->Find(r.seq);
  if (grant == nullptr) return Unfit("an acknowledgement of no grant");
  const auto consumer = consumers_.find(ConsumerId(r.lane.value()));
  // Before the lane, which forgets the grant when it is done.
  if (consumer != consumers_.end()) consumer->second.elements += r.elements - grant->acknowledged;
  return lanes_.Apply(r);
}

absl::Status IterationLedger::ApplyOne(const record::HistoryReturned& r) {
  lanes_.ReturnPast(r.round, seating_, tasks_.per_task());
  return absl::OkStatus();
}

absl::Status IterationLedger::ApplyOne(const record::PoolKept& r) {
  // Behind what makes the pool: the iteration's beginning, or the task.
  if (!tasks_.Restart(r.task, r.next, r.returned)) return Unfit("no such pool");
  return absl::OkStatus();
}

absl::Status IterationLedger::ApplyOne(const record::LaneKept& r) {
  // Behind its task, which says from which round on it is read.
  if (spec_.mode == Mode::kRounds && tasks_.Find(r.task) == nullptr) {
    return Unfit("a lane of no task");
  }
  return lanes_.Apply(r);
}

absl::Status IterationLedger::ApplyOne(const record::GrantKept& r) {
  // What is not acknowledged of it goes back there.
  if (tasks_.PoolOf(r.task) == nullptr) return Unfit("a grant of no pool");
  return lanes_.Apply(r);
}

absl::Status IterationLedger::ApplyOne(const record::LeaverKept& r) {
  if (r.seqs.size() != r.elements.size()) return Unfit("grants without their counts");
  departed_.Keep(r.name, {.id = r.consumer, .seqs = r.seqs, .elements = r.elements});
  return absl::OkStatus();
}

absl::Status IterationLedger::ApplyOne(const record::FinishersKept& r) {
  // Behind the consumers, each of which took its index out when it joined.
  progress_.finished_indices.insert(r.indices.begin(), r.indices.end());
  progress_.end = r.end;
  return absl::OkStatus();
}

void IterationLedger::Snapshot(std::vector<Record>& out) const {
  out.push_back(record::IterationOpened{.iteration = id_, .spec = spec_});
  // Exact order needs no more than its shape to be read again.
  const bool kept = reading() || (phase() == Phase::kFinished && keeps_history());
  if (shape_ && (kept || (phase() == Phase::kFinished && spec_.mode == Mode::kExact))) {
    out.push_back(record::IterationStarted{.iteration = id_});
  }
  if (progress_.awaits_lost) out.push_back(record::LostAwaited{.iteration = id_});
  // Consumers come before who has finished, since one that joins takes its index back; tasks before
  // their lanes; and the end last, since nothing but it is taken from an iteration that is over.
  SnapshotConsumers(*this, out);
  tasks_.Snapshot(id_, out);
  seating_.Snapshot(id_, out);
  if (kept) {
    lanes_.SnapshotLanes(id_, out);
    lanes_.SnapshotPasts(id_, out);
  }
  lanes_.SnapshotTotals(id_, out);
  if (phase() == Phase::kFinished || phase() == Phase::kFailed) {
    out.push_back(record::IterationEnded{.iteration = id_, .error = progress_.error});
  }
}

bool IterationLedger::Holds() const {
  return lanes_.Holds() && tasks_.Holds() && seating_.Holds() && AreGivenOnce(tasks_, lanes_) &&
         (phase() == Phase::kFailed) == (progress_.error != nullptr) &&
         (phase() != Phase::kReading || shape_ != nullptr);
}

}  // namespace lockstep::dispatch
