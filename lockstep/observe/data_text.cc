#include "lockstep/observe/data_text.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lockstep/observe/text_parts.h"
#include "lockstep/wire/native/json.h"

namespace lockstep::observe {
namespace {

using wire::native::ConsumerStatus;
using wire::native::DatasetStatus;
using wire::native::DataStatusReply;
using wire::native::IterationPhase;
using wire::native::IterationStatus;
using wire::native::ReadingMode;
using wire::native::TaskStatus;
using wire::native::WorkerStatus;

constexpr size_t kIdentityShown = 8;
// One that was silent for longer is told so.
constexpr int64_t kSilentUs = 3'000'000;

std::string NameText(const IterationStatus& iteration) {
  const std::string name = CleanText(iteration.spec.name);
  return iteration.spec.repetition == 0 ? name
                                        : absl::StrCat(name, " #", iteration.spec.repetition);
}

std::string ModeText(const IterationStatus& iteration) {
  std::string text(NameOf(iteration.spec.mode));
  if (iteration.spec.mode != ReadingMode::kFirstCome) {
    absl::StrAppend(&text, " by ", iteration.spec.consumers);
  }
  if (iteration.spec.sharding != wire::native::DataSharding::kDynamic) {
    absl::StrAppend(&text, ", ", std::string(NameOf(iteration.spec.sharding)));
  }
  return text;
}

// "17 of 40 segments", "round 12, 34 segments".
std::string ProgressText(const IterationStatus& iteration) {
  std::string text;
  if (iteration.round) absl::StrAppend(&text, "round ", *iteration.round, ", ");
  const bool counts_done = iteration.spec.mode == ReadingMode::kFirstCome;
  const bool finished = iteration.phase == IterationPhase::kFinished;
  const int64_t count = counts_done ? iteration.done : iteration.granted;
  // Below zero: not known before the files are listed. What is finished is granted no more.
  const bool known = iteration.segments && *iteration.segments >= 0;
  if (finished && !counts_done && known) {
    return absl::StrCat(text, "all of ", CountText(*iteration.segments, "segment"));
  }
  absl::StrAppend(&text, count);
  if (known) absl::StrAppend(&text, " of ", *iteration.segments);
  absl::StrAppend(&text, counts_done ? " segments" : " segments given");
  if (iteration.dropped > 0) absl::StrAppend(&text, ", ", iteration.dropped, " dropped");
  return text;
}

// By the worker's id: "host7:4711 at 10.0.0.7:9000".
std::map<uint64_t, std::string> WorkerNames(const DataStatusReply& status) {
  std::map<uint64_t, std::string> names;
  for (const WorkerStatus& worker : status.workers) {
    names[worker.worker] = CleanText(worker.address);
  }
  return names;
}

std::string ElementTimeText(int64_t ns) {
  if (ns == 0) return "-";
  if (ns < 1'000) return absl::StrCat(ns, "ns");
  if (ns < 100'000) return absl::StrFormat("%.1fus", static_cast<double>(ns) / 1e3);
  return DurationText(ns / 1000);
}

// Of one whose request waits for its answer there is nothing to be heard.
std::string HeardAgoText(int64_t silent_us) {
  return silent_us < 1000 ? "now" : DurationText(silent_us);
}

std::string ProcessOf(const std::string& host, int64_t pid) {
  return absl::StrCat(CleanText(host), ":", pid);
}

void AppendIterations(std::string& text, const DataStatusReply& status) {
  if (status.iterations.empty()) return;
  Grid grid("");
  grid.Add({"ITERATION", "DATASET", "MODE", "STATE", "PROGRESS", "CONSUMERS", "WAITS FOR"});
  std::map<int64_t, std::string> datasets;
  for (const DatasetStatus& dataset : status.datasets) datasets[dataset.dataset] = dataset.name;
  for (size_t i = 0; i < std::min(status.iterations.size(), kRowsMax); ++i) {
    const IterationStatus& iteration = status.iterations[i];
    std::string waits = CleanText(iteration.waits_for);
    if (iteration.error) waits = CleanText(iteration.error->message.data);
    if (waits.empty()) waits = CleanText(iteration.agreeing);
    grid.Add({NameText(iteration), CleanText(datasets[iteration.spec.dataset]), ModeText(iteration),
              std::string(NameOf(iteration.phase)), ProgressText(iteration),
              absl::StrCat(iteration.consumers.size()), waits.empty() ? "-" : waits});
  }
  text += grid.Text();
  if (status.iterations.size() > kRowsMax) {
    absl::StrAppendFormat(&text, "+%d more\n", status.iterations.size() - kRowsMax);
  }
}

void AppendConsumers(std::string& text, const IterationStatus& iteration) {
  Grid grid;
  grid.Add({"CONSUMER", "INDEX", "PROCESS", "HEARD", "ROUND", "ELEMENTS", "BACKLOG", "HOLDS",
            "WAITS FOR"});
  for (size_t i = 0; i < std::min(iteration.consumers.size(), kRowsMax); ++i) {
    const ConsumerStatus& consumer = iteration.consumers[i];
    std::string waits = CleanText(consumer.waits_for);
    if (consumer.away) waits = "lost: waiting for a successor to take its place";
    if (consumer.finished) waits = "finished";
    grid.Add({CleanText(consumer.name), consumer.index ? absl::StrCat(*consumer.index) : "-",
              ProcessOf(consumer.host, consumer.pid), HeardAgoText(consumer.silent_us),
              consumer.round ? absl::StrCat(*consumer.round) : "-", absl::StrCat(consumer.elements),
              absl::StrCat(consumer.grants),
              consumer.unacknowledged == 0
                  ? "-"
                  : absl::StrCat(consumer.unacknowledged, " unacknowledged"),
              waits.empty() ? "-" : waits});
  }
  text += grid.Text();
  if (iteration.consumers.size() > kRowsMax) {
    absl::StrAppendFormat(&text, "  +%d more\n", iteration.consumers.size() - kRowsMax);
  }
}

void AppendTasks(std::string& text, const IterationStatus& iteration,
                 const DataStatusReply& status) {
  if (iteration.tasks.empty()) return;
  const auto names = WorkerNames(status);
  Grid grid;
  grid.Add({"TASK", "WORKER", "FROM ROUND", "SHARE", "STATE"});
  for (size_t i = 0; i < std::min(iteration.tasks.size(), kRowsMax); ++i) {
    const TaskStatus& task = iteration.tasks[i];
    const auto name = names.find(task.worker);
    grid.Add({absl::StrCat(task.task), name == names.end() ? "none" : name->second,
              task.starting_round ? absl::StrCat(*task.starting_round) : "-",
              task.share ? absl::StrCat(*task.share) : "-",
              task.finished      ? "finished"
              : task.stand_in    ? "stands in"
              : task.worker == 0 ? "waits for a worker"
                                 : "runs"});
  }
  text += grid.Text();
  if (iteration.tasks.size() > kRowsMax) {
    absl::StrAppendFormat(&text, "  +%d more\n", iteration.tasks.size() - kRowsMax);
  }
}

void AppendWorkers(std::string& text, const DataStatusReply& status) {
  if (status.workers.empty()) {
    text += status.iterations.empty()
                ? "no workers\n"
                : "no workers: start some with `lockstep worker --dispatcher HOST:PORT`\n";
    return;
  }
  Grid grid("");
  grid.Add({"WORKER", "PROCESS", "HEARD", "TASKS", "BACKLOG", "PER ELEMENT", "TAGS"});
  for (size_t i = 0; i < std::min(status.workers.size(), kRowsMax); ++i) {
    const WorkerStatus& worker = status.workers[i];
    std::string heard = HeardAgoText(worker.silent_us);
    if (worker.silent_us > kSilentUs) heard += " (silent)";
    grid.Add({CleanText(worker.address), ProcessOf(worker.host, worker.pid), heard,
              absl::StrCat(worker.tasks), absl::StrCat(worker.grants),
              ElementTimeText(worker.element_time_ns),
              worker.tags.empty() ? "-" : CleanText(absl::StrJoin(worker.tags, ","))});
  }
  text += grid.Text();
  if (status.workers.size() > kRowsMax) {
    absl::StrAppendFormat(&text, "+%d more\n", status.workers.size() - kRowsMax);
  }
  if (status.workers_wanted > static_cast<int64_t>(status.workers.size())) {
    absl::StrAppendFormat(&text, "%d workers would keep up with the consumers\n",
                          status.workers_wanted);
  }
}

void AppendDatasets(std::string& text, const DataStatusReply& status) {
  if (status.datasets.empty()) return;
  Grid grid("");
  grid.Add({"DATASET", "IDENTITY", "FILES", "ITERATIONS"});
  for (size_t i = 0; i < std::min(status.datasets.size(), kRowsMax); ++i) {
    const DatasetStatus& dataset = status.datasets[i];
    grid.Add({CleanText(dataset.name), dataset.identity.substr(0, kIdentityShown),
              !dataset.needs_manifest ? "none"
              : dataset.resolved      ? "listed"
                                      : "not listed yet",
              absl::StrCat(dataset.iterations)});
  }
  text += grid.Text();
  if (status.datasets.size() > kRowsMax) {
    absl::StrAppendFormat(&text, "+%d more\n", status.datasets.size() - kRowsMax);
  }
}

// Those of the name; all when it is empty.
std::vector<IterationStatus> Named(const DataStatusReply& status, const std::string& name) {
  if (name.empty()) return status.iterations;
  std::vector<IterationStatus> named;
  for (const IterationStatus& iteration : status.iterations) {
    if (iteration.spec.name == name) named.push_back(iteration);
  }
  return named;
}

}  // namespace

std::string DataTable(const DataStatusReply& status, const std::string& iteration) {
  DataStatusReply shown = status;
  shown.iterations = Named(status, iteration);
  std::string text;
  AppendIterations(text, shown);
  if (!iteration.empty()) {
    for (const IterationStatus& one : shown.iterations) {
      AppendConsumers(text, one);
      AppendTasks(text, one, status);
    }
    return text;
  }
  AppendWorkers(text, shown);
  AppendDatasets(text, shown);
  return text;
}

std::string DataJson(const DataStatusReply& status, const std::string& iteration) {
  DataStatusReply shown = status;
  shown.iterations = Named(status, iteration);
  return wire::native::ToJson(shown).dump(2, ' ', false,
                                          wire::native::Json::error_handler_t::replace) +
         "\n";
}

}  // namespace lockstep::observe
