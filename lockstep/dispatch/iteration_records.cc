// Applies records to an iteration, and says which records make it.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lockstep/dispatch/iteration.h"

namespace lockstep::dispatch {

namespace {

absl::Status Wrong(const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("a record of an iteration does not fit: ", what));
}

}  // namespace

absl::Status Iteration::ApplyStarted(std::shared_ptr<const Shape> shape) {
  if (phase_ != Phase::kResolving) return Wrong("it has begun already");
  shape_ = std::move(shape);
  phase_ = Phase::kReading;
  if (!has_pools()) {
    pool_.emplace(shape_, Share{});
    if (spec_.mode == Mode::kRounds) pool_->Begin(start_.next, start_.rests);
  }
  return absl::OkStatus();
}

absl::Status Iteration::Apply(const Record& any) {
  return std::visit(
      [this](const auto& r) {
        if constexpr (requires { ApplyOne(r); }) {
          return ApplyOne(r);
        } else {
          return Wrong("it is none of an iteration");
        }
      },
      any);
}

absl::Status Iteration::ApplyOne(const record::IterationEnded& r) {
  phase_ = r.error == nullptr ? Phase::kFinished : Phase::kFailed;
  error_ = r.error;
  // Whoever comes back from an older place reads on.
  if (r.error == nullptr && keeps_history()) return absl::OkStatus();
  lanes_.clear();
  tasks_.clear();
  seating_.Clear();
  pool_.reset();
  return absl::OkStatus();
}

absl::Status Iteration::ApplyOne(const record::ConsumerJoined& r) {
  env_.NoteId(r.consumer.value());
  Consumer& consumer = consumers_[r.consumer];
  consumer.id = r.consumer;
  consumer.name = r.name;
  consumer.life = r.life;
  consumer.index = r.index;
  consumer.host = r.host;
  consumer.pid = r.pid;
  consumer.machine = r.machine;
  consumer.started = r.started;
  const bool over = phase_ == Phase::kFinished || phase_ == Phase::kFailed;
  if (over) {
    consumer.finished = finished_indices_.count(r.index) > 0;
  } else {
    finished_indices_.erase(r.index);
  }
  if (spec_.mode == Mode::kFirstCome && !over) lanes_[LaneId(r.consumer.value())];
  return absl::OkStatus();
}

absl::Status Iteration::ApplyOne(const record::ConsumerReplaced& r) {
  Consumer* consumer = Find(r.consumer);
  if (consumer == nullptr) return Wrong("the consumer is not known");
  consumer->life = r.life;
  consumer->host = r.host;
  consumer->pid = r.pid;
  consumer->machine = r.machine;
  consumer->started = r.started;
  consumer->away = false;
  if (!r.name.empty()) consumer->name = r.name;
  // It goes on where it says, which may be before the end; not when all is over.
  if (phase_ == Phase::kFinished) return absl::OkStatus();
  consumer->finished = false;
  finished_indices_.erase(consumer->index);
  return absl::OkStatus();
}

absl::Status Iteration::ApplyOne(const record::ConsumerFinished& r) {
  Consumer* consumer = Find(r.consumer);
  if (consumer == nullptr) return Wrong("the consumer is not known");
  consumer->finished = true;
  if (spec_.mode == Mode::kExact) finished_indices_.insert(consumer->index);
  end_ = std::max(end_, r.end);
  return absl::OkStatus();
}

