#include "lockstep/observe/why_data.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/observe/text_parts.h"
#include "lockstep/observe/why.h"

namespace lockstep::observe {
namespace {

using namespace wire::native;  // NOLINT: the messages are what this file is about

// Iterations that are told of; the rest is counted.
constexpr size_t kIterationsTold = 3;

using Processes = std::map<std::pair<std::string, int64_t>, int32_t>;

Processes ProcessesOf(const JobStatus& job) {
  Processes processes;
  for (const MemberStatus& member : job.members) {
    if (member.pid != 0) processes.emplace(std::pair(member.host, member.pid), member.index);
  }
  return processes;
}

// Iteration, consumer, and what it waits for.
using Waiting = std::set<std::tuple<int64_t, int64_t, std::string>>;

Waiting WaitingIn(const DataStatusReply& status) {
  Waiting waiting;
  for (const IterationStatus& iteration : status.iterations) {
    for (const ConsumerStatus& consumer : iteration.consumers) {
      if (consumer.waits_for.empty() || consumer.finished) continue;
      waiting.emplace(iteration.iteration, consumer.consumer, consumer.waits_for);
    }
  }
  return waiting;
}

std::string NameOfIteration(const IterationStatus& iteration) {
  const int64_t repetition = iteration.spec.repetition;
  return repetition == 0 ? iteration.spec.name
                         : absl::StrCat(iteration.spec.name, " #", repetition);
}

}  // namespace

std::vector<DataWait> DataWaitsOf(const JobStatus& job, const DataStatusReply& now,
                                  const DataStatusReply& before) {
  const Processes processes = ProcessesOf(job);
  const Waiting waited = WaitingIn(before);
  std::vector<DataWait> waits;
  for (const IterationStatus& iteration : now.iterations) {
    const bool failed = iteration.phase == IterationPhase::kFailed;
    const bool listing = iteration.phase == IterationPhase::kResolving;
    const bool reads = iteration.phase == IterationPhase::kReading;
    if (!failed && !listing && !reads) continue;
    const bool no_workers = now.workers.empty() && !failed;
    DataWait wait = {.iteration = NameOfIteration(iteration), .no_workers = no_workers};
    if (failed && iteration.error) wait.error = iteration.error->message.data;
    if (failed && wait.error.empty()) wait.error = "the server gave no reason";
    if (listing || no_workers) wait.waits_for = iteration.waits_for;
    for (const ConsumerStatus& consumer : iteration.consumers) {
      const auto member = processes.find({consumer.host, consumer.pid});
      if (member == processes.end() || consumer.finished) continue;
      const bool still =
          waited.contains({iteration.iteration, consumer.consumer, consumer.waits_for});
      if (reads && !no_workers && !still) continue;
      if (wait.waits_for.empty() && !failed) wait.waits_for = consumer.waits_for;
      wait.members.push_back(member->second);
    }
    if (wait.members.empty()) continue;
    std::sort(wait.members.begin(), wait.members.end());
    wait.members.erase(std::unique(wait.members.begin(), wait.members.end()), wait.members.end());
    waits.push_back(std::move(wait));
  }
  return waits;
}

void TellData(const JobStatus& job, const std::vector<DataWait>& waits, Diagnosis& out) {
  if (waits.empty()) return;
  std::set<int32_t> waiting;
  bool failed = false;
  bool no_workers = false;
  for (const DataWait& wait : waits) {
    waiting.insert(wait.members.begin(), wait.members.end());
    failed = failed || !wait.error.empty();
    no_workers = no_workers || wait.no_workers;
  }
  for (size_t i = 0; i < std::min(waits.size(), kIterationsTold); ++i) {
    const DataWait& wait = waits[i];
    const std::string who = MembersRangesText(job, wait.members);
    const std::string name = CleanText(wait.iteration, 80);
    out.findings.push_back(
        wait.error.empty()
            ? absl::StrFormat("%s %s for data: iteration '%s' waits for %s.", who,
                              wait.members.size() == 1 ? "waits" : "wait", name,
                              wait.waits_for.empty() ? "a worker" : CleanText(wait.waits_for))
            : absl::StrFormat("Iteration '%s', which %s %s, has failed: %s", name, who,
                              wait.members.size() == 1 ? "reads" : "read", CleanText(wait.error)));
  }
  if (waits.size() > kIterationsTold) {
    out.findings.push_back(absl::StrFormat("+%d more iterations.", waits.size() - kIterationsTold));
  }
  if (out.verdict == Verdict::kFine) {
    out.verdict = failed ? Verdict::kTrouble : Verdict::kWaiting;
    out.summary = failed ? std::string("reading data has failed")
                         : absl::StrFormat("%d of %d members %s for data", waiting.size(), job.size,
                                           waiting.size() == 1 ? "waits" : "wait");
  }
  out.advice.push_back(no_workers
                           ? "Start data workers: `lockstep worker --dispatcher HOST:PORT`, with "
                             "the address of this server."
                           : absl::StrFormat("`lockstep data %s` shows its workers and consumers.",
                                             CleanText(waits.front().iteration, 80)));
}

}  // namespace lockstep::observe
