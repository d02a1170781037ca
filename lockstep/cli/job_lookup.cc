#include "lockstep/cli/job_lookup.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lockstep/base/limits.h"
#include "lockstep/cli/run_connection.h"
#include "lockstep/launch/launcher.h"
#include "lockstep/observe/text_parts.h"
#include "lockstep/platform/link/client.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/reached_at.h"
#include "lockstep/platform/runtime/server_list.h"
#include "lockstep/wire/native/last_attempt.h"

namespace lockstep::cli {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(5);
// Jobs that an error names before it counts the rest.
constexpr size_t kJobsNamedMax = 10;

constexpr char kHowToMakeOne[] =
    "; create one with lockstep job create NAME=SIZE. A run on several nodes creates the job that "
    "its --job names";

std::string NameJobs(const std::vector<wire::native::JobStatus>& jobs) {
  if (jobs.empty()) return "it has none";
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(jobs.size(), kJobsNamedMax); ++i) {
    names.push_back(absl::StrFormat("\"%s\" (size %d)", jobs[i].job, jobs[i].size));
  }
  if (jobs.size() > names.size()) {
    names.push_back(absl::StrFormat("+%d more", jobs.size() - names.size()));
  }
  return absl::StrCat("it has ", absl::StrJoin(names, ", "));
}

}  // namespace

absl::StatusOr<FoundJob> ChooseJob(const wire::native::StatusReply& reply,
                                   const std::string& coordinator, const std::string& server,
                                   const std::string& job, int32_t processes) {
  const auto& jobs = reply.jobs;
  // As the caller wrote it, unless that names several.
  const std::string& at = runtime::AreServers(coordinator) ? server : coordinator;
  if (job.empty() && jobs.size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--job is required to select a job of the server at %s: %s%s", at,
                        NameJobs(jobs), jobs.empty() ? kHowToMakeOne : ""));
  }
  const auto found =
      job.empty() ? jobs.begin()
                  : std::find_if(jobs.begin(), jobs.end(),
                                 [&](const auto& candidate) { return candidate.job == job; });
  if (found == jobs.end()) {
    return absl::NotFoundError(absl::StrFormat(
        "the server at %s has no job \"%s\": %s; create it with lockstep job create NAME=SIZE", at,
        job, NameJobs(jobs)));
  }
  if (processes != 0 && processes != found->size) {
    return absl::InvalidArgumentError(
        absl::StrFormat("job \"%s\" of the server at %s has size %d, but -n asks for %d processes; "
                        "omit -n, or serve the job with --job %s=%d",
                        found->job, at, found->size, processes, found->job, processes));
  }
  if (found->size > launch::kRunProcessesMax) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "job \"%s\" has size %d, and one host runs at most %d processes (run_processes_max)",
        found->job, found->size, launch::kRunProcessesMax));
  }
  if (found->grpc.empty()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "the server at %s reports no address for stock clients of job \"%s\"", at, found->job));
  }
  std::vector<std::string> running;
  for (const wire::native::MemberStatus& member : found->members) {
    if (member.process != wire::native::ProcessState::kRunning) continue;
    running.push_back(
        absl::StrFormat("%s (%s)", observe::CleanText(member.name), observe::ProcessText(member)));
  }
  return FoundJob{.address = {.job = found->job,
                              .link = coordinator,
                              .grpc = runtime::ReachedAt(found->grpc, server),
                              .store = runtime::ReachedAt(found->store, server)},
                  .size = found->size,
                  .attempt_before = wire::native::LastAttempt(*found),
                  .running = std::move(running)};
}

std::string RunsAlreadyText(const FoundJob& job) {
  if (job.running.empty()) return "";
  const size_t named = std::min(job.running.size(), kNamesInErrorMax);
  std::string names = absl::StrJoin(job.running.begin(), job.running.begin() + named, ", ");
  if (job.running.size() > named) {
    absl::StrAppend(&names, ", +", job.running.size() - named, " more");
  }
  return absl::StrFormat(
      "job \"%s\" already has running processes, as its launcher last reported: %s; if that run "
      "is still active, end one of the two or give one another job (--job): they would disturb "
      "each other, and lockstep status and why show only the processes of the newer one",
      job.address.job, names);
}

std::string RecoverabilityText(const std::string& job, bool is, bool wanted) {
  if (is == wanted) return "";
  if (wanted) {
    return absl::StrFormat(
        "JAX_ENABLE_RECOVERABILITY requires a recoverable job, and job \"%s\" is not recoverable: "
        "delete it and create it again (lockstep job create NAME=SIZE --recoverable, or "
        "--recoverable %s of the server), or unset the variable",
        job, job);
  }
  return absl::StrFormat(
      "job \"%s\" is recoverable, but JAX_ENABLE_RECOVERABILITY is off: failed members are waited "
      "for, and the others are not notified",
      job);
}

