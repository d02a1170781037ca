#include "lockstep/cli/run_outcome.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "lockstep/cli/gather_stacks.h"
#include "lockstep/cli/job_lookup.h"
#include "lockstep/launch/tool_output.h"
#include "lockstep/observe/why.h"
#include "lockstep/platform/runtime/server_list.h"

namespace lockstep::cli {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(1);
constexpr absl::Duration kBundleTimeout = absl::Seconds(15);
static_assert(kTimeout < kBundleTimeout);  // a bundle asks for more than one answer
// Of what `why` says when a run is ended: `why_lines_max`.
constexpr size_t kWhyLinesMax = 6;

}  // namespace

bool AnybodyJoined(const wire::native::JobStatus& job, absl::Duration ago) {
  if (job.torch_store && (job.torch_store->connections > 0 || job.torch_store->keys > 0)) {
    return true;
  }
  return job.started_ago_us && absl::Microseconds(*job.started_ago_us) <= ago;
}

launch::RootCauseTold RootCauseOf(const launch::JobAddress& address, absl::Duration ago) {
  const auto status = StatusOf(address.link, address.job, kTimeout, "lockstep run");
  if (!status) return {};
  return {.member = RootCauseIn(*status), .joined = AnybodyJoined(*status, ago)};
}

std::vector<std::string> WhatIsSeenOf(const launch::JobAddress& address) {
  const auto job = StatusOf(address.link, address.job, kTimeout, "lockstep run");
  if (!job || !job->torch_store || job->torch_store->awaited.empty()) return {};
  return observe::Diagnose(*job).findings;
}

std::vector<std::string> WhyItWaits(const launch::JobAddress& address) {
  const auto job = StatusOf(address.link, address.job, kTimeout, "lockstep run");
  if (!job) return {};
  const observe::Diagnosis diagnosis =
      observe::Diagnose(*job, TakeSnapshots(address.link, *job, kTimeout).all);
  if (diagnosis.verdict == observe::Verdict::kFine) return {};
  std::vector<std::string> lines = {diagnosis.summary};
  for (const observe::Suspect& suspect : diagnosis.suspects) {
    lines.push_back(absl::StrCat(suspect.name, ": ", suspect.evidence));
  }
  lines.insert(lines.end(), diagnosis.findings.begin(), diagnosis.findings.end());
  lines.resize(std::min(lines.size(), kWhyLinesMax));
  return lines;
}

std::string WriteBundle(const launch::JobAddress& address, const std::string& folder) {
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) {
    return absl::StrCat("--bundle-on-failure: cannot create ", folder, ": ", std::strerror(errno));
  }
  const std::string file = absl::StrCat(folder, "/lockstep-", address.job, "-", ::getpid(), ".tar");
  const auto said = launch::OutputOf({"/proc/self/exe", "bundle", address.job, "--coordinator",
                                      address.link, "--to", file, "--timeout", "3s"},
                                     kBundleTimeout);
  return said
             ? absl::StrCat("details of the failure are in ", file)
             : absl::StrCat(
                   "--bundle-on-failure: no bundle was written: ", runtime::TheServer(address.link),
                   " did not answer, or ", folder, " cannot be written");
}

}  // namespace lockstep::cli
