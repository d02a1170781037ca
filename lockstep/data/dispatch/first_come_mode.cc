#include "lockstep/data/dispatch/first_come_mode.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::dispatch {

int64_t FirstComeMode::Unread(const LaneState& lane, const ConsumerSession& session) {
  // What the program has may be acknowledged, and gone from the lane, by now.
  return lane.next_seq() -
         std::clamp(session.holding.handed_before, lane.first_seq, lane.next_seq());
}

bool FirstComeMode::HasAll(const LaneState& lane, const ConsumerSession& session) {
  return session.holding.has_all && Unread(lane, session) == 0;
}

bool FirstComeMode::IsFull(const LaneState& lane) const {
  return static_cast<int64_t>(lane.grants.size()) >= options().grants_max;
}

void FirstComeMode::TakeAcks(const std::vector<LaneAck>& acks, ConsumerSession& session,
                             Effects& out) {
  LOCKSTEP_DCHECK(ledger().reading());
  const LaneId own = LaneOf(session.id);
  const LaneState* const lane = ledger().lanes().Find(own);
  if (lane == nullptr) return;
  bool changed = false;  // room for another grant
  for (const LaneAck& ack : acks) {
    if (ack.lane != own) continue;
    const LaneGrant* const grant = lane->Find(ack.seq);
    if (grant == nullptr || grant->done) continue;
    const int64_t most =
        grant->elements >= 0 ? grant->elements : ledger().shape()->ElementsMost(grant->segment);
    // No more than the segment can have, and never back: a poll may overtake another one.
    const int64_t elements = std::max(grant->acknowledged, std::min(ack.elements, most));
    if (elements <= grant->acknowledged && !ack.done) continue;
    if (ack.done) {
      // Before the record, behind which the grant is not there any more.
      choice().ForgetFailures(grant->segment);
      choice().Release(own, ack.seq);
    }
    Commit(
        record::Acknowledged{.lane = own, .seq = ack.seq, .elements = elements, .done = ack.done},
        out);
    changed |= ack.done;
  }
  if (changed) sessions().Touch(session);
}

void FirstComeMode::TakePoll(const ConsumerPoll& poll, ConsumerSession& session, Effects& /*out*/) {
  LOCKSTEP_DCHECK(ledger().reading());
  const LaneId own = LaneOf(session.id);
  const LaneState* const lane = ledger().lanes().Find(own);
  if (lane == nullptr) return;
  HoldingState& holding = session.holding;
  const int64_t before = std::min(poll.handed_before, lane->next_seq());
  // Each grant once, however often the count is said again.
  for (int64_t seq = std::max(lane->first_seq, holding.handed_before); seq < before; ++seq) {
    choice().Release(own, seq);  // the worker has made all of it
  }
  holding.handed_before = std::max(holding.handed_before, before);
  LOCKSTEP_DCHECK(holding.handed_before <= lane->next_seq());
  holding.unacknowledged = poll.unacknowledged;
  holding.unacknowledged_bytes = poll.unacknowledged_bytes;
  holding.has_all = poll.has_all;
}

bool FirstComeMode::IsGiven(const SegmentFailure& failure) const {
  const LaneState* const lane = ledger().lanes().Find(failure.lane);
  const LaneGrant* const grant = lane == nullptr ? nullptr : lane->Find(failure.seq);
  return grant != nullptr && !grant->done && grant->segment == failure.segment;
}

void FirstComeMode::Forget(ConsumerId consumer) { choice().ReleaseLane(LaneOf(consumer)); }

void FirstComeMode::Settle(Time /*now*/, Effects& out) {
  LOCKSTEP_DCHECK(ledger().reading());
  // Workers are chosen for what was just given, and holders told of what is left then.
  TopUp(out);
  if (choice().stale()) ChooseWorkers();
  TellHolders();
}