absl::Status Iteration::ApplyOne(const record::ConsumerGone& r) {
  const Consumer* consumer = Find(r.consumer);
  if (consumer == nullptr) return Wrong("the consumer is not known");
  const LaneId id(r.consumer.value());
  if (const auto lane = lanes_.find(id); spec_.mode == Mode::kFirstCome && lane != lanes_.end()) {
    DepartedConsumer departed{.id = r.consumer};
    for (size_t i = 0; i < lane->second.grants.size(); ++i) {
      const Given& given = lane->second.grants[i];
      if (given.done) continue;
      departed.seqs.push_back(lane->second.first_seq + static_cast<int64_t>(i));
      departed.elements.push_back(given.acknowledged);
      Pool* pool = PoolOf(given.task);
      if (pool == nullptr) return Wrong("a grant of no pool");
      switch (spec_.visitation) {
        case Visitation::kExactlyOnce:
          pool->Return({.segment = given.segment, .from = given.acknowledged});
          break;
        case Visitation::kAtLeastOnce:
          pool->Return({.segment = given.segment, .from = given.from});
          break;
        case Visitation::kAtMostOnce:
          ++segments_dropped_;
          break;
      }
    }
    if (!departed.seqs.empty()) departed_.Keep(consumer->name, std::move(departed));
    lanes_.erase(lane);
  }
  consumers_.erase(r.consumer);
  return absl::OkStatus();
}

absl::Status Iteration::ApplyOne(const record::TaskAdded& r) {
  if (!shape_) return Wrong("a task before the iteration began");
  env_.NoteId(r.task.value());
  Task& task = tasks_[r.task];
  task.home = r.home;
  task.share = r.share;
  task.starting_round = r.starting_round;
  if (spec_.sharding == Sharding::kOff) {
    task.pool.emplace(shape_, Share{});
  } else if (has_pools()) {
    task.pool.emplace(shape_, Share{.index = r.share,
                                    .count = spec_.shares,
                                    .by_file = spec_.sharding == Sharding::kStaticFile});
  }
  if (spec_.mode == Mode::kRounds) {
    LaneState& lane = lanes_[LaneId(r.task.value())];
    lane.task = r.task;
    lane.base.round = std::max<int64_t>(0, r.starting_round);
  }
  return absl::OkStatus();
}

absl::Status Iteration::ApplyOne(const record::TaskStarted& r) {
  const auto task = tasks_.find(r.task);
  if (task == tasks_.end()) return Wrong("the task is not known");
  task->second.starting_round = r.starting_round;
  lanes_[LaneId(r.task.value())].base.round = r.starting_round;
  return absl::OkStatus();
}

absl::Status Iteration::ApplyOne(const record::SeatingAgreed& r) {
  seating_.Agree({.first_round = r.first_round, .consumers = r.consumers});
  return absl::OkStatus();
}

absl::Status Iteration::ApplyOne(const record::SeatingsTrimmed& r) {
  while (seating_.size() > 1 && seating_.all()[1].first_round <= r.first_round) {
    const int64_t width = seating_.DropOldest().width();
    const int64_t until = seating_.oldest().first_round;
    for (auto& [id, lane] : lanes_) {
      if (lane.base.round >= until) continue;
      lane.base.element += (until - lane.base.round) * width;
      lane.base.round = until;
    }
  }
  return absl::OkStatus();
}

absl::Status Iteration::ApplyOne(const record::Granted& r) {
  const auto lane = lanes_.find(r.lane);
  if (lane == lanes_.end() || lane->second.next_seq() != r.seq) {
    return Wrong("a grant that is not the next of its lane");
  }
  Pool* pool = PoolOf(r.task);
  if (pool == nullptr || !pool->Take({.segment = r.segment, .from = r.from})) {
    return Wrong("a grant of what is not in the pool");
  }
  lane->second.grants.push_back({.task = r.task,
                                 .segment = r.segment,
                                 .from = r.from,
                                 .acknowledged = r.from,
                                 .elements = shape_->ElementsOf(r.segment).value_or(-1)});
  return absl::OkStatus();
}

