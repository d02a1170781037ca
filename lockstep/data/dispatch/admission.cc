#include "lockstep/data/dispatch/admission.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::dispatch {

namespace {

ErrorPtr Mismatch(std::string message) {
  return MakeError(absl::StatusCode::kFailedPrecondition, reason::kCursorMismatch,
                   std::move(message));
}

ErrorPtr IndexTaken(std::string message) {
  return MakeError(absl::StatusCode::kAlreadyExists, reason::kConsumerIndexTaken,
                   std::move(message));
}

// Of those that are there, and of those that have finished.
std::set<int32_t> TakenIndices(const IterationLedger& ledger) {
  std::set<int32_t> taken = ledger.progress().finished_indices;
  for (const auto& [id, consumer] : ledger.consumers()) taken.insert(consumer.index);
  return taken;
}

// Where the request goes on, as the end is counted.
ReadingPlace PlaceOf(const IterationLedger& ledger, const OpenIteration& request,
                     const ConsumerEntry* known) {
  LOCKSTEP_DCHECK(request.from.has_value());
  ReadingPlace place = *request.from;
  // Its next element is so much behind the cursor, which is that of all.
  const int32_t index = known == nullptr ? request.index : known->index;
  if (ledger.spec().mode == Mode::kExact) place.elements += std::max(0, index);
  return place;
}

// Rounds: whether somebody can read again from this round on.
bool Covers(const IterationLedger& ledger, int64_t round) {
  const SeatingList& seating = ledger.seating();
  if (!ledger.keeps_history() || seating.empty() || seating.oldest().first_round > round) {
    return false;
  }
  const auto& lanes = ledger.lanes().all();
  return std::all_of(lanes.begin(), lanes.end(), [&](const auto& entry) {
    const LaneState& lane = entry.second;
    // Whatever was trimmed is kept: the lane can be read from its beginning.
    if (lane.first_seq == static_cast<int64_t>(lane.past.size())) return true;
    int64_t element = lane.first_element;
    for (const PastGrant& one : lane.past) element -= std::max<int64_t>(0, one.elements - one.from);
    // The oldest element that is kept must not lie behind the lane's turn of the round.
    return element <= seating.TurnAt(lane.base, round);
  });
}

std::string TextOf(Mode mode, const ReadingPlace& place) {
  return mode == Mode::kExact
             ? absl::StrCat("element ", place.elements)
             : absl::StrCat("round ", place.round, " behind ", place.turns, " turns");
}

// One consumer for each index: two of one would read the same elements, and nobody those of
// another. One that is away keeps its place, but its index may be asked for by its successor.
ErrorPtr CheckIndex(const IterationLedger& ledger, const OpenIteration& request,
                    const ConsumerEntry* known) {
  const IterationSpec& spec = ledger.spec();
  for (const auto& [id, other] : ledger.consumers()) {
    if (&other != known && !other.away && request.index >= 0 && other.index == request.index) {
      return IndexTaken(absl::StrCat("consumer ", request.index, " of iteration ", ledger.Name(),
                                     " is ", other.name, " on ", other.host, " (pid ", other.pid,
                                     "), so it cannot be ", request.consumer));
    }
  }
  // Where all is read there is no place to take: it is told that the iteration is over.
  const bool takes_any = known == nullptr && request.index < 0;
  if (spec.mode == Mode::kExact && ledger.phase() != Phase::kFinished && takes_any &&
      static_cast<int32_t>(TakenIndices(ledger).size()) >= spec.consumers) {
    return IndexTaken(absl::StrCat("iteration ", ledger.Name(), " has its ", spec.consumers,
                                   " consumers in exact order, so there is no place for ",
                                   request.consumer));
  }
  return nullptr;
}

// Rounds: it comes back, and says nothing of where it was.
ErrorPtr CheckWithoutCursor(const IterationLedger& ledger, const Options& options,
                            const OpenIteration& request, const ConsumerEntry& known) {
  LOCKSTEP_DCHECK(ledger.spec().mode == Mode::kRounds);
  // Without a cursor it reads from round 0 on, so nothing of that may be lost.
  const bool needs_all = ledger.waits_for_lost() && ledger.reading() &&
                         ledger.seating().IsSeated(known.id) && !Covers(ledger, 0);
  if (!needs_all) return nullptr;
  return Mismatch(
      absl::StrCat("consumer ", request.consumer, " of iteration ", ledger.Name(),
                   " comes back without a cursor, and its first rounds are not kept any more "
                   "(rounds_history_max is ",
                   options.rounds_history_max, "): restore all consumers into a new iteration"));
}

// Whether it can go on from there.
ErrorPtr CheckPlace(const IterationLedger& ledger, const ConsumerSessions& sessions,
                    const Options& options, const OpenIteration& request,
                    const ConsumerEntry* known) {
  LOCKSTEP_DCHECK(ledger.spec().mode != Mode::kFirstCome);
  const bool rounds = ledger.spec().mode == Mode::kRounds;
  const bool comes_back = known != nullptr && (known->life != request.life || known->away);
  // Without a cursor it goes on with what is still to be given, which rounds alone may lack.
  if (!request.from) {
    return rounds && comes_back ? CheckWithoutCursor(ledger, options, request, *known) : nullptr;
  }
  // The same process asks again, since its answer was lost: it is where it is.
  if (known != nullptr && !comes_back) return nullptr;
  // Exact order counts its grants anew; rounds return what they have kept.
  const bool can_rewind = ledger.spec().mode == Mode::kExact
                              ? ledger.shape() != nullptr
                              : known != nullptr && ledger.seating().IsSeated(known->id) &&
                                    Covers(ledger, request.from->round);
  if (can_rewind) return nullptr;
  // One that was at the end may have begun rounds in which nobody was given anything: where it
  // was is compared with the end below.
  const bool was_at_the_end = comes_back && known->finished && rounds;
  if (rounds && comes_back && !was_at_the_end &&
      request.from->round + 1 < sessions.At(known->id).reading.round) {
    return Mismatch(absl::StrCat("consumer ", request.consumer, " of iteration ", ledger.Name(),
                                 " wants to go on with round ", request.from->round,
                                 ", but its current round has already reached ",
                                 sessions.At(known->id).reading.round,
                                 ": restore all consumers from their cursors into a new "
                                 "iteration"));
  }
  const ReadingPlace place = PlaceOf(ledger, request, known);
  const ReadingPlace& end = ledger.progress().end;
  // Only an end that is known rules a place out.
  if ((ledger.phase() != Phase::kFinished && !was_at_the_end) || place >= end) return nullptr;
  const Mode mode = ledger.spec().mode;
  return Mismatch(absl::StrCat("iteration ", ledger.Name(), " is finished for its consumer ",
                               request.consumer, ", and its end is at ", TextOf(mode, end),
                               "; it wants to go on at ", TextOf(mode, place),
                               ", which nobody is given any more: restore all consumers from their "
                               "cursors into a new iteration"));
}

}  // namespace