// More where there are more workers than the usual window keeps busy.
int64_t FirstComeMode::Window() const {
  const auto workers = static_cast<int64_t>(choice().workers().size());
  const auto readers = static_cast<int64_t>(ledger().consumers().size());
  LOCKSTEP_DCHECK(readers > 0);
  return std::clamp((2 * workers + readers - 1) / readers, options().window,
                    std::max(options().window, options().window_max));
}

// Tasks that have something left, by how much of them is given: each worker's share is read at the
// same pace.
FirstComeMode::TasksByGiven FirstComeMode::CountGiven() const {
  LOCKSTEP_DCHECK(ledger().tasks().per_task());
  std::map<TaskId, int64_t> given;
  for (const auto& [id, lane] : ledger().lanes().all()) {
    for (const LaneGrant& grant : lane.grants) ++given[grant.task];
  }
  TasksByGiven by_given;
  for (const auto& [id, task] : ledger().tasks().all()) {
    if (!ledger().tasks().PoolOf(id)->Head()) continue;
    const auto found = given.find(id);
    by_given.emplace(found == given.end() ? 0 : found->second, id);
  }
  return by_given;
}

void FirstComeMode::TopUp(Effects& out) {
  // The window is shared among consumers: there is none to divide it by.
  if (ledger().consumers().empty()) return;
  const TaskTable& tasks = ledger().tasks();
  const int64_t window = Window();
  // From the task of which fewest are given, and which has any left. To count them takes a look at
  // all grants: not where nobody has room.
  TasksByGiven by_given;
  if (tasks.per_task()) {
    const auto& all = sessions().all();
    const bool full = std::all_of(all.begin(), all.end(), [&](const auto& entry) {
      const LaneState* const lane = ledger().lanes().Find(LaneOf(entry.first));
      return lane == nullptr || Unread(*lane, entry.second) >= window || IsFull(*lane);
    });
    if (full) return;
    by_given = CountGiven();
  }
  // One grant for each in turn, so that nobody takes what is left alone.
  for (int64_t level = 0; level < window; ++level) {
    for (auto& [id, session] : sessions().all()) {
      const LaneState* const lane = ledger().lanes().Find(LaneOf(id));
      if (lane == nullptr || Unread(*lane, session) > level || IsFull(*lane)) continue;
      TaskId from;
      if (tasks.per_task()) {
        if (by_given.empty()) return;
        from = by_given.begin()->second;
      }
      const std::optional<SegmentRest> head = tasks.PoolOf(from)->Head();
      // `by_given` lists tasks only as long as they have something left.
      LOCKSTEP_DCHECK(head.has_value() || !tasks.per_task());
      if (!head) return;
      Commit(record::Granted{.lane = LaneOf(id),
                             .task = from,
                             .seq = lane->next_seq(),
                             .segment = head->segment,
                             .from = head->from},
             out);
      if (tasks.per_task()) {
        const int64_t given = by_given.begin()->first;
        by_given.erase(by_given.begin());
        if (tasks.PoolOf(from)->Head()) by_given.emplace(given + 1, from);
      }
      // The new grant has no worker yet.
      choice().MarkStale();
      sessions().Touch(session);
    }
  }
}

// Each grant that has no good worker gets one.
void FirstComeMode::ChooseWorkers() {
  const WorkerTable& workers = choice().workers();
  for (auto& [id, session] : sessions().all()) {
    const LaneId own = LaneOf(id);
    const LaneState* const lane = ledger().lanes().Find(own);
    if (lane == nullptr) continue;
    for (int64_t seq = lane->next_seq() - Unread(*lane, session); seq < lane->next_seq(); ++seq) {
      const LaneGrant& grant = *lane->Find(seq);
      const WorkerTable::Avoid avoid = choice().AvoidFor(session.avoid, grant.segment);
      const WorkerId before = choice().OfGrant(own, seq);
      WorkerId now = before;
      if (ledger().tasks().per_task()) {
        // By its owner, whatever that has to do: the share is its own.
        now = choice().ForTask(grant.task, avoid);
      } else if (!workers.IsGood(before, avoid)) {
        // At once, so that the next grant sees this one's load.
        now = workers.LeastLoaded(avoid);
      }
      // Nothing to tell: a poll is answered only with news.
      if (now == before) continue;
      choice().Choose(own, seq, now);
      sessions().Touch(session);
    }
  }
}

