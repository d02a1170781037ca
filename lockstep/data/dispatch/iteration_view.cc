#include "lockstep/data/dispatch/iteration_view.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace lockstep::dispatch {

namespace {

ConsumerRow ConsumerRowOf(const ConsumerEntry& consumer, const ConsumerSession& session, Time now) {
  // One whose poll waits is heard all the time.
  const bool speaks = session.poll.parked || session.heard == Time();
  return {.consumer = consumer.id,
          .name = consumer.name,
          .index = consumer.index,
          .host = consumer.host,
          .pid = consumer.pid,
          .round = session.reading.round,
          .blocked_round = session.reading.blocked,
          .elements = consumer.elements,
          .unacknowledged = session.holding.unacknowledged,
          .unacknowledged_bytes = session.holding.unacknowledged_bytes,
          .away = consumer.away,
          .finished = consumer.finished,
          .silent = speaks ? absl::ZeroDuration() : now - session.heard,
          .waits_for = session.waits_for,
          .element_time = session.element_time};
}

// The successor of the last consumer that is away, or whom the first of the others waits for.
std::string WaitsForConsumers(const std::vector<ConsumerRow>& consumers) {
  std::string waits_for;
  for (const ConsumerRow& consumer : consumers) {
    if (consumer.away && !consumer.finished) {
      waits_for = absl::StrCat("the successor of consumer ", consumer.name, ", which is lost");
    } else if (waits_for.empty() && !consumer.waits_for.empty()) {
      waits_for = absl::StrCat(consumer.name, " waits for ", consumer.waits_for);
    }
  }
  return waits_for;
}

std::string WaitsFor(const IterationParts& parts, const IterationRow& row, Time now) {
  const IterationLedger& ledger = parts.ledger;
  if (row.phase == Phase::kResolving) return WaitsForFiles(parts.state, row.spec.dataset, now);
  if (ledger.reading() && parts.state.workers.empty()) return "a worker";
  if (row.spec.mode == Mode::kRounds && ledger.reading() && ledger.seating().empty()) {
    return absl::StrCat(row.spec.consumers - static_cast<int32_t>(ledger.consumers().size()),
                        " of ", row.spec.consumers, " consumers");
  }
  // From what holds up everybody to what holds up one.
  return row.agreeing.empty() ? WaitsForConsumers(row.consumers) : row.agreeing;
}

void ListTaskRows(const IterationParts& parts, std::vector<TaskRow>& out) {
  for (const auto& [worker, task] : parts.choice.shares()) {
    out.push_back({.task = task, .worker = worker});
  }
  const TaskTable& tasks = parts.ledger.tasks();
  for (const auto& [id, task] : tasks.all()) {
    TaskRow& added = out.emplace_back();
    added = {.task = id,
             .worker = parts.choice.OwnerOf(id),
             .starting_round = task.starting_round,
             .share = task.share,
             .finished = tasks.per_task() && tasks.PoolOf(id)->empty()};
    // Nobody owns it: the worker that would be asked now stands in.
    if (added.worker == WorkerId() && !parts.state.workers.empty()) {
      added.worker = parts.choice.ForTask(id, {});
      added.stand_in = true;
    }
  }
}

}  // namespace

std::string WaitsForFiles(const DispatcherState& state, DatasetId dataset, Time now) {
  if (state.workers.empty()) return "a worker that lists the dataset's files: there is none";
  const auto resolving = state.resolving.find(dataset);
  const Worker* const worker =
      resolving == state.resolving.end() ? nullptr : state.workers.Find(resolving->second.worker);
  if (worker == nullptr) return "a worker that lists the dataset's files";
  return absl::StrCat(
      "the worker at ", worker->address, ", which lists the dataset's files, for ",
      absl::FormatDuration(absl::Floor(now - resolving->second.since, absl::Seconds(1))), " now");
}

IterationRow RowOf(const IterationParts& parts, const ReadingMode& mode, Time now) {
  const IterationLedger& ledger = parts.ledger;
  const LaneTotals& totals = ledger.lanes().totals();
  IterationRow row{.iteration = ledger.id(),
                   .spec = ledger.spec(),
                   .phase = ledger.phase(),
                   .error = ledger.progress().error,
                   .segments = ledger.shape() ? ledger.shape()->segments() : -1,
                   .granted = totals.segments_done + totals.segments_dropped,
                   .done = totals.segments_done,
                   .dropped = totals.segments_dropped,
                   .elements = totals.elements_done};
  for (const auto& [id, lane] : ledger.lanes().all()) {
    // What is done has left its lane, or is counted with it.
    row.granted += static_cast<int64_t>(lane.grants.size());
  }
  for (const auto& [id, consumer] : ledger.consumers()) {
    // There is no session before a restored dispatcher was told so.
    const ConsumerSession* const session = parts.sessions.Find(id);
    row.consumers.push_back(
        ConsumerRowOf(consumer, session == nullptr ? ConsumerSession{} : *session, now));
  }
  mode.FillRow(row);
  row.waits_for = WaitsFor(parts, row, now);
  if (ledger.reading()) ListTaskRows(parts, row.tasks);
  return row;
}

std::optional<ConsumerProcess> ProcessOf(const IterationLedger& ledger, ConsumerId id) {
  const ConsumerEntry* const consumer = ledger.Find(id);
  if (consumer == nullptr || consumer->away) return std::nullopt;
  return ConsumerProcess{.iteration = ledger.id(),
                         .consumer = id,
                         .life = consumer->life,
                         .host = consumer->host,
                         .pid = consumer->pid,
                         .machine = consumer->machine,
                         .started = consumer->started,
                         .job = consumer->job};
}

void ListProcesses(const IterationLedger& ledger, std::vector<ConsumerProcess>& out) {
  for (const auto& [id, consumer] : ledger.consumers()) {
    if (auto process = ProcessOf(ledger, id)) out.push_back(*std::move(process));
  }
}

}  // namespace lockstep::dispatch
