#include "lockstep/data/dispatch/rounds_mode.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/base/check.h"

namespace lockstep::dispatch {

namespace {

// The last round that a consumer can have begun with what was granted so far. A lane that is open
// stops everybody where its elements end; one that is closed takes no more turns from there on.
int64_t ReachableRound(const IterationLedger& ledger) {
  if (ledger.seating().empty()) return -1;
  std::optional<int64_t> open;
  int64_t closed = -1;
  for (const auto& [id, lane] : ledger.lanes().all()) {
    // Nobody is told of a task that has no round yet.
    if (ledger.tasks().Find(lane.task)->starting_round < 0) continue;
    int64_t left = lane.first_element - lane.base.element;
    for (const LaneGrant& grant : lane.grants) {
      const int64_t count =
          grant.elements >= 0 ? grant.elements : ledger.shape()->ElementsMost(grant.segment);
      left += std::max<int64_t>(0, count - grant.from);
    }
    const int64_t round = ledger.seating().RoundBehind(lane.base, left);
    if (lane.closed) {
      closed = std::max(closed, round);
    } else {
      open = std::min(open.value_or(round), round);
    }
  }
  return open.value_or(closed);
}

// Those who read, and so have to agree.
std::vector<const ConsumerEntry*> Required(const IterationLedger& ledger) {
  std::vector<const ConsumerEntry*> required;
  for (const auto& [id, consumer] : ledger.consumers()) {
    if (ledger.seating().IsSeated(id) && !consumer.finished) required.push_back(&consumer);
  }
  return required;
}

// Those who stay keep their places; one that came back takes its own; the others come behind.
std::vector<ConsumerId> NewSeating(const IterationLedger& ledger) {
  const SeatingList& seating = ledger.seating();
  const auto& consumers = ledger.consumers();
  // By index, and of one index by id: whoever has no seat yet.
  std::map<int32_t, std::vector<ConsumerId>> others;
  for (const auto& [id, consumer] : consumers) {
    if (!seating.IsSeated(id)) others[consumer.index].push_back(id);
  }
  std::vector<ConsumerId> seated;
  const auto seat = [&](const std::vector<ConsumerId>& ids) {
    seated.insert(seated.end(), ids.begin(), ids.end());
  };
  if (!seating.empty()) {
    int32_t place = 0;
    for (const ConsumerId id : seating.latest().consumers) {
      if (consumers.count(id) > 0) {
        seated.push_back(id);
      } else if (const auto comes = others.extract(place)) {
        seat(comes.mapped());
      }
      ++place;
    }
  }
  for (const auto& [index, ids] : others) seat(ids);
  return seated;
}

}  // namespace

// --- What a consumer says ---

void RoundsMode::TakePoll(const ConsumerPoll& poll, ConsumerSession& session, Effects& out) {
  LOCKSTEP_DCHECK(ledger().reading());
  TakeProgress(poll, session);
  // Before its round: how far it can have come follows from the counts.
  TakeCounts(poll, out);
  NoteRound(session, poll.round);
  // A block that an answer on its way may lift is none.
  const bool has_heard_all =
      poll.service == options().service && poll.after == session.poll.sent_version;
  ReadingState& reading = session.reading;
  reading.blocked = has_heard_all ? poll.blocked_round : std::nullopt;
  // One without a seat begins no round, so nobody waits for its word.
  if (!agreement_.open() || !ledger().seating().IsSeated(session.id)) return;
  if (agreement_.Report(session.id, reading.round, reading.blocked, latest_round_)) {
    sessions().TouchAll();
  }
}

// Never back, and not beyond what was granted: a poll may be late, or wrong.
void RoundsMode::TakeProgress(const ConsumerPoll& poll, ConsumerSession& session) {
  for (const LaneProgress& progress : poll.progress) {
    const LaneState* const lane = ledger().lanes().Find(progress.lane);
    if (lane == nullptr) continue;
    LaneProgress& known = session.reading.lanes[progress.lane];
    known.lane = progress.lane;
    known.seq = std::max(known.seq, std::min(progress.seq, lane->next_seq()));
    known.needs = std::max(known.needs, std::min(progress.needs, lane->next_seq()));
    LOCKSTEP_DCHECK(known.seq <= lane->next_seq() && known.needs <= lane->next_seq());
  }
}

void RoundsMode::TakeCounts(const ConsumerPoll& poll, Effects& out) {
  for (const SegmentCount& count : poll.counts) {
    const LaneState* const lane = ledger().lanes().Find(count.lane);
    const LaneGrant* const grant = lane == nullptr ? nullptr : lane->Find(count.seq);
    // The first word counts: a segment has the same length for all.
    if (grant == nullptr || grant->elements >= 0) continue;
    // A segment cannot have more: the consumer's word is not believed.
    if (count.elements > ledger().shape()->ElementsMost(grant->segment)) continue;
    Commit(record::Counted{.lane = count.lane, .seq = count.seq, .elements = count.elements}, out);
    sessions().TouchAll();
  }
}

// Which round it has begun: none that nobody can have begun.
void RoundsMode::NoteRound(ConsumerSession& session, int64_t round) {
  int64_t& begun = session.reading.round;
  LOCKSTEP_DCHECK(begun <= latest_round_);
  if (round <= begun) return;
  // Only a round beyond all that were begun is doubted.
  if (round > latest_round_)
    round = std::min(round, std::max(agreed_round_, ReachableRound(ledger())));
  // Never back: a poll may overtake another one, and a round that was begun stays begun.
  begun = std::max(begun, round);
  latest_round_ = std::max(latest_round_, begun);
}

void RoundsMode::TakeClose(const CloseConsumer& close, ConsumerSession& session) {
  // What it has read nobody reads again: the others begin a round without it behind this one.
  NoteRound(session, close.round);
}

bool RoundsMode::IsGiven(const SegmentFailure& failure) const {
  const LaneState* const lane = ledger().lanes().Find(failure.lane);
  const LaneGrant* const grant = lane == nullptr ? nullptr : lane->Find(failure.seq);
  return grant != nullptr && !grant->done && grant->segment == failure.segment;
}

// --- Consumers come and go ---

bool RoundsMode::KeepsPlace(ConsumerId consumer) const {
  return ledger().waits_for_lost() && ledger().seating().IsSeated(consumer);
}

// What somebody has read without a word of it nobody reads again.
void RoundsMode::NoteUnsaid() {
  if (!ledger().reading()) return;
  unsaid_round_ = std::max(unsaid_round_, ReachableRound(ledger()));
}

void RoundsMode::TakeReplaced(ConsumerSession& session, int64_t round, Effects& out) {
  agreement_.Forget(session.id);
  // Nothing of before is kept: it goes on with what stands open.
  if (!ledger().keeps_history()) return;
  // The new process says itself where it is.
  session.reading.round = -1;
  const auto& lanes = ledger().lanes().all();
  const bool any = std::any_of(lanes.begin(), lanes.end(), [&](const auto& entry) {
    const LaneState& lane = entry.second;
    return !lane.past.empty() && lane.first_element > ledger().seating().TurnAt(lane.base, round);
  });
  // Nothing that it needs was trimmed.
  if (!any) return;
  Commit(record::HistoryReturned{.round = round}, out);
  sessions().TouchAll();
}

// --- The iteration ---

void RoundsMode::TakeRestored() {
  // Records say where everything begins; who has come how far is not recorded. So nothing begins
  // before the last that did, nor before what a consumer can have read by now.
  for (const AgreedSeating& seating : ledger().seating().all()) {
    agreed_round_ = std::max(agreed_round_, seating.first_round);
  }
  for (const auto& [id, task] : ledger().tasks().all()) {
    agreed_round_ = std::max(agreed_round_, task.starting_round);
  }
  NoteUnsaid();
}

void RoundsMode::TakeEnded() {
  agreement_.End();
  change_.reset();
}

void RoundsMode::Settle(Time now, Effects& out) {
  LOCKSTEP_DCHECK(ledger().reading());
  if (choice().stale()) sessions().TouchAll();
  // What is agreed on decides what a lane is read by: first that, and then what is needed of it.
  // Trimmed before it is topped up, so that the window counts from what is still needed.
  Agree(now, out);
  TrimLanes(out);
  TopUp(out);
}

bool RoundsMode::IsFinished() const {
  const SeatingList& seating = ledger().seating();
  const auto& consumers = ledger().consumers();
  // Nobody was seated yet: the first round still waits for consumers.
  if (seating.empty()) return false;
  const auto has_finished = [](const auto& entry) { return entry.second.finished; };
  const bool all_have = std::all_of(consumers.begin(), consumers.end(), [&](const auto& entry) {
    return entry.second.finished || !seating.IsSeated(entry.first);
  });
  if (all_have && std::any_of(consumers.begin(), consumers.end(), has_finished)) return true;
  // There was nothing left when the first task was to begin.
  const auto& tasks = ledger().tasks().all();
  return ledger().tasks().AllGiven() &&
         std::all_of(tasks.begin(), tasks.end(),
                     [](const auto& entry) { return entry.second.starting_round < 0; });
}

// --- Agreeing ---

bool RoundsMode::SomebodyQuiet(Time now) const {
  for (const ConsumerEntry* consumer : Required(ledger())) {
    const ConsumerSession& session = sessions().At(consumer->id);
    // One whose poll waits is heard all the time.
    if (!session.poll.parked && now >= session.heard + options().consumer_grace) return true;
  }
  return false;
}

std::optional<RoundsMode::Change> RoundsMode::NextChange() const {
  const auto& consumers = ledger().consumers();
  if (ledger().seating().empty()) {
    if (static_cast<int32_t>(consumers.size()) < ledger().spec().consumers) return std::nullopt;
    return Change{.seats = true};
  }
  // Seats before tasks: a task begins for those who are seated then.
  // When all have gone there is nobody to read; whoever comes next takes the seats.
  if (!consumers.empty() && NewSeating(ledger()) != ledger().seating().latest().consumers) {
    return Change{.seats = true};
  }
  if (ledger().tasks().AllGiven()) return std::nullopt;
  for (const auto& [id, task] : ledger().tasks().all()) {
    if (task.starting_round < 0) return Change{.task = id};
  }
  return std::nullopt;
}

void RoundsMode::Agree(Time now, Effects& out) {
  for (;;) {
    std::optional<Change> next = NextChange();
    // What is being agreed on is not given up for something else that has come up.
    if (next && change_ && agreement_.open() && !change_->seats && !next->seats) {
      const TaskState* const task = ledger().tasks().Find(change_->task);
      if (task != nullptr && task->starting_round < 0) next = change_;
    }
    // Nobody is made to stand still at a round for one that may be dead: all go on as before until
    // it is heard again, or lost.
    const bool suspended = next && SomebodyQuiet(now);
    if (!next || suspended) {
      if (agreement_.open()) {
        agreement_.End();
        sessions().TouchAll();
      }
      change_.reset();
      return;
    }
    if (!agreement_.open() || change_ != next || agreement_.target() <= unsaid_round_) {
      change_ = next;
      // Never before what was agreed on last.
      agreement_.Begin(std::max({latest_round_, unsaid_round_, agreed_round_ - 1}));
      sessions().TouchAll();
    }
    for (const ConsumerEntry* consumer : Required(ledger())) {
      if (!agreement_.ready(consumer->id)) return;
    }
    // Over before it is carried out: what comes next is found in what that changes, and may be
    // another change, which needs an agreement of its own.
    const int64_t round = agreement_.target();
    // What begins now begins in a round that nobody can have begun.
    LOCKSTEP_DCHECK(round >= agreed_round_ && round > unsaid_round_);
    agreed_round_ = round;
    agreement_.End();
    change_.reset();
    CarryOut(*next, round, out);
    sessions().TouchAll();
  }
}

// By a record, which says the round: a restored dispatcher agrees on nothing twice.
void RoundsMode::CarryOut(const Change& change, int64_t round, Effects& out) {
  const SeatingList& seating = ledger().seating();
  if (change.seats) {
    Commit(record::SeatingAgreed{.first_round = seating.empty() ? 0 : round,
                                 .consumers = NewSeating(ledger())},
           out);
    std::vector<std::string> names;
    for (const ConsumerId id : seating.latest().consumers) {
      names.push_back(ledger().consumers().at(id).name);
    }
    out.Tell(Severity::kInfo, absl::StrCat("iteration ", ledger().Name(), ": from round ",
                                           seating.latest().first_round, " on ", names.size(),
                                           " consumers read: ", absl::StrJoin(names, ", ")));
    return;
  }
  Commit(record::TaskStarted{.task = change.task, .starting_round = round}, out);
  choice().TouchOwner(change.task);
  out.Tell(Severity::kInfo,
           absl::StrCat("iteration ", ledger().Name(), ": task ", change.task.value(),
                        " is read from round ", round, " on"));
}

// --- Giving ---

void RoundsMode::TrimLanes(Effects& out) {
  const SeatingList& seating = ledger().seating();
  if (seating.empty()) return;
  const std::vector<const ConsumerEntry*> required = Required(ledger());
  // With nobody to need a grant, all of them would be trimmed.
  if (required.empty()) return;
  // Whoever has not said yet where it is may need everything.
  int64_t floor = std::numeric_limits<int64_t>::max();
  for (const ConsumerEntry* consumer : required) {
    const ReadingState& reading = sessions().At(consumer->id).reading;
    if (reading.lanes.empty()) return;
    floor = std::min(floor, reading.round);
  }
  std::vector<record::LaneTrimmed> trims;
  for (const auto& [id, lane] : ledger().lanes().all()) {
    int64_t seq = lane.next_seq();
    for (const ConsumerEntry* consumer : required) {
      const ReadingState& reading = sessions().At(consumer->id).reading;
      const auto progress = reading.lanes.find(id);
      seq = std::min(seq, progress == reading.lanes.end() ? 0 : progress->second.seq);
    }
    int64_t element = lane.first_element;
    int64_t upto = lane.first_seq;
    for (; upto < seq; ++upto) {
      const LaneGrant& grant = *lane.Find(upto);
      // Behind it, where the next one begins could not be said.
      if (grant.elements < 0) break;
      element += grant.length();
    }
    if (upto > lane.first_seq) {
      trims.push_back({.lane = id, .seq = upto, .first_element = element});
    }
  }
  // Behind the loop, since a record changes the lanes that it goes through. Seatings go after them:
  // a lane whose grants are still there counts its turns by the seating of then.
  for (const record::LaneTrimmed& trim : trims) Commit(trim, out);
  const bool too_many = !ledger().keeps_history() || seating.size() > options().seatings_max;
  // Only when everybody has begun a round of the next one: nobody reads by the oldest any more.
  if (too_many && seating.size() > 1 && seating.all()[1].first_round <= floor) {
    Commit(record::SeatingsTrimmed{.first_round = seating.all()[1].first_round}, out);
  }
}

// Far enough for the fastest consumer, and no further than the slowest lets the lane grow.
int64_t RoundsMode::GrantedUpTo(LaneId id, const LaneState& lane) const {
  int64_t fastest = 0;
  std::optional<int64_t> slowest;
  for (const auto& [consumer_id, consumer] : ledger().consumers()) {
    const ReadingState& reading = sessions().At(consumer_id).reading;
    const auto progress = reading.lanes.find(id);
    int64_t needs = lane.first_seq;
    if (progress != reading.lanes.end()) {
      needs = std::max({needs, progress->second.seq, progress->second.needs});
      fastest = std::max(fastest, needs);
    }
    // One that has finished, or has no seat, holds the lane up no more.
    if (consumer.finished || !ledger().seating().IsSeated(consumer_id)) continue;
    slowest = std::min(slowest.value_or(needs), needs);
  }
  return std::min(fastest + options().lane_window,
                  slowest.value_or(fastest) + options().rounds_window);
}

void RoundsMode::TopUp(Effects& out) {
  if (ledger().seating().empty()) return;
  const TaskTable& tasks = ledger().tasks();
  for (const auto& [task_id, task] : tasks.all()) {
    const LaneId id(task_id.value());
    const LaneState* const lane = ledger().lanes().Find(id);
    // Before its round is agreed on nobody reads it: its segments are left to the others.
    if (task.starting_round < 0 || lane == nullptr || lane->closed) continue;
    const int64_t end = GrantedUpTo(id, *lane);
    const TaskId from = tasks.per_task() ? task_id : TaskId();
    bool changed = false;
    while (!lane->closed && lane->next_seq() < end) {
      const std::optional<SegmentRest> head = tasks.PoolOf(from)->Head();
      // By file: it is looked for, and may be found with the next event.
      if (!head && !tasks.PoolOf(from)->empty()) break;
      if (head) {
        Commit(record::Granted{.lane = id,
                               .task = from,
                               .seq = lane->next_seq(),
                               .segment = head->segment,
                               .from = head->from},
               out);
      } else {
        Commit(record::LaneClosed{.lane = id}, out);
      }
      changed = true;
    }
    if (changed) sessions().TouchAll();
  }
  // Nothing comes any more: all learn at once where the end is.
  if (!tasks.AllGiven()) return;
  std::vector<LaneId> open;
  for (const auto& [id, lane] : ledger().lanes().all()) {
    if (!lane.closed && tasks.Find(lane.task)->starting_round >= 0) open.push_back(id);
  }
  for (const LaneId id : open) Commit(record::LaneClosed{.lane = id}, out);
  if (!open.empty()) sessions().TouchAll();
}

// --- What is told ---

// The grants that the consumer needs, as far as is known.
Lane RoundsMode::LaneFor(const ConsumerSession& session, LaneId id, const LaneState& state) const {
  Lane lane{.lane = id,
            .task = state.task,
            .starting_round = ledger().tasks().Find(state.task)->starting_round,
            .base_round = state.base.round,
            .base_element = state.base.element,
            .first_element = state.first_element,
            .closed = state.closed};
  int64_t seq = state.first_seq;
  if (const auto own = session.reading.lanes.find(id); own != session.reading.lanes.end()) {
    // Not what it needs no more; somebody else may. The count stops at a grant whose length nobody
    // knows, since `first_element` could not be said behind it.
    for (; seq < std::min(own->second.seq, state.next_seq()); ++seq) {
      const LaneGrant& grant = *state.Find(seq);
      if (grant.elements < 0) break;
      lane.first_element += grant.length();
    }
  }
  for (; seq < state.next_seq(); ++seq) {
    const LaneGrant& grant = *state.Find(seq);
    lane.grants.push_back(
        {.seq = seq,
         .segment = grant.segment,
         .from = grant.from,
         .worker = choice().ForTask(state.task, choice().AvoidFor(session.avoid, grant.segment)),
         .elements = grant.elements});
  }
  return lane;
}

// A task that has no round yet is told to nobody: whoever knew of it might read it too early.
void RoundsMode::FillAssignment(const ConsumerSession& session, Assignment& assignment) {
  for (const auto& [id, state] : ledger().lanes().all()) {
    if (ledger().tasks().Find(state.task)->starting_round < 0) continue;
    assignment.lanes.push_back(LaneFor(session, id, state));
  }
  for (const AgreedSeating& agreed : ledger().seating().all()) {
    Seating seating{.first_round = agreed.first_round,
                    .consumers = static_cast<int32_t>(agreed.consumers.size())};
    for (size_t i = 0; i < agreed.consumers.size(); ++i) {
      if (agreed.consumers[i] == session.id) seating.index = static_cast<int32_t>(i);
    }
    assignment.seatings.push_back(seating);
  }
  // To all, those who are ready as well: the target may move on.
  if (agreement_.open()) assignment.block_round = agreement_.target();
  // For cursors, which say what is left of the dataset.
  if (const Pool* const pool = ledger().tasks().shared_pool()) {
    assignment.next_segment = pool->next();
    for (const SegmentRest& rest : pool->returned()) {
      assignment.returned.emplace_back(rest.segment, rest.from);
    }
  }
}

void RoundsMode::FillRow(IterationRow& row) const {
  row.round = latest_round_;
  if (!agreement_.open() || !change_) return;
  std::vector<std::string> awaited;
  for (const ConsumerEntry* consumer : Required(ledger())) {
    if (!agreement_.ready(consumer->id)) awaited.push_back(consumer->name);
  }
  row.agreeing = absl::StrCat(
      change_->seats ? std::string("who reads") : absl::StrCat("task ", change_->task.value()),
      " from round ", agreement_.target(), " on; awaited: ", absl::StrJoin(awaited, ", "));
}

}  // namespace lockstep::dispatch