absl::Status Iteration::ApplyOne(const record::Acknowledged& r) {
  const auto lane = lanes_.find(r.lane);
  Given* given = lane == lanes_.end() ? nullptr : lane->second.Find(r.seq);
  if (given == nullptr) return Wrong("an acknowledgement of no grant");
  const int64_t more = r.elements - given->acknowledged;
  elements_done_ += more;
  if (Consumer* consumer = Find(ConsumerId(r.lane.value())); consumer != nullptr) {
    consumer->elements += more;
  }
  given->acknowledged = r.elements;
  given->done = r.done;
  if (r.done) ++segments_done_;
  LaneState& state = lane->second;
  while (!state.grants.empty() && state.grants.front().done) {
    state.grants.pop_front();
    ++state.first_seq;
  }
  return absl::OkStatus();
}

absl::Status Iteration::ApplyOne(const record::LaneTrimmed& r) {
  const auto lane = lanes_.find(r.lane);
  if (lane == lanes_.end() || r.seq > lane->second.next_seq()) {
    return Wrong("the lane is not so long");
  }
  LaneState& state = lane->second;
  while (state.first_seq < r.seq) {
    const Given& given = state.grants.front();
    elements_done_ += std::max<int64_t>(0, given.elements - given.from);
    ++segments_done_;
    if (keeps_history()) {
      KeepPast(state, {.segment = given.segment, .from = given.from, .elements = given.elements});
    }
    state.grants.pop_front();
    ++state.first_seq;
  }
  state.first_element = r.first_element;
  return absl::OkStatus();
}

absl::Status Iteration::ApplyOne(const record::LaneClosed& r) {
  lanes_[r.lane].closed = true;
  return absl::OkStatus();
}

absl::Status Iteration::ApplyOne(const record::Counted& r) {
  const auto lane = lanes_.find(r.lane);
  Given* given = lane == lanes_.end() ? nullptr : lane->second.Find(r.seq);
  if (given == nullptr) return Wrong("a count of no grant");
  given->elements = r.elements;
  return absl::OkStatus();
}

absl::Status Iteration::ApplyOne(const record::PoolKept& r) {
  Pool* pool = PoolOf(r.task);
  if (pool == nullptr) return Wrong("no such pool");
  *pool = Pool(shape_, PoolShare(r.task));
  pool->Begin(r.next, r.returned);
  return absl::OkStatus();
}

absl::Status Iteration::ApplyOne(const record::LaneKept& r) {
  LaneState& lane = lanes_[r.lane];
  lane.task = r.task;
  lane.grants.clear();
  lane.first_seq = r.next_seq;
  lane.first_element = r.first_element;
  lane.base = {.round = r.base_round, .element = r.base_element};
  lane.closed = r.closed;
  return absl::OkStatus();
}

absl::Status Iteration::ApplyOne(const record::GrantKept& r) {
  const auto lane = lanes_.find(r.lane);
  if (lane == lanes_.end() || lane->second.next_seq() != r.seq) {
    return Wrong("a grant that is not the next of its lane");
  }
  lane->second.grants.push_back({.task = r.task,
                                 .segment = r.segment,
                                 .from = r.from,
                                 .acknowledged = r.acknowledged,
                                 .done = r.done,
                                 .elements = r.elements});
  return absl::OkStatus();
}

absl::Status Iteration::ApplyOne(const record::TotalsKept& r) {
  segments_done_ = r.segments_done;
  elements_done_ = r.elements_done;
  segments_dropped_ = r.segments_dropped;
  return absl::OkStatus();
}

absl::Status Iteration::ApplyOne(const record::LeaverKept& r) {
  departed_.Keep(r.name, {.id = r.consumer, .seqs = r.seqs, .elements = r.elements});
  return absl::OkStatus();
}

absl::Status Iteration::ApplyOne(const record::FinishersKept& r) {
  finished_indices_.insert(r.indices.begin(), r.indices.end());
  end_ = r.end;
  return absl::OkStatus();
}

Share Iteration::PoolShare(TaskId id) const {
  const auto task = tasks_.find(id);
  if (task == tasks_.end() || spec_.sharding == Sharding::kOff) return Share{};
  return {.index = task->second.share,
          .count = spec_.shares,
          .by_file = spec_.sharding == Sharding::kStaticFile};
}

