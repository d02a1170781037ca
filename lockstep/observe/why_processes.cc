#include "lockstep/observe/why_processes.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "lockstep/observe/member_groups.h"
#include "lockstep/observe/text_parts.h"
#include "lockstep/observe/why_parts.h"

namespace lockstep::observe {

using wire::native::JobStatus;
using wire::native::MemberStatus;
using wire::native::ProcessState;

namespace {

// Whose process is in that state, who has been so for longest first.
std::vector<int32_t> ProcessesThatAre(const JobStatus& job, ProcessState state) {
  std::vector<const MemberStatus*> found;
  for (const MemberStatus& member : job.members) {
    if (member.process == state) found.push_back(&member);
  }
  std::stable_sort(found.begin(), found.end(), [](const auto* a, const auto* b) {
    return a->process_since_ago_us > b->process_since_ago_us;
  });
  return IndicesOf(found);
}

// Every process that failed.
bool AllWereKilled(const JobStatus& job) {
  return std::all_of(job.members.begin(), job.members.end(), [](const MemberStatus& member) {
    return member.process != ProcessState::kFailed ||
           absl::StrContains(member.why, "killed by SIGKILL");
  });
}

}  // namespace

bool TellProcesses(const JobStatus& job, Diagnosis& out) {
  const auto unknown = ProcessesThatAre(job, ProcessState::kUnspecified);
  const auto left_out = ProcessesThatAre(job, ProcessState::kLeftOut);
  const size_t expected = job.members.size() - left_out.size();
  if (unknown.size() == expected) return false;
  const auto failed = ProcessesThatAre(job, ProcessState::kFailed);
  const auto stopped = ProcessesThatAre(job, ProcessState::kStopped);
  const auto running = ProcessesThatAre(job, ProcessState::kRunning);
  const bool all_ended = running.empty() && stopped.empty() && failed.empty();

  out.verdict = Verdict::kFine;
  out.summary = all_ended ? std::string("all processes have ended; none joined the job")
                          : absl::StrFormat(
                                "%d of %d processes run; none joined the job (programs that do "
                                "not use Lockstep never do)",
                                running.size(), expected);
  if (!left_out.empty() && !all_ended) {
    out.summary += absl::StrFormat("; without %s: the run is smaller than the job",
                                   MembersRangesText(job, left_out));
  }
  if (!unknown.empty() && !all_ended) {
    out.verdict = Verdict::kWaiting;
    out.findings.push_back(
        absl::StrFormat("No launcher has started %s.", MembersRangesText(job, unknown)));
    out.advice.push_back("Start the missing processes, or check why their launcher does not.");
  }
  if (!stopped.empty()) {
    out.verdict = Verdict::kWaiting;
    out.summary = "a process is stopped; the others may be waiting for it";
    TellEach(job, stopped, out.findings);
    out.advice.push_back("Resume a stopped process with kill -CONT.");
  }
  if (!failed.empty()) {
    out.verdict = Verdict::kTrouble;
    out.summary = failed.size() == 1 ? std::string("a process failed")
                                     : absl::StrFormat("%d processes failed", failed.size());
    std::vector<std::string> first;
    TellEach(job, failed, first);
    out.findings.insert(out.findings.begin(), first.begin(), first.end());
    out.advice.insert(out.advice.begin(),
                      "Check the end of the output of the process that failed first.");
    if (failed.size() == expected && AllWereKilled(job)) {
      out.advice.insert(out.advice.begin(),
                        "All of them were killed by SIGKILL. Check whether their `lockstep run` "
                        "was killed, which "
                        "kills its processes too, and in the kernel's log whether memory ran out.");
    }
  }
  return true;
}

bool TellFailedProcesses(const JobStatus& job, Diagnosis& out) {
  const std::vector<const MemberStatus*> failed = FailedProcesses(job);
  if (failed.empty()) return false;
  out.verdict = Verdict::kTrouble;
  out.summary = absl::StrFormat("%d %s failed; members: %s", failed.size(),
                                failed.size() == 1 ? "process" : "processes", CountsText(job));
  TellEach(job, IndicesOf(failed), out.findings);
  out.advice.push_back("Check the end of the output of the process that failed first.");
  return true;
}

}  // namespace lockstep::observe