// Whose place the request takes: its own of before, or that of one that is away; null: a new one.
const ConsumerEntry* PredecessorOf(const IterationLedger& ledger, const OpenIteration& request) {
  // The name first: a process that comes back takes its own place, whoever else is away.
  if (const ConsumerEntry* known = ledger.Find(request.consumer)) return known;
  const ConsumerEntry* free = nullptr;
  for (const auto& [id, consumer] : ledger.consumers()) {
    if (!consumer.away || (request.index >= 0 && consumer.index != request.index)) continue;
    // Whoever takes any place wants to read: one that has finished is not for it.
    if (request.index < 0 && consumer.finished) continue;
    // The lowest index first, which is the order in which `IndexFor` gives them.
    if (free == nullptr || consumer.index < free->index) free = &consumer;
  }
  return free;
}

// Changes nothing, and so comes before all that opening changes.
ErrorPtr CheckOpen(const IterationLedger& ledger, const ConsumerSessions& sessions,
                   const Options& options, const OpenIteration& request,
                   const ConsumerEntry* known) {
  // Before all else: nothing about the request matters then.
  if (ledger.phase() == Phase::kFailed) return ledger.progress().error;
  // First come has no places.
  if (ledger.spec().mode != Mode::kFirstCome) {
    if (ErrorPtr error = CheckIndex(ledger, request, known); error != nullptr) return error;
    if (ErrorPtr error = CheckPlace(ledger, sessions, options, request, known); error != nullptr) {
      return error;
    }
  }
  // A place that is there is taken over, and adds nothing.
  if (known != nullptr || ledger.consumers().size() < options.consumers_max) return nullptr;
  return MakeError(absl::StatusCode::kResourceExhausted, reason::kLimitReached,
                   absl::StrCat("iteration ", ledger.Name(), " has ", ledger.consumers().size(),
                                " consumers (consumers_max)"));
}

// First come has no places: what was not acknowledged is given out before it ends.
bool ReadsBeforeEnd(const IterationLedger& ledger, const OpenIteration& request,
                    const ConsumerEntry* known) {
  if (ledger.phase() != Phase::kFinished || !request.from) return false;
  // Without a history nothing can be read again: the same process asks again, since its answer was
  // lost.
  const bool readable = ledger.spec().mode == Mode::kExact || ledger.keeps_history();
  return readable && ledger.shape() != nullptr &&
         PlaceOf(ledger, request, known) < ledger.progress().end;
}

// The lowest that is free, so that consumers that name none fill 0 to n-1.
int32_t IndexFor(const IterationLedger& ledger, const OpenIteration& request) {
  if (request.index >= 0 || ledger.spec().mode == Mode::kFirstCome) return request.index;
  const std::set<int32_t> taken = TakenIndices(ledger);
  int32_t index = 0;
  while (taken.count(index) > 0) ++index;
  // One of the first n + 1 is free where n are taken.
  LOCKSTEP_DCHECK(static_cast<size_t>(index) <= taken.size());
  return index;
}

}  // namespace lockstep::dispatch