namespace {

// Of that job; of all when it is empty, or is not there and the caller may know of the others.
absl::StatusOr<wire::native::StatusReply> StatusFor(link::Client& client, const std::string& job) {
  if (!job.empty()) {
    auto one = client.Call(wire::native::StatusRequest{.job = job}, kTimeout);
    if (one.ok() || !absl::IsNotFound(one.status())) return one;
  }
  auto all = client.Call(wire::native::StatusRequest{}, kTimeout);
  if (!job.empty() && absl::IsPermissionDenied(all.status())) return wire::native::StatusReply{};
  return all;
}

}  // namespace

std::optional<MemberIndex> RootCauseIn(const wire::native::JobStatus& job) {
  for (const wire::native::ErrorStatus& error : job.errors) {
    if (error.attempt != job.attempt || error.consequence || error.origin.empty()) continue;
    for (const wire::native::MemberStatus& member : job.members) {
      if (member.name == error.origin) return MemberIndex(member.index);
    }
  }
  return std::nullopt;
}

std::optional<wire::native::JobStatus> StatusOf(const std::string& coordinator,
                                                const std::string& job, absl::Duration timeout,
                                                const std::string& who) {
  const auto client = link::Client::Connect(coordinator, timeout, {.who = who});
  if (!client.ok()) return std::nullopt;
  auto reply = (*client)->Call(wire::native::StatusRequest{.job = job}, timeout);
  if (!reply.ok() || reply->jobs.empty()) return std::nullopt;
  return std::move(reply->jobs.front());
}

absl::StatusOr<std::string> OpenStoreOf(const launch::JobAddress& address, int64_t attempt,
                                        const std::function<bool()>& interrupted) {
  for (;;) {
    const auto client = link::Client::Connect(address.link, kTimeout, {.who = "lockstep run"});
    absl::Status status = client.status();
    if (client.ok()) {
      const auto reply = (*client)->Call(
          wire::native::OpenStore{.job = address.job, .attempt = attempt}, kTimeout);
      if (reply.ok()) return runtime::ReachedAt(reply->store, (*client)->server());
      status = reply.status();
    }
    const bool comes_back = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
    if (!comes_back || interrupted()) return status;
    std::this_thread::sleep_for(absl::ToChronoMilliseconds(RetryIntervalAfter(status)));
  }
}

// To make a job once more changes nothing, and says whether it was asked for as it is.
absl::StatusOr<std::optional<bool>> IsRecoverable(const launch::JobAddress& address, int32_t size) {
  const auto client = ConnectForRun(address.link);
  if (!client.ok()) return client.status();
  for (const bool recoverable : {false, true}) {
    const auto same = (*client)->Call(
        wire::native::CreateJob{.job = address.job, .size = size, .recoverable = recoverable},
        kTimeout);
    if (same.ok()) return recoverable;
    if (!absl::IsAlreadyExists(same.status())) return same.status();
  }
  return std::nullopt;
}

absl::StatusOr<FoundJob> LookUpJobOfNodes(const std::string& coordinator, const std::string& job,
                                          int32_t size, bool recoverable, IfMissing if_missing) {
  const auto client = ConnectForRun(coordinator);
  if (!client.ok()) return client.status();
  auto reply = StatusFor(**client, job);
  if (!reply.ok()) return reply.status();
  const auto is = [&](const auto& one) { return one.job == job; };
  if (!job.empty() && std::none_of(reply->jobs.begin(), reply->jobs.end(), is)) {
    if (if_missing == IfMissing::kSuppose) {
      return FoundJob{.address = {.job = job,
                                  .link = coordinator,
                                  .grpc = kAddressNotKnown,
                                  .store = kAddressNotKnown},
                      .size = size,
                      .missing = true};
    }
    const auto made = (*client)->Call(
        wire::native::CreateJob{.job = job, .size = size, .recoverable = recoverable}, kTimeout);
    if (!made.ok()) return made.status();
    reply = StatusFor(**client, job);
    if (!reply.ok()) return reply.status();
  }
  auto found = ChooseJob(*reply, coordinator, (*client)->server(), job, 0);
  if (found.ok() && found->size < size) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "job \"%s\" of the server at %s has size %d, but the nodes have up to %d processes; serve "
        "it with --job %s=%d",
        found->address.job, runtime::AreServers(coordinator) ? (*client)->server() : coordinator,
        found->size, size, found->address.job, size));
  }
  return found;
}

absl::StatusOr<FoundJob> LookUpJob(const std::string& coordinator, const std::string& job,
                                   int32_t processes) {
  const auto client = ConnectForRun(coordinator);
  if (!client.ok()) return client.status();
  const auto reply = StatusFor(**client, job);
  if (!reply.ok()) return reply.status();
  return ChooseJob(*reply, coordinator, (*client)->server(), job, processes);
}

}  // namespace lockstep::cli