void Iteration::SnapshotLanes(std::vector<Record>& out) const {
  for (const auto& [id, lane] : lanes_) {
    out.push_back(record::LaneKept{.iteration = id_,
                                   .lane = id,
                                   .task = lane.task,
                                   .next_seq = lane.first_seq,
                                   .first_element = lane.first_element,
                                   .base_round = lane.base.round,
                                   .base_element = lane.base.element,
                                   .closed = lane.closed});
    for (size_t i = 0; i < lane.grants.size(); ++i) {
      const Given& given = lane.grants[i];
      const int64_t seq = lane.first_seq + static_cast<int64_t>(i);
      out.push_back(record::GrantKept{.iteration = id_,
                                      .lane = id,
                                      .task = given.task,
                                      .seq = seq,
                                      .segment = given.segment,
                                      .from = given.from,
                                      .acknowledged = given.acknowledged,
                                      .elements = given.elements,
                                      .done = given.done});
    }
  }
}

void Iteration::SnapshotConsumers(std::vector<Record>& out) const {
  for (const auto& [id, consumer] : consumers_) {
    out.push_back(record::ConsumerJoined{.iteration = id_,
                                         .consumer = id,
                                         .name = consumer.name,
                                         .life = consumer.life,
                                         .index = consumer.index,
                                         .host = consumer.host,
                                         .pid = consumer.pid,
                                         .machine = consumer.machine,
                                         .started = consumer.started});
    if (consumer.finished) {
      out.push_back(record::ConsumerFinished{.iteration = id_, .consumer = id, .end = end_});
    }
    if (consumer.away) {
      out.push_back(record::ConsumerAway{
          .iteration = id_, .consumer = id, .ended = consumer.life == ConsumerLife(0)});
    }
  }
  departed_.Snapshot(id_, out);
  if (!finished_indices_.empty() || end_ != ReadingPlace{}) {
    out.push_back(
        record::FinishersKept{.iteration = id_,
                              .indices = {finished_indices_.begin(), finished_indices_.end()},
                              .end = end_});
  }
}

void Iteration::Snapshot(std::vector<Record>& out) const {
  out.push_back(record::IterationOpened{.iteration = id_, .spec = spec_});
  // Exact order needs no more than its shape to be read again.
  const bool reading = phase_ == Phase::kReading || (phase_ == Phase::kFinished && keeps_history());
  if (shape_ && (reading || (phase_ == Phase::kFinished && spec_.mode == Mode::kExact))) {
    out.push_back(record::IterationStarted{.iteration = id_});
  }
  if (awaits_lost_) out.push_back(record::LostAwaited{.iteration = id_});
  SnapshotConsumers(out);
  const auto keep_pool = [&](TaskId task, const Pool& pool) {
    out.push_back(record::PoolKept{.iteration = id_,
                                   .task = task,
                                   .next = pool.next(),
                                   .returned = {pool.returned().begin(), pool.returned().end()}});
  };
  if (pool_) keep_pool(TaskId(), *pool_);
  for (const auto& [id, task] : tasks_) {
    out.push_back(record::TaskAdded{.iteration = id_,
                                    .task = id,
                                    .home = task.home,
                                    .share = task.share,
                                    .starting_round = task.starting_round});
    if (task.pool) keep_pool(id, *task.pool);
  }
  seating_.Snapshot(id_, out);
  if (reading) {
    SnapshotLanes(out);
    SnapshotPast(out);
  }
  out.push_back(record::TotalsKept{.iteration = id_,
                                   .segments_done = segments_done_,
                                   .elements_done = elements_done_,
                                   .segments_dropped = segments_dropped_});
  if (phase_ == Phase::kFinished || phase_ == Phase::kFailed) {
    out.push_back(record::IterationEnded{.iteration = id_, .error = error_});
  }
}

