#include "lockstep/data/dispatch/dispatcher_view.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lockstep/data/dispatch/workers_wanted.h"

namespace lockstep::dispatch {
namespace {

// Consumers, tasks and workers that are looked at in one step, about; a dataset or worker counts as
// one. `view_rows_per_step`.
constexpr size_t kRowsPerStep = 128;
// To look whether a worker knows the time of a dataset's elements costs less than a row.
constexpr size_t kWorkersPerRow = 16;
// Each step adds at least one row, so that whoever reads on comes to the end.
static_assert(kRowsPerStep > 0 && kWorkersPerRow > 0);

// The first behind the one that was read last.
template <class Map, class Id>
auto Next(const Map& map, const std::optional<Id>& last) {
  return last ? map.upper_bound(*last) : map.begin();
}

DatasetRow RowOf(const Dataset& dataset, size_t iterations) {
  return {.dataset = dataset.id,
          .name = dataset.name,
          .identity = dataset.identity,
          .needs_manifest = dataset.needs_manifest,
          .resolved = dataset.ready(),
          .definition_bytes = dataset.definition.size(),
          .manifest_bytes = dataset.manifest.size(),
          .iterations = iterations};
}

IterationRow RowOf(const DispatcherState& state, Time now, const Iteration& iteration) {
  IterationRow row = iteration.Row(now);
  // Nothing is made for it, so that no worker would help.
  if (row.phase != Phase::kReading) return row;
  WorkersWanted wanted;
  for (const auto& [id, worker] : state.workers.all()) {
    const auto time = worker.times.find(row.spec.dataset);
    if (time != worker.times.end()) wanted.ReportWorker(id, time->second);
  }
  for (const ConsumerRow& consumer : row.consumers) {
    // Who waits for acknowledgements needs no worker.
    if (!consumer.finished && !consumer.has_all)
      wanted.ReportConsumer(consumer.consumer, consumer.element_time);
  }
  if (const std::optional<int64_t> estimate = wanted.Estimate()) {
    const auto current = static_cast<int64_t>(state.workers.size());
    row.workers_wanted = BoundWorkersWanted(*estimate, current);
  }
  return row;
}

WorkerRow RowOf(Time now, const Worker& worker, size_t tasks) {
  absl::Duration time;
  for (const auto& [dataset, element_time] : worker.times) time = std::max(time, element_time);
  return {.worker = worker.id,
          .address = worker.address,
          .host = worker.host,
          .pid = worker.pid,
          .tags = worker.tags,
          .tasks = tasks,
          .grants = static_cast<size_t>(std::max<int64_t>(0, worker.load)),
          .silent = worker.parked ? absl::ZeroDuration() : now - worker.heard,
          .element_time = time};
}

}  // namespace

// Between two calls anything may change: the cursor names the last row by its id, behind which the
// next is looked for, so that no row comes twice.
bool ReadRows(const DispatcherState& state, const DatasetTable& datasets,
              const IterationTable& iterations, Time now, ViewCursor& cursor, View& out) {
  using Part = ViewCursor::Part;
  size_t rows = 0;
  switch (cursor.part) {
    // Counted once for all datasets, which would each look through all iterations.
    case Part::kBegin:
      for (const auto& [id, iteration] : iterations.all()) {
        ++cursor.iterations_of[iteration->spec().dataset];
      }
      cursor.part = Part::kDatasets;
      return true;
    case Part::kDatasets:
      for (auto next = Next(datasets.all(), cursor.dataset); next != datasets.all().end(); ++next) {
        if (rows++ == kRowsPerStep) return true;
        const auto count = cursor.iterations_of.find(next->first);
        out.datasets.push_back(
            RowOf(next->second, count == cursor.iterations_of.end() ? 0 : count->second));
        cursor.dataset = next->first;
      }
      cursor.part = Part::kIterations;
      return true;
    case Part::kIterations:
      for (auto next = Next(iterations.all(), cursor.iteration); next != iterations.all().end();
           ++next) {
        if (rows >= kRowsPerStep) return true;
        IterationRow row = RowOf(state, now, *next->second);
        // For the rows of workers, which come after those of iterations.
        for (const TaskRow& task : row.tasks) ++cursor.tasks_of[task.worker];
        cursor.workers_wanted = std::max(cursor.workers_wanted, row.workers_wanted);
        // An iteration is read whole, however many consumers it has; then the step is over.
        rows += 1 + row.consumers.size() + row.tasks.size() + state.workers.size() / kWorkersPerRow;
        out.iterations.push_back(std::move(row));
        cursor.iteration = next->first;
      }
      cursor.part = Part::kWorkers;
      return true;
    case Part::kWorkers:
      for (auto next = Next(state.workers.all(), cursor.worker); next != state.workers.all().end();
           ++next) {
        if (rows++ == kRowsPerStep) return true;
        const auto tasks = cursor.tasks_of.find(next->first);
        out.workers.push_back(
            RowOf(now, next->second, tasks == cursor.tasks_of.end() ? 0 : tasks->second));
        cursor.worker = next->first;
      }
      cursor.part = Part::kEnd;
      out.workers_wanted = cursor.workers_wanted;
      out.parked = state.parked.size();
      return false;
    case Part::kEnd:
      break;
  }
  return false;
}

}  // namespace lockstep::dispatch
