// What is given to whom, and who makes it.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lockstep/dispatch/iteration.h"

namespace lockstep::dispatch {

Iteration::Given* Iteration::LaneState::Find(int64_t seq) {
  if (seq < first_seq || seq >= next_seq()) return nullptr;
  return &grants[static_cast<size_t>(seq - first_seq)];
}

bool Iteration::has_pools() const { return spec_.sharding != Sharding::kDynamic; }

Pool* Iteration::PoolOf(TaskId task) {
  if (!has_pools()) return pool_ ? &*pool_ : nullptr;
  const auto found = tasks_.find(task);
  return found == tasks_.end() || !found->second.pool ? nullptr : &*found->second.pool;
}

bool Iteration::AllGiven() const {
  if (!has_pools()) return pool_->empty();
  return !tasks_.empty() && std::all_of(tasks_.begin(), tasks_.end(), [](const auto& entry) {
    return entry.second.pool->empty();
  });
}

void Iteration::TakeAcks(const std::vector<LaneAck>& acks, Consumer& consumer, Effects& out) {
  if (spec_.mode != Mode::kFirstCome || phase_ != Phase::kReading) return;
  const LaneId own(consumer.id.value());
  const auto found = lanes_.find(own);
  if (found == lanes_.end()) return;
  LaneState& lane = found->second;
  bool changed = false;  // room for another grant
  for (const LaneAck& ack : acks) {
    if (ack.lane != own) continue;
    const Given* given = lane.Find(ack.seq);
    if (given == nullptr || given->done) continue;
    const int64_t most =
        given->elements >= 0 ? given->elements : shape_->ElementsMost(given->segment);
    const int64_t elements = std::max(given->acknowledged, std::min(ack.elements, most));
    if (elements <= given->acknowledged && !ack.done) continue;
    if (ack.done) {
      failures_.erase(given->segment);
      SetWorker(*lane.Find(ack.seq), WorkerId());
    }
    Commit(
        record::Acknowledged{.lane = own, .seq = ack.seq, .elements = elements, .done = ack.done},
        out);
    changed |= ack.done;
  }
  if (changed) Touch(consumer);
}

// How many grants of each task are not done yet, of those that have segments left.
std::set<std::pair<int64_t, TaskId>> Iteration::GivenByTask() const {
  std::map<TaskId, int64_t> given;
  for (const auto& [id, lane] : lanes_) {
    for (const Given& grant : lane.grants) ++given[grant.task];
  }
  std::set<std::pair<int64_t, TaskId>> by_given;
  for (const auto& [id, task] : tasks_) {
    if (task.pool->empty()) continue;
    const auto found = given.find(id);
    by_given.emplace(found == given.end() ? 0 : found->second, id);
  }
  return by_given;
}

void Iteration::TopUpFirstCome(Effects& out) {
  if (consumers_.empty()) return;
  const auto workers = static_cast<int64_t>(env_.workers.size());
  const auto readers = static_cast<int64_t>(consumers_.size());
  const int64_t window = std::clamp((2 * workers + readers - 1) / readers, env_.options.window,
                                    std::max(env_.options.window, env_.options.window_max));
  // From the task of which fewest are given, and which has any left.
  std::set<std::pair<int64_t, TaskId>> by_given;
  if (has_pools()) {
    const bool full = std::all_of(consumers_.begin(), consumers_.end(), [&](const auto& entry) {
      const LaneState& lane = lanes_[LaneId(entry.first.value())];
      return Unread(lane, entry.second) >= window ||
             static_cast<int64_t>(lane.grants.size()) >= env_.options.grants_max;
    });
    if (full) return;
    by_given = GivenByTask();
  }
  // One grant for each in turn, so that nobody takes what is left alone.
  for (int64_t level = 0; level < window; ++level) {
    for (auto& [id, consumer] : consumers_) {
      LaneState& lane = lanes_[LaneId(id.value())];
      if (Unread(lane, consumer) > level ||
          static_cast<int64_t>(lane.grants.size()) >= env_.options.grants_max) {
        continue;
      }
      TaskId from;
      if (has_pools()) {
        if (by_given.empty()) return;
        from = by_given.begin()->second;
      }
      const std::optional<SegmentRest> head = PoolOf(from)->Head();
      if (!head) return;
      Commit(record::Granted{.lane = LaneId(id.value()),
                             .task = from,
                             .seq = lane.next_seq(),
                             .segment = head->segment,
                             .from = head->from},
             out);
      if (has_pools()) {
        const int64_t given = by_given.begin()->first;
        by_given.erase(by_given.begin());
        if (!PoolOf(from)->empty()) by_given.emplace(given + 1, from);
      }
      choose_workers_ = true;
      Touch(consumer);
    }
  }
}

int64_t Iteration::Unread(const LaneState& lane, const Consumer& consumer) {
  return lane.next_seq() - std::clamp(consumer.handed_before, lane.first_seq, lane.next_seq());
}

void Iteration::TakeHeld(const ConsumerPoll& request, Consumer& consumer) {
  const auto found = lanes_.find(LaneId(consumer.id.value()));
  if (found == lanes_.end()) return;
  LaneState& lane = found->second;
  const int64_t before = std::min(request.handed_before, lane.next_seq());
  for (int64_t seq = std::max(lane.first_seq, consumer.handed_before); seq < before; ++seq) {
    SetWorker(*lane.Find(seq), WorkerId());  // which has made all of it
  }
  consumer.handed_before = std::max(consumer.handed_before, before);
  consumer.unacknowledged = request.unacknowledged;
  consumer.unacknowledged_bytes = request.unacknowledged_bytes;
  consumer.has_all = request.has_all;
}

// Who acknowledges by hand is told when nothing is left but what its own program holds, and when
// it gets no more before it acknowledges.
void Iteration::TellHolders() {
  const bool all_given = AllGiven();
  size_t holders = 0;
  bool all_wait = true;
  for (const auto& [id, consumer] : consumers_) {
    const LaneState& lane = lanes_[LaneId(id.value())];
    if (lane.grants.empty()) continue;
    ++holders;
    all_wait = all_wait && HasAll(lane, consumer);
  }
  for (auto& [id, consumer] : consumers_) {
    const LaneState& lane = lanes_[LaneId(id.value())];
    const bool holds = !lane.grants.empty();
    // Without sharding, a worker that comes brings another pass.
    const bool no_more = all_given && spec_.sharding != Sharding::kOff;
    const bool rest_is_own = no_more && holders == (holds ? 1U : 0U);
    std::string ack_needed;
    if (holds && HasAll(lane, consumer)) {
      if (static_cast<int64_t>(lane.grants.size()) >= env_.options.grants_max) {
        ack_needed = absl::StrCat("grants_max of the server, which is ", env_.options.grants_max);
      } else if (all_given && all_wait && !rest_is_own) {
        ack_needed = absl::StrCat(
            "nothing else is left, and so wait all consumers that hold some (", holders, ")");
      }
    }
    if (rest_is_own == consumer.rest_is_own && ack_needed == consumer.ack_needed) continue;
    consumer.rest_is_own = rest_is_own;
    consumer.ack_needed = std::move(ack_needed);
    Touch(consumer);
  }
}

void Iteration::SetWorker(Given& given, WorkerId worker) {
  if (given.worker == worker) return;
  if (Worker* former = env_.workers.Find(given.worker); former != nullptr) --former->load;
  given.worker = worker;
  if (Worker* next = env_.workers.Find(worker); next != nullptr) ++next->load;
}

WorkerTable::Avoid Iteration::AvoidFor(const Consumer& consumer, int64_t segment) const {
  WorkerTable::Avoid avoid = consumer.avoid;
  if (const auto failed = failures_.find(segment); failed != failures_.end()) {
    for (const auto& [worker, count] : failed->second) avoid[worker] = Time::Infinite();
  }
  // One that failed may do better; one that cannot be reached does nothing.
  const auto& all = env_.workers.all();
  const bool some = std::any_of(all.begin(), all.end(),
                                [&](const auto& entry) { return avoid.count(entry.first) == 0; });
  return some ? avoid : consumer.avoid;
}

// First come: each grant that has no good worker gets one.
void Iteration::ChooseWorkers() {
  for (auto& [id, consumer] : consumers_) {
    LaneState& lane = lanes_[LaneId(id.value())];
    for (int64_t seq = lane.next_seq() - Unread(lane, consumer); seq < lane.next_seq(); ++seq) {
      Given& given = *lane.Find(seq);
      const WorkerTable::Avoid avoid = AvoidFor(consumer, given.segment);
      const WorkerId before = given.worker;
      if (has_pools()) {
        const WorkerId owner = tasks_.at(given.task).owner;
        SetWorker(given,
                  env_.workers.IsGood(owner, avoid)
                      ? owner
                      : env_.workers.ForKey(static_cast<uint64_t>(given.task.value()), avoid));
      } else if (!env_.workers.IsGood(given.worker, avoid)) {
        const WorkerId best = env_.workers.LeastLoaded(avoid);
        SetWorker(given, best);
      }
      if (given.worker != before) Touch(consumer);
    }
  }
}

WorkerId Iteration::WorkerOf(const Consumer& consumer, LaneId /*lane*/, const LaneState& state,
                             int64_t /*seq*/, const Given& given) const {
  if (spec_.mode == Mode::kFirstCome) return given.worker;
  const WorkerTable::Avoid avoid = AvoidFor(consumer, given.segment);
  const auto task = tasks_.find(state.task);
  if (task != tasks_.end() && env_.workers.IsGood(task->second.owner, avoid)) {
    return task->second.owner;
  }
  return env_.workers.ForKey(static_cast<uint64_t>(state.task.value()), avoid);
}

WorkerId Iteration::ExactWorker(const Consumer& consumer, int64_t seq, int64_t segment) {
  const auto known = exact_workers_.find(seq);
  if (known == exact_workers_.end() || env_.workers.Find(known->second) == nullptr) {
    exact_workers_[seq] = env_.workers.RoundRobin(exact_turn_++, {});
  }
  const WorkerTable::Avoid avoid = AvoidFor(consumer, segment);
  const WorkerId worker = exact_workers_[seq];
  if (avoid.empty() || env_.workers.IsGood(worker, avoid)) return worker;
  return env_.workers.RoundRobin(seq, avoid);
}

void Iteration::AddTaskFor(const Worker& worker, Effects& out) {
  const bool keeps_tasks = spec_.mode == Mode::kRounds || has_pools();
  if (!keeps_tasks) {
    shares_.emplace(worker.id, TaskId(env_.NextId()));
    return;
  }
  for (const auto& [id, task] : tasks_) {
    if (task.owner == worker.id) return;
  }
  // One that nobody has: its own of before, or (unless shares are tied to addresses) any.
  Task* free = nullptr;
  for (auto& [id, task] : tasks_) {
    if (task.owner != WorkerId()) continue;
    if (task.share >= 0 && static_cast<size_t>(task.share) < spec_.worker_addresses.size() &&
        spec_.worker_addresses[static_cast<size_t>(task.share)] != worker.address) {
      continue;
    }
    if (free == nullptr || (task.home == worker.address && free->home != worker.address)) {
      free = &task;
    }
  }
  if (free != nullptr) {
    free->owner = worker.id;
    choose_workers_ = true;
    TouchAll();
    return;
  }
  if (spec_.sharding == Sharding::kStaticData || spec_.sharding == Sharding::kStaticFile) return;
  const TaskId task(env_.NextId());
  const bool pending = spec_.mode == Mode::kRounds && !seating_.empty();
  Commit(
      record::TaskAdded{.task = task, .home = worker.address, .starting_round = pending ? -1 : 0},
      out);
  tasks_.at(task).owner = worker.id;
  choose_workers_ = true;
}

void Iteration::WorkerCame(Time /*now*/, const Worker& worker, Effects& out) {
  if (phase_ != Phase::kReading) return;
  AddTaskFor(worker, out);
  choose_workers_ = true;
  TouchAll();
}

void Iteration::WorkerGone(WorkerId worker, Effects& /*out*/) {
  shares_.erase(worker);
  for (auto& [id, task] : tasks_) {
    if (task.owner == worker) task.owner = WorkerId();
  }
  for (auto& [id, lane] : lanes_) {
    for (Given& given : lane.grants) {
      if (given.worker == worker) given.worker = WorkerId();
    }
  }
  for (auto& [id, consumer] : consumers_) consumer.avoid.erase(worker);
  if (phase_ != Phase::kReading) return;
  choose_workers_ = true;
  TouchAll();
}

void Iteration::CheckFinished(Time now, Effects& out) {
  bool finished = false;
  switch (spec_.mode) {
    case Mode::kFirstCome:
      finished = AllGiven() && std::all_of(lanes_.begin(), lanes_.end(), [](const auto& entry) {
                   return entry.second.grants.empty();
                 });
      break;
    case Mode::kExact:
      finished = static_cast<int32_t>(finished_indices_.size()) >= spec_.consumers;
      break;
    case Mode::kRounds:
      finished = !seating_.empty() && !consumers_.empty() &&
                 std::all_of(consumers_.begin(), consumers_.end(),
                             [this](const auto& entry) {
                               return entry.second.finished || !seating_.IsSeated(entry.first);
                             }) &&
                 std::any_of(consumers_.begin(), consumers_.end(),
                             [](const auto& entry) { return entry.second.finished; });
      // There was nothing left when the first task was to begin.
      finished = finished || (!seating_.empty() && AllGiven() &&
                              std::all_of(tasks_.begin(), tasks_.end(), [](const auto& entry) {
                                return entry.second.starting_round < 0;
                              }));
      break;
  }
  if (finished) End(now, nullptr, out);
}

int64_t Iteration::ExactSegments() const {
  if (shape_->segments() == kInfinite) return kInfinite;
  return static_cast<int64_t>(start_.rests.size()) +
         std::max<int64_t>(0, shape_->segments() - start_.next);
}

SegmentRest Iteration::ExactSegment(int64_t seq) const {
  const auto rests = static_cast<int64_t>(start_.rests.size());
  if (seq < rests) return start_.rests[static_cast<size_t>(seq)];
  return {.segment = start_.next + seq - rests, .from = 0};
}

int64_t Iteration::Slowest() const {
  std::optional<int64_t> slowest;
  for (const auto& [id, consumer] : consumers_) {
    const auto progress = consumer.progress.find(LaneId());
    if (consumer.finished || progress == consumer.progress.end()) continue;
    slowest = slowest ? std::min(*slowest, progress->second.seq) : progress->second.seq;
  }
  return slowest.value_or(slowest_);
}

void Iteration::FillExact(Consumer& consumer, Assignment& assignment) {
  Lane lane;
  const auto progress = consumer.progress.find(LaneId());
  const bool known = progress != consumer.progress.end();
  // One that goes on from a cursor learns by any grants which one it is.
  const int64_t own = known ? progress->second.seq : 0;
  const int64_t needs = std::max(own, known ? progress->second.needs : 0);
  const int64_t total = ExactSegments();
  // One that came back from an older cursor is the slowest, and not told all up to the others.
  const int64_t end =
      std::min(total, std::max(needs + 1, std::min(own, slowest_) + env_.options.exact_window));
  for (int64_t seq = own; seq < end; ++seq) {
    const SegmentRest rest = ExactSegment(seq);
    lane.grants.push_back({.seq = seq,
                           .segment = rest.segment,
                           .from = rest.from,
                           .worker = ExactWorker(consumer, seq, rest.segment),
                           .elements = shape_->ElementsOf(rest.segment).value_or(-1)});
  }
  lane.first_element = own == 0 ? 0 : -1;
  lane.closed = end == total;
  assignment.next_segment = ExactSegment(end).segment;
  assignment.lanes.push_back(std::move(lane));
}

// Those that the consumer needs, as far as is known.
void Iteration::ListGrants(const Consumer& consumer, const LaneState& state, Lane& lane) const {
  int64_t seq = state.first_seq;
  if (spec_.mode == Mode::kFirstCome) {
    lane.done_before = state.first_seq;
    // What its program holds it does not read again.
    seq = state.next_seq() - Unread(state, consumer);
  } else if (const auto own = consumer.progress.find(lane.lane); own != consumer.progress.end()) {
    // Nor what it needs no more; somebody else may.
    for (; seq < std::min(own->second.seq, state.next_seq()); ++seq) {
      const Given& given = state.grants[static_cast<size_t>(seq - state.first_seq)];
      if (given.elements < 0) break;
      lane.first_element += std::max<int64_t>(0, given.elements - given.from);
    }
  }
  for (; seq < state.next_seq(); ++seq) {
    const Given& given = state.grants[static_cast<size_t>(seq - state.first_seq)];
    if (given.done) continue;
    lane.grants.push_back({.seq = seq,
                           .segment = given.segment,
                           .from = spec_.mode == Mode::kFirstCome ? given.acknowledged : given.from,
                           .worker = WorkerOf(consumer, lane.lane, state, seq, given),
                           .elements = given.elements});
  }
}

Assignment Iteration::AssignmentFor(Consumer& consumer) {
  Assignment assignment{.service = env_.options.service,
                        .version = consumer.version,
                        .phase = phase_,
                        .error = error_};
  if (phase_ != Phase::kReading) return assignment;
  assignment.rest_is_own = consumer.rest_is_own;
  assignment.ack_needed = consumer.ack_needed;
  if (spec_.mode == Mode::kExact) {
    FillExact(consumer, assignment);
  } else {
    for (const auto& [id, state] : lanes_) {
      if (spec_.mode == Mode::kFirstCome && id.value() != consumer.id.value()) continue;
      const auto task = tasks_.find(state.task);
      if (spec_.mode == Mode::kRounds && task->second.starting_round < 0) continue;
      Lane lane{.lane = id,
                .task = state.task,
                .base_round = state.base.round,
                .base_element = state.base.element,
                .first_element = state.first_element,
                .closed = state.closed};
      if (spec_.mode == Mode::kRounds) lane.starting_round = task->second.starting_round;
      ListGrants(consumer, state, lane);
      assignment.lanes.push_back(std::move(lane));
    }
  }
  if (spec_.mode == Mode::kRounds) {
    for (const AgreedSeating& agreed : seating_.all()) {
      Seating seating{.first_round = agreed.first_round,
                      .consumers = static_cast<int32_t>(agreed.consumers.size())};
      for (size_t i = 0; i < agreed.consumers.size(); ++i) {
        if (agreed.consumers[i] == consumer.id) seating.index = static_cast<int32_t>(i);
      }
      assignment.seatings.push_back(seating);
    }
    if (agreement_.open()) assignment.block_round = agreement_.target();
    if (pool_) {
      assignment.next_segment = pool_->next();
      for (const SegmentRest& rest : pool_->returned()) {
        assignment.returned.emplace_back(rest.segment, rest.from);
      }
    }
  }
  std::set<WorkerId> named;
  for (const Lane& lane : assignment.lanes) {
    for (const Grant& grant : lane.grants) named.insert(grant.worker);
  }
  for (const WorkerId id : named) {
    const Worker* worker = env_.workers.Find(id);
    if (worker == nullptr) continue;
    assignment.workers.push_back(
        {.worker = id, .address = worker->address, .host_card = worker->host_card});
  }
  return assignment;
}

void Iteration::ListTasks(WorkerId worker, std::vector<WorkerTask>& out) const {
  if (phase_ != Phase::kReading) return;
  if (const auto share = shares_.find(worker); share != shares_.end()) {
    out.push_back({.task = share->second, .iteration = id_, .dataset = spec_.dataset});
  }
  for (const auto& [id, task] : tasks_) {
    if (task.owner != worker) continue;
    out.push_back({.task = id,
                   .iteration = id_,
                   .dataset = spec_.dataset,
                   .starting_round = spec_.mode == Mode::kRounds ? task.starting_round : 0});
  }
}

}  // namespace lockstep::dispatch