void Iteration::ListProcesses(std::vector<ConsumerProcess>& out) const {
  for (const auto& [id, consumer] : consumers_) {
    if (auto process = ProcessOf(id)) out.push_back(*std::move(process));
  }
}

std::optional<ConsumerProcess> Iteration::ProcessOf(ConsumerId id) const {
  const auto found = consumers_.find(id);
  if (found == consumers_.end() || found->second.away) return std::nullopt;
  const Consumer& consumer = found->second;
  return ConsumerProcess{.iteration = id_,
                         .consumer = id,
                         .life = consumer.life,
                         .host = consumer.host,
                         .pid = consumer.pid,
                         .machine = consumer.machine,
                         .started = consumer.started};
}

IterationRow Iteration::Row(Time now) const {
  IterationRow row{.iteration = id_,
                   .spec = spec_,
                   .phase = phase_,
                   .error = error_,
                   .segments = shape_ ? shape_->segments() : -1,
                   .done = segments_done_,
                   .dropped = segments_dropped_,
                   .elements = elements_done_,
                   .round = latest_round_,
                   .agreeing = AgreeingText()};
  row.granted = segments_done_ + segments_dropped_;
  for (const auto& [id, lane] : lanes_) row.granted += static_cast<int64_t>(lane.grants.size());
  for (const auto& [id, consumer] : consumers_) {
    ConsumerRow& added = row.consumers.emplace_back();
    added = {.consumer = id,
             .name = consumer.name,
             .index = consumer.index,
             .host = consumer.host,
             .pid = consumer.pid,
             .round = consumer.round,
             .blocked_round = consumer.blocked,
             .elements = consumer.elements,
             .unacknowledged = consumer.unacknowledged,
             .unacknowledged_bytes = consumer.unacknowledged_bytes,
             .away = consumer.away,
             .finished = consumer.finished,
             .silent = consumer.parked || consumer.heard == Time() ? absl::ZeroDuration()
                                                                   : now - consumer.heard,
             .waits_for = consumer.waits_for,
             .element_time = consumer.element_time};
    const auto lane = lanes_.find(LaneId(id.value()));
    if (spec_.mode == Mode::kFirstCome && lane != lanes_.end()) {
      added.grants = lane->second.grants.size();
      added.has_all = HasAll(lane->second, consumer);
    }
    if (consumer.away && !consumer.finished) {
      row.waits_for = absl::StrCat("the successor of consumer ", consumer.name, ", which is lost");
    } else if (row.waits_for.empty() && !consumer.waits_for.empty()) {
      row.waits_for = absl::StrCat(consumer.name, " waits for ", consumer.waits_for);
    }
  }
  if (phase_ == Phase::kResolving) {
    row.waits_for = WaitsForFiles(now);
  } else if (phase_ == Phase::kReading && env_.workers.empty()) {
    row.waits_for = "a worker";
  } else if (spec_.mode == Mode::kRounds && phase_ == Phase::kReading && seating_.empty()) {
    row.waits_for = absl::StrCat(spec_.consumers - static_cast<int32_t>(consumers_.size()), " of ",
                                 spec_.consumers, " consumers");
  } else if (!row.agreeing.empty()) {
    row.waits_for = row.agreeing;
  }
  if (phase_ != Phase::kReading) return row;
  for (const auto& [worker, task] : shares_) row.tasks.push_back({.task = task, .worker = worker});
  for (const auto& [id, task] : tasks_) {
    TaskRow& added = row.tasks.emplace_back();
    added = {.task = id,
             .worker = task.owner,
             .starting_round = task.starting_round,
             .share = task.share,
             .finished = task.pool && task.pool->empty()};
    if (task.owner == WorkerId() && !env_.workers.empty()) {
      added.worker = env_.workers.ForKey(static_cast<uint64_t>(id.value()), {});
      added.stand_in = true;
    }
  }
  return row;
}

}  // namespace lockstep::dispatch
