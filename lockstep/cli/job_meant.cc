#include "lockstep/cli/job_meant.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "lockstep/observe/text_parts.h"
#include "lockstep/platform/runtime/server_list.h"

namespace lockstep::cli {
namespace {

using wire::native::JobStatus;
using wire::native::StatusReply;

// That an error names before it counts the rest.
constexpr size_t kChoicesNamedMax = 10;

struct Choice {
  std::string coordinator;
  std::string job;

  friend bool operator==(const Choice&, const Choice&) = default;
};

absl::StatusOr<JobStatus> OnlyJobOf(absl::StatusOr<StatusReply> reply) {
  if (!reply.ok()) return reply.status();
  if (reply->jobs.size() == 1) return std::move(reply->jobs.front());
  return absl::InternalError("the server answered about another job");
}

// The nodes of a torchrun meet in a job of their own, where the workers' store is too.
constexpr char kNodesSuffix[] = ".nodes";

bool StoreIsUsed(const JobStatus& job) {
  return job.torch_store && (job.torch_store->connections > 0 || job.torch_store->keys > 0);
}

// Of a torchrun's workers: with their store. Of its nodes: the workers', when there are any.
JobStatus WithTorchrun(ServerCommand& self, JobStatus job) {
  if (absl::EndsWith(job.job, kNodesSuffix)) {
    auto workers = OnlyJobOf(self.Status(std::string(absl::StripSuffix(job.job, kNodesSuffix))));
    if (!workers.ok()) return job;
    if (!StoreIsUsed(*workers)) {
      workers->store = job.store;
      workers->torch_store = job.torch_store;
    }
    return *std::move(workers);
  }
  if (StoreIsUsed(job)) return job;
  auto nodes = OnlyJobOf(self.Status(absl::StrCat(job.job, kNodesSuffix)));
  if (nodes.ok() && StoreIsUsed(*nodes)) {
    job.store = nodes->store;
    job.torch_store = std::move(nodes->torch_store);
  }
  return job;
}

absl::StatusOr<JobStatus> WithTorchrun(ServerCommand& self, absl::StatusOr<JobStatus> job) {
  if (!job.ok()) return job;
  return WithTorchrun(self, *std::move(job));
}

// Whether the workers of these nodes are a choice, too.
bool IsNodesOfAnother(const std::vector<Choice>& choices, const Choice& one) {
  const std::string workers(absl::StripSuffix(one.job, kNodesSuffix));
  return workers != one.job && std::find(choices.begin(), choices.end(),
                                         Choice{one.coordinator, workers}) != choices.end();
}

absl::Status SayWhich(const std::vector<Choice>& choices) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(choices.size(), kChoicesNamedMax); ++i) {
    texts.push_back(absl::StrCat(observe::CleanText(choices[i].job, 200), " --coordinator ",
                                 observe::CleanText(choices[i].coordinator, 200)));
  }
  if (choices.size() > texts.size()) {
    texts.push_back(absl::StrCat("+", choices.size() - texts.size(), " more"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("several jobs exist; name one: ", absl::StrJoin(texts, ", ")));
}

}  // namespace

int FailToFind(ServerCommand& self, const absl::Status& status) {
  const int code = self.Fail(status);
  return absl::IsInvalidArgument(status) ? kExitUsage : code;
}

absl::StatusOr<JobStatus> JobMeant(ServerCommand& self, const std::string& given,
                                   const std::vector<KnownRun>& runs) {
  const std::string& name = given.empty() ? self.joined_job() : given;
  absl::StatusOr<StatusReply> reply = self.Status(name);
  const bool named = !name.empty();
  if (named && (reply.ok() || self.coordinator_given())) {
    return WithTorchrun(self, OnlyJobOf(std::move(reply)));
  }
  if (!reply.ok() && self.coordinator_given()) return reply.status();
  std::vector<Choice> choices;
  if (reply.ok()) {
    for (const JobStatus& job : reply->jobs) choices.push_back({self.coordinator(), job.job});
  }
  for (const KnownRun& run : runs) {
    if (self.coordinator_given() || (named && run.job != name)) continue;
    const Choice choice = {run.coordinator, run.job};
    if (std::find(choices.begin(), choices.end(), choice) == choices.end()) {
      choices.push_back(choice);
    }
  }
  const std::vector<Choice> all = choices;
  std::erase_if(choices, [&](const Choice& one) { return IsNodesOfAnother(all, one); });
  if (choices.size() > 1) return SayWhich(choices);
  if (choices.empty()) {
    if (!reply.ok()) return reply.status();
    return absl::NotFoundError(
        absl::StrCat(runtime::OneServer(self.coordinator()), " has no jobs"));
  }
  self.Use(choices.front().coordinator);
  return WithTorchrun(self, OnlyJobOf(self.Status(choices.front().job)));
}

}  // namespace lockstep::cli
