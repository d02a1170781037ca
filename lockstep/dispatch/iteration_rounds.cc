// Agreeing on rounds: tasks that begin, consumers that come and go.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/dispatch/iteration.h"

namespace lockstep::dispatch {

std::vector<const Iteration::Consumer*> Iteration::Required() const {
  std::vector<const Consumer*> required;
  for (const auto& [id, consumer] : consumers_) {
    if (seating_.IsSeated(id) && !consumer.finished) required.push_back(&consumer);
  }
  return required;
}

bool Iteration::SomebodyQuiet(Time now) const {
  for (const Consumer* consumer : Required()) {
    if (!consumer->parked && now >= consumer->heard + env_.options.consumer_grace) return true;
  }
  return false;
}

// Those who stay keep their places; one that came back takes its own; the others come behind.
std::vector<ConsumerId> Iteration::NewSeats() const {
  std::vector<ConsumerId> seats;
  std::set<ConsumerId> placed;
  if (!seating_.empty()) {
    int32_t place = 0;
    for (const ConsumerId id : seating_.latest().consumers) {
      if (consumers_.count(id) > 0) {
        seats.push_back(id);
        placed.insert(id);
      } else {
        for (const auto& [other, consumer] : consumers_) {
          if (seating_.IsSeated(other) || consumer.index != place || placed.count(other) > 0)
            continue;
          seats.push_back(other);
          placed.insert(other);
        }
      }
      ++place;
    }
  }
  std::vector<const Consumer*> others;
  for (const auto& [id, consumer] : consumers_) {
    if (placed.count(id) == 0) others.push_back(&consumer);
  }
  std::stable_sort(others.begin(), others.end(),
                   [](const Consumer* a, const Consumer* b) { return a->index < b->index; });
  for (const Consumer* consumer : others) seats.push_back(consumer->id);
  return seats;
}

std::optional<Iteration::Change> Iteration::NextChange() const {
  if (seating_.empty()) {
    if (static_cast<int32_t>(consumers_.size()) < spec_.consumers) return std::nullopt;
    return Change{.seats = true};
  }
  // When all have gone there is nobody to read; whoever comes next takes the seats.
  if (!consumers_.empty() && NewSeats() != seating_.latest().consumers)
    return Change{.seats = true};
  if (AllGiven()) return std::nullopt;
  for (const auto& [id, task] : tasks_) {
    if (task.starting_round < 0) return Change{.task = id};
  }
  return std::nullopt;
}

void Iteration::TakeRounds(const ConsumerPoll& request, Consumer& consumer) {
  NoteRound(consumer, request.round);
  // A block that an answer on its way may lift is none.
  const bool has_heard_all =
      request.service == env_.options.service && request.after == consumer.sent_version;
  consumer.blocked = has_heard_all ? request.blocked_round : std::nullopt;
  if (!agreement_.open() || !seating_.IsSeated(consumer.id)) return;
  if (agreement_.Report(consumer.id, consumer.round, consumer.blocked, latest_round_)) TouchAll();
}

void Iteration::Agree(Time now, Effects& out) {
  for (;;) {
    std::optional<Change> next = NextChange();
    // What is being agreed on is not given up for something else that has come up.
    if (next && change_ && agreement_.open() && !change_->seats && !next->seats) {
      const auto task = tasks_.find(change_->task);
      if (task != tasks_.end() && task->second.starting_round < 0) next = change_;
    }
    const bool suspended = next && SomebodyQuiet(now);
    if (!next || suspended) {
      if (agreement_.open()) {
        agreement_.End();
        TouchAll();
      }
      change_.reset();
      return;
    }
    if (!agreement_.open() || change_ != next || agreement_.target() <= unsaid_round_) {
      change_ = next;
      // Never before what was agreed on last.
      agreement_.Begin(std::max({latest_round_, unsaid_round_, agreed_round_ - 1}));
      TouchAll();
    }
    for (const Consumer* consumer : Required()) {
      if (!agreement_.ready(consumer->id)) return;
    }
    const int64_t round = agreement_.target();
    agreed_round_ = round;
    agreement_.End();
    change_.reset();
    CarryOut(*next, round, out);
    TouchAll();
  }
}

void Iteration::CarryOut(const Change& change, int64_t round, Effects& out) {
  if (change.seats) {
    Commit(
        record::SeatingAgreed{.first_round = seating_.empty() ? 0 : round, .consumers = NewSeats()},
        out);
    std::vector<std::string> names;
    for (const ConsumerId id : seating_.latest().consumers) names.push_back(consumers_.at(id).name);
    out.Tell(Severity::kInfo,
             absl::StrCat("iteration ", Name(), ": from round ", seating_.latest().first_round,
                          " on ", names.size(), " consumers read: ", absl::StrJoin(names, ", ")));
    return;
  }
  Commit(record::TaskStarted{.task = change.task, .starting_round = round}, out);
  env_.workers.Touch(tasks_.at(change.task).owner);
  out.Tell(Severity::kInfo, absl::StrCat("iteration ", Name(), ": task ", change.task.value(),
                                         " is read from round ", round, " on"));
}

// The last round that a consumer can have begun with what was granted so far. A lane that is open
// stops everybody where its elements end; one that is closed takes no more turns from there on.
int64_t Iteration::ReachableRound() const {
  if (seating_.empty()) return -1;
  std::optional<int64_t> open;
  int64_t closed = -1;
  for (const auto& [id, lane] : lanes_) {
    if (tasks_.at(lane.task).starting_round < 0) continue;
    int64_t left = lane.first_element - lane.base.element;
    for (const Given& given : lane.grants) {
      const int64_t count =
          given.elements >= 0 ? given.elements : shape_->ElementsMost(given.segment);
      left += std::max<int64_t>(0, count - given.from);
    }
    const int64_t round = seating_.RoundBehind(lane.base, left);
    if (lane.closed) {
      closed = std::max(closed, round);
    } else {
      open = std::min(open.value_or(round), round);
    }
  }
  return open.value_or(closed);
}

// What somebody has read without a word of it nobody reads again.
void Iteration::NoteUnsaid() {
  if (spec_.mode != Mode::kRounds || phase_ != Phase::kReading) return;
  unsaid_round_ = std::max(unsaid_round_, ReachableRound());
}

// Far enough for the fastest consumer, and no further than the slowest lets the lane grow.
int64_t Iteration::GrantedUpTo(LaneId id, const LaneState& lane) const {
  int64_t fastest = 0;
  std::optional<int64_t> slowest;
  for (const auto& [consumer_id, consumer] : consumers_) {
    const auto progress = consumer.progress.find(id);
    int64_t needs = lane.first_seq;
    if (progress != consumer.progress.end()) {
      needs = std::max({needs, progress->second.seq, progress->second.needs});
      fastest = std::max(fastest, needs);
    }
    if (consumer.finished || !seating_.IsSeated(consumer_id)) continue;
    slowest = std::min(slowest.value_or(needs), needs);
  }
  return std::min(fastest + env_.options.lane_window,
                  slowest.value_or(fastest) + env_.options.rounds_window);
}

void Iteration::TopUpRounds(Effects& out) {
  if (seating_.empty()) return;
  for (const auto& [task_id, task] : tasks_) {
    if (task.starting_round < 0) continue;
    const LaneId id(task_id.value());
    const auto found = lanes_.find(id);
    if (found == lanes_.end() || found->second.closed) continue;
    LaneState& lane = found->second;
    const int64_t end = GrantedUpTo(id, lane);
    bool changed = false;
    while (!lane.closed && lane.next_seq() < end) {
      const TaskId from = has_pools() ? task_id : TaskId();
      const std::optional<SegmentRest> head = PoolOf(from)->Head();
      if (head) {
        Commit(record::Granted{.lane = id,
                               .task = from,
                               .seq = lane.next_seq(),
                               .segment = head->segment,
                               .from = head->from},
               out);
      } else {
        Commit(record::LaneClosed{.lane = id}, out);
      }
      changed = true;
    }
    if (changed) TouchAll();
  }
  // Nothing comes any more: all learn at once where the end is.
  if (!AllGiven()) return;
  std::vector<LaneId> open;
  for (const auto& [id, lane] : lanes_) {
    const auto task = tasks_.find(lane.task);
    if (!lane.closed && task->second.starting_round >= 0) open.push_back(id);
  }
  for (const LaneId id : open) Commit(record::LaneClosed{.lane = id}, out);
  if (!open.empty()) TouchAll();
}

void Iteration::TrimLanes(Effects& out) {
  if (seating_.empty()) return;
  const std::vector<const Consumer*> required = Required();
  if (required.empty()) return;
  // Whoever has not said yet where it is may need everything.
  int64_t floor = std::numeric_limits<int64_t>::max();
  for (const Consumer* consumer : required) {
    if (consumer->progress.empty()) return;
    floor = std::min(floor, consumer->round);
  }
  std::vector<record::LaneTrimmed> trims;
  for (auto& [id, lane] : lanes_) {
    int64_t seq = std::numeric_limits<int64_t>::max();
    for (const Consumer* consumer : required) {
      const auto progress = consumer->progress.find(id);
      seq = std::min(seq, progress == consumer->progress.end() ? 0 : progress->second.seq);
    }
    seq = std::min(seq, lane.next_seq());
    int64_t element = lane.first_element;
    int64_t upto = lane.first_seq;
    for (; upto < seq; ++upto) {
      const Given& given = *lane.Find(upto);
      if (given.elements < 0) break;
      element += std::max<int64_t>(0, given.elements - given.from);
    }
    if (upto > lane.first_seq) {
      trims.push_back({.lane = id, .seq = upto, .first_element = element});
    }
  }
  for (const record::LaneTrimmed& trim : trims) Commit(trim, out);
  const bool too_many = !keeps_history() || seating_.size() > env_.options.seatings_max;
  if (too_many && seating_.size() > 1 && seating_.all()[1].first_round <= floor) {
    Commit(record::SeatingsTrimmed{.first_round = seating_.all()[1].first_round}, out);
  }
}

std::string Iteration::AgreeingText() const {
  if (!agreement_.open() || !change_) return "";
  std::vector<std::string> awaited;
  for (const Consumer* consumer : Required()) {
    if (!agreement_.ready(consumer->id)) awaited.push_back(consumer->name);
  }
  return absl::StrCat(
      change_->seats ? std::string("who reads") : absl::StrCat("task ", change_->task.value()),
      " from round ", agreement_.target(), " on; awaited: ", absl::StrJoin(awaited, ", "));
}

}  // namespace lockstep::dispatch