// Why the consumer gets nothing before it acknowledges; empty: it gets more, or there is no more.
std::string FirstComeMode::AckNeeded(const LaneState& lane, bool all_wait, size_t holders) const {
  if (IsFull(lane)) {
    return absl::StrCat("grants_max of the server, which is ", options().grants_max);
  }
  if (!all_wait) return "";
  return absl::StrCat("nothing else is left, and so wait all consumers that hold some (", holders,
                      ")");
}

// Who acknowledges by hand is told when nothing is left but what its own program holds, and when
// it gets no more before it acknowledges.
void FirstComeMode::TellHolders() {
  const bool all_given = ledger().tasks().AllGiven();
  const LaneTable& lanes = ledger().lanes();
  size_t holders = 0;
  bool all_wait = true;
  for (const auto& [id, session] : sessions().all()) {
    const LaneState* const lane = lanes.Find(LaneOf(id));
    if (lane == nullptr || lane->grants.empty()) continue;
    ++holders;
    all_wait = all_wait && HasAll(*lane, session);
  }
  for (auto& [id, session] : sessions().all()) {
    const LaneState* const lane = lanes.Find(LaneOf(id));
    const bool holds = lane != nullptr && !lane->grants.empty();
    // Without sharding, a worker that comes brings another pass.
    const bool no_more = all_given && ledger().spec().sharding != Sharding::kOff;
    const bool rest_is_own = no_more && holders == (holds ? 1U : 0U);
    std::string ack_needed;
    if (holds && HasAll(*lane, session)) {
      ack_needed = AckNeeded(*lane, all_given && all_wait && !rest_is_own, holders);
    }
    HoldingState& holding = session.holding;
    // Only news is worth an answer.
    if (rest_is_own == holding.rest_is_own && ack_needed == holding.ack_needed) continue;
    holding.rest_is_own = rest_is_own;
    holding.ack_needed = std::move(ack_needed);
    sessions().Touch(session);
  }
}

bool FirstComeMode::IsFinished() const {
  const auto& lanes = ledger().lanes().all();
  return ledger().tasks().AllGiven() &&
         // A grant that is done leaves its lane.
         std::all_of(lanes.begin(), lanes.end(),
                     [](const auto& entry) { return entry.second.grants.empty(); });
}

void FirstComeMode::FillAssignment(const ConsumerSession& session, Assignment& assignment) {
  assignment.rest_is_own = session.holding.rest_is_own;
  assignment.ack_needed = session.holding.ack_needed;
  const LaneId own = LaneOf(session.id);
  const LaneState* const state = ledger().lanes().Find(own);
  if (state == nullptr) return;
  Lane lane{.lane = own,
            .task = state->task,
            .first_element = state->first_element,
            .done_before = state->first_seq,
            .closed = state->closed};
  // What its program holds it does not read again.
  for (int64_t seq = state->next_seq() - Unread(*state, session); seq < state->next_seq(); ++seq) {
    const LaneGrant& grant = *state->Find(seq);
    // It waits for one before it: the lane has no holes.
    if (grant.done) continue;
    lane.grants.push_back({.seq = seq,
                           .segment = grant.segment,
                           .from = grant.acknowledged,
                           .worker = choice().OfGrant(own, seq),
                           .elements = grant.elements});
  }
  assignment.lanes.push_back(std::move(lane));
}

void FirstComeMode::FillRow(IterationRow& row) const {
  for (ConsumerRow& consumer : row.consumers) {
    const LaneState* const lane = ledger().lanes().Find(LaneOf(consumer.consumer));
    const ConsumerSession* const session = sessions().Find(consumer.consumer);
    if (lane == nullptr || session == nullptr) continue;
    consumer.grants = lane->grants.size();
    consumer.has_all = HasAll(*lane, *session);
  }
}

}  // namespace lockstep::dispatch
