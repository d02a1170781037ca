// Consumers that are lost and come back: their places, and what is kept for them.
//
// Exact order needs nothing kept: any segment can be made again. In rounds a place waits for its
// successor (OnLost), and what all have read is kept as the lanes' past, for one that comes back
// from an older cursor, or from none.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lockstep/dispatch/iteration.h"

namespace lockstep::dispatch {

bool Iteration::has_consumers() const {
  return std::any_of(consumers_.begin(), consumers_.end(),
                     [](const auto& entry) { return !entry.second.away; });
}

// Whose place the caller takes: its own, or one that waits for a successor.
Iteration::Consumer* Iteration::Predecessor(const OpenIteration& request) {
  if (Consumer* known = FindByName(request.consumer); known != nullptr) return known;
  Consumer* free = nullptr;
  for (auto& [id, consumer] : consumers_) {
    if (!consumer.away || (request.index >= 0 && consumer.index != request.index)) continue;
    if (request.index < 0 && consumer.finished) continue;
    if (free == nullptr || consumer.index < free->index) free = &consumer;
  }
  return free;
}

void Iteration::AwaitLost(Effects& out) {
  if (spec_.mode != Mode::kRounds || spec_.on_lost != OnLost::kAuto || awaits_lost_) return;
  if (phase_ != Phase::kResolving && phase_ != Phase::kReading) return;
  Commit(record::LostAwaited{}, out);
}

void Iteration::Lose(Time now, Consumer& consumer, const std::string& why, bool ended,
                     Effects& out) {
  FailParked(consumer,
             MakeError(absl::StatusCode::kAborted, reason::kConsumerLeaseEnded,
                       absl::StrCat("consumer ", consumer.name, " is lost: ", why)),
             out);
  if (SetAway(now, consumer, why, ended, out)) return;
  NoteUnsaid();
  Remove(now, consumer.id, true, out);
}

// Whether its place waits for it; otherwise it has none.
bool Iteration::SetAway(Time now, Consumer& consumer, const std::string& why, bool ended,
                        Effects& out) {
  if (!waits_for_lost() || !seating_.IsSeated(consumer.id)) return false;
  out.Tell(consumer.finished ? Severity::kInfo : Severity::kWarning,
           absl::StrCat("consumer ", consumer.name, " of iteration ", Name(), " is away: ", why,
                        consumer.finished ? "" : "; its place waits for its successor"));
  Unpark(consumer);
  ClearDeadlines(consumer.id);
  agreement_.Forget(consumer.id);
  Commit(record::ConsumerAway{.consumer = consumer.id, .ended = ended}, out);
  TouchAll();
  SetIdle(now);
  return true;
}

void Iteration::ConsumerEnded(Time now, ConsumerId id, ConsumerLife life, Effects& out) {
  Consumer* consumer = Find(id);
  if (consumer == nullptr || consumer->life != life) return;
  Mark();
  Lose(now, *consumer, "its process has ended", true, out);
}

// Another process speaks for the consumer; null: that begins as one that was never there.
Iteration::Consumer* Iteration::Replace(Time now, Consumer& known, const OpenIteration& request,
                                        Effects& out) {
  FailParked(known,
             MakeError(absl::StatusCode::kAborted, reason::kConsumerReplaced,
                       absl::StrCat("consumer ", known.name, " of iteration ", Name(),
                                    " came back as another process on ", request.host, " (pid ",
                                    request.pid, ")")),
             out);
  // Without its place in the rounds it begins at the next round that all agree on.
  if (spec_.mode == Mode::kRounds && !waits_for_lost() && !request.from &&
      seating_.IsSeated(known.id)) {
    NoteUnsaid();
    Remove(now, known.id, false, out);
    return nullptr;
  }
  out.Tell(Severity::kInfo, absl::StrCat("consumer ", known.name, " of iteration ", Name(),
                                         " is another process now: ", request.consumer, " on ",
                                         request.host, " (pid ", request.pid, ")"));
  Commit(record::ConsumerReplaced{.consumer = known.id,
                                  .life = request.life,
                                  .host = request.host,
                                  .pid = request.pid,
                                  .machine = request.machine,
                                  .started = request.started,
                                  .name = request.consumer == known.name ? "" : request.consumer},
         out);
  known.poll_number = 0;
  known.handed_before = 0;
  known.has_all = false;
  known.progress.clear();
  known.blocked.reset();
  agreement_.Forget(known.id);
  choose_workers_ = true;
  if (keeps_history()) {
    known.round = -1;
    ReturnHistory(request.from ? request.from->round : 0, out);
  }
  env_.deadlines.Clear(DueOf(DueKind::kIterationIdle));
  return &known;
}

// The process whose lease had ended is heard again before anybody took its place.
void Iteration::TakeBack(Consumer& consumer, Effects& out) {
  out.Tell(Severity::kInfo,
           absl::StrCat("consumer ", consumer.name, " of iteration ", Name(), " is back"));
  Commit(record::ConsumerReplaced{.consumer = consumer.id,
                                  .life = consumer.life,
                                  .host = consumer.host,
                                  .pid = consumer.pid,
                                  .machine = consumer.machine,
                                  .started = consumer.started},
         out);
  env_.deadlines.Clear(DueOf(DueKind::kIterationIdle));
}

// --- What is kept of rounds that all have read ---

// Whether somebody can read again from this round on.
bool Iteration::Covers(int64_t round) const {
  if (!keeps_history() || seating_.empty() || seating_.oldest().first_round > round) return false;
  return std::all_of(lanes_.begin(), lanes_.end(), [&](const auto& entry) {
    const LaneState& lane = entry.second;
    if (lane.first_seq == static_cast<int64_t>(lane.past.size())) return true;
    int64_t element = lane.first_element;
    for (const PastGrant& one : lane.past) element -= std::max<int64_t>(0, one.elements - one.from);
    return element <= seating_.TurnAt(lane.base, round);
  });
}

void Iteration::ReturnHistory(int64_t round, Effects& out) {
  const bool any = std::any_of(lanes_.begin(), lanes_.end(), [&](const auto& entry) {
    return !entry.second.past.empty() &&
           entry.second.first_element > seating_.TurnAt(entry.second.base, round);
  });
  if (!any) return;
  Commit(record::HistoryReturned{.round = round}, out);
  TouchAll();
}

void Iteration::KeepPast(LaneState& lane, const PastGrant& grant) {
  lane.past.push_back(grant);
  ++past_count_;
  if (past_count_ <= env_.options.rounds_history_max) return;
  lane.past.pop_front();
  --past_count_;
}

absl::Status Iteration::ApplyOne(const record::HistoryReturned& r) {
  for (auto& [id, lane] : lanes_) {
    const int64_t wanted = seating_.TurnAt(lane.base, r.round);
    while (!lane.past.empty() && lane.first_element > wanted) {
      const PastGrant one = lane.past.back();
      lane.past.pop_back();
      --past_count_;
      const int64_t elements = std::max<int64_t>(0, one.elements - one.from);
      lane.first_element -= elements;
      elements_done_ -= elements;
      --segments_done_;
      --lane.first_seq;
      lane.grants.push_front({.task = has_pools() ? lane.task : TaskId(),
                              .segment = one.segment,
                              .from = one.from,
                              .acknowledged = one.from,
                              .elements = one.elements});
    }
  }
  return absl::OkStatus();
}

absl::Status Iteration::ApplyOne(const record::PastKept& r) {
  const auto lane = lanes_.find(r.lane);
  if (lane == lanes_.end()) return absl::InvalidArgumentError("a past of no lane");
  for (const PastGrant& one : r.grants) KeepPast(lane->second, one);
  return absl::OkStatus();
}

absl::Status Iteration::ApplyOne(const record::ConsumerAway& r) {
  Consumer* consumer = Find(r.consumer);
  if (consumer == nullptr) return absl::InvalidArgumentError("the consumer is not known");
  consumer->away = true;
  if (r.ended) consumer->life = ConsumerLife(0);
  return absl::OkStatus();
}

absl::Status Iteration::ApplyOne(const record::LostAwaited&) {
  awaits_lost_ = true;
  return absl::OkStatus();
}

absl::Status Iteration::ApplyOne(const record::IterationReopened&) {
  if (phase_ != Phase::kFinished || shape_ == nullptr) {
    return absl::InvalidArgumentError("what is reopened is not finished");
  }
  phase_ = Phase::kReading;
  if (!has_pools() && !pool_) pool_.emplace(shape_, Share{});
  return absl::OkStatus();
}

void Iteration::Reopen(Effects& out) {
  out.Tell(Severity::kInfo, absl::StrCat("iteration ", Name(),
                                         " is read again: a consumer goes on from before its end"));
  Commit(record::IterationReopened{}, out);
  slowest_ = 0;
  exact_workers_.clear();
  choose_workers_ = true;
  TouchAll();
}

// Where the request goes on, as the end is counted.
ReadingPlace Iteration::PlaceOf(const OpenIteration& request, const Consumer* known) const {
  ReadingPlace place = *request.from;
  // Its next element is so much behind the cursor, which is that of all.
  const int32_t index = known == nullptr ? request.index : known->index;
  if (spec_.mode == Mode::kExact) place.elements += std::max(0, index);
  return place;
}

// Whether it can go on from there; null: it can.
ErrorPtr Iteration::CheckPlace(const OpenIteration& request, const Consumer* known) const {
  const auto mismatch = [](std::string message) {
    return MakeError(absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch,
                     std::move(message));
  };
  const bool comes_back = known != nullptr && (known->life != request.life || known->away);
  if (spec_.mode == Mode::kRounds && comes_back && waits_for_lost() && !request.from &&
      phase_ == Phase::kReading && seating_.IsSeated(known->id) && !Covers(0)) {
    return mismatch(absl::StrCat(
        "consumer ", request.consumer, " of iteration ", Name(),
        " comes back without a cursor, and its first rounds are not kept any more "
        "(rounds_history_max is ",
        env_.options.rounds_history_max, "): restore all consumers into a new iteration"));
  }
  if (!request.from || (known != nullptr && !comes_back)) return nullptr;
  const bool can_rewind =
      spec_.mode == Mode::kExact
          ? shape_ != nullptr
          : known != nullptr && seating_.IsSeated(known->id) && Covers(request.from->round);
  if (can_rewind) return nullptr;
  // One that was at the end may have begun rounds in which nobody was given anything: where it
  // was is compared with the end below.
  const bool was_at_the_end = comes_back && known->finished && spec_.mode == Mode::kRounds;
  if (spec_.mode == Mode::kRounds && comes_back && !was_at_the_end &&
      request.from->round + 1 < known->round) {
    return mismatch(absl::StrCat("consumer ", request.consumer, " of iteration ", Name(),
                                 " wants to go on with round ", request.from->round,
                                 ", but its current round has already reached ", known->round,
                                 ": restore all consumers from their cursors into a new "
                                 "iteration"));
  }
  const ReadingPlace place = PlaceOf(request, known);
  if ((phase_ != Phase::kFinished && !was_at_the_end) || place >= end_) return nullptr;
  const auto text = [&](const ReadingPlace& at) {
    return spec_.mode == Mode::kExact
               ? absl::StrCat("element ", at.elements)
               : absl::StrCat("round ", at.round, " behind ", at.turns, " turns");
  };
  return mismatch(absl::StrCat("iteration ", Name(), " is finished for its consumer ",
                               request.consumer, ", and its end is at ", text(end_),
                               "; it wants to go on at ", text(place),
                               ", which nobody is given any more: restore all consumers from their "
                               "cursors into a new iteration"));
}

void Iteration::SnapshotPast(std::vector<Record>& out) const {
  for (const auto& [id, lane] : lanes_) {
    if (lane.past.empty()) continue;
    out.push_back(record::PastKept{
        .iteration = id_, .lane = id, .grants = {lane.past.begin(), lane.past.end()}});
  }
}

}  // namespace lockstep::dispatch
