#include "lockstep/launch/detect.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace lockstep::launch {
namespace {

std::string ValueOf(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found != environment.end() ? found->second : "";
}

bool HasAll(const Environment& environment, std::initializer_list<const char*> names) {
  return std::all_of(names.begin(), names.end(),
                     [&](const char* name) { return !ValueOf(environment, name).empty(); });
}

// A rank and a size, as some pair of variables says them.
absl::StatusOr<Detected> OfPair(const Environment& environment, const char* by, const char* rank,
                                const char* size) {
  Detected detected;
  detected.by = by;
  int32_t nodes = 0;
  if (!absl::SimpleAtoi(ValueOf(environment, rank), &detected.node) ||
      !absl::SimpleAtoi(ValueOf(environment, size), &nodes) || detected.node < 0 ||
      detected.node >= nodes) {
    return absl::InvalidArgumentError(
        absl::StrCat(by, " started this, but ", rank, "='", ValueOf(environment, rank), "' and ",
                     size, "='", ValueOf(environment, size),
                     "' are no rank among so many; --nnodes and --node-rank say it"));
  }
  detected.nodes = nodes;
  detected.why.push_back(absl::StrCat(by, " started this: node ", detected.node, " by ", rank,
                                      ", of ", nodes, " by ", size,
                                      ", since each `lockstep run` that it starts is a node"));
  return detected;
}

void AddHost(Detected& detected, std::string host, const std::string& from) {
  if (host.empty() || !detected.coordinator_host.empty()) return;
  detected.coordinator_host = std::move(host);
  detected.why.push_back(
      absl::StrCat("the coordinator's host would be ", detected.coordinator_host, ", from ", from));
}

void AddSlurmHost(const Environment& environment, Detected& detected) {
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
    AddHost(detected, FirstHost(ValueOf(environment, name)), name);
  }
}

// "10.0.0.1" of "1638400000.0;tcp://10.0.0.1,172.17.0.1:44443".
std::string HostOfUri(absl::string_view uri) {
  const size_t begin = uri.find("://");
  if (begin == absl::string_view::npos) return "";
  uri.remove_prefix(begin + 3);
  const size_t end = std::min(uri.find_first_of(",:;"), uri.size());
  return std::string(uri.substr(0, end));
}

absl::StatusOr<Detected> OfOpenMpi(const Environment& environment) {
  auto detected = OfPair(environment, "open mpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  if (!detected.ok()) return detected;
  // Where mpirun runs, which is the first host of most lists.
  AddHost(*detected, HostOfUri(ValueOf(environment, "OMPI_MCA_orte_hnp_uri")),
          "OMPI_MCA_orte_hnp_uri, where mpirun runs");
  AddSlurmHost(environment, *detected);
  detected->run_name = ValueOf(environment, "PMIX_NAMESPACE");
  return detected;
}

absl::StatusOr<Detected> OfSlurm(const Environment& environment) {
  const char* const size =
      HasAll(environment, {"SLURM_STEP_NUM_TASKS"}) ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  auto detected = OfPair(environment, "slurm", "SLURM_PROCID", size);
  if (!detected.ok()) return detected;
  AddSlurmHost(environment, *detected);
  detected->run_name = absl::StrCat("slurm-", ValueOf(environment, "SLURM_JOB_ID"), ".",
                                    ValueOf(environment, "SLURM_STEP_ID"));
  return detected;
}

// The pods of an indexed job are called JOB-INDEX; how many there are stands in the job only.
absl::StatusOr<Detected> OfKubernetes(const Environment& environment,
                                      const std::string& host_name) {
  Detected detected;
  detected.by = "kubernetes";
  const std::string index = ValueOf(environment, "JOB_COMPLETION_INDEX");
  if (!absl::SimpleAtoi(index, &detected.node) || detected.node < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "kubernetes started this, but JOB_COMPLETION_INDEX='", index, "' is no index"));
  }
  detected.why.push_back(absl::StrCat("kubernetes started this: node ", detected.node,
                                      " by JOB_COMPLETION_INDEX of an indexed job; how many there "
                                      "are has to be said by --nnodes: the job's parallelism"));
  absl::string_view job = host_name;
  if (absl::ConsumeSuffix(&job, absl::StrCat("-", index)) && !job.empty()) {
    AddHost(detected, absl::StrCat(job, "-0"),
            "this pod's name; other pods find it behind the job's headless service");
    detected.run_name = std::string(job);
  }
  return detected;
}

std::string ShortName(absl::string_view host) {
  // Of an address nothing is left out.
  if (!host.empty() && absl::ascii_isdigit(static_cast<unsigned char>(host.back()))) {
    return std::string(host);
  }
  return std::string(host.substr(0, host.find('.')));
}

absl::StatusOr<Detected> OfHosts(const std::vector<HostLine>& hosts, const std::string& name) {
  Detected detected;
  detected.by = "hosts file";
  detected.nodes = static_cast<int32_t>(hosts.size());
  if (hosts.empty()) return absl::InvalidArgumentError("the hosts file names no host");
  const auto here = [&](const HostLine& line) {
    return line.host == name || line.host == ShortName(name) || ShortName(line.host) == name;
  };
  const auto found = std::find_if(hosts.begin(), hosts.end(), here);
  AddHost(detected, hosts.front().host, "its first line");
  if (found == hosts.end()) {
    detected.node = -1;
    detected.why.push_back(absl::StrCat("the hosts file has ", hosts.size(),
                                        " hosts, but none is called ", name,
                                        ": --node-rank has to say which this is"));
    return detected;
  }
  detected.node = static_cast<int32_t>(found - hosts.begin());
  detected.processes = found->slots;
  detected.why.push_back(absl::StrCat(
      "the hosts file has ", hosts.size(), " hosts, and this one, ", found->host, ", is number ",
      detected.node,
      found->slots ? absl::StrCat(", with ", *found->slots, " slots") : std::string()));
  return detected;
}

}  // namespace

absl::StatusOr<std::vector<HostLine>> ParseHostsFile(std::string_view text) {
  std::vector<HostLine> hosts;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    ++number;
    line = line.substr(0, line.find('#'));
    std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    if (hosts.size() == kHostsFileLinesMax) {
      return absl::InvalidArgumentError(absl::StrCat(
          "line ", number, ": more than ", kHostsFileLinesMax, " hosts (hosts_file_lines_max)"));
    }
    HostLine host = {.host = words.front(), .slots = std::nullopt};
    for (size_t i = 1; i < words.size(); ++i) {
      absl::string_view value = words[i];
      if (!absl::ConsumePrefix(&value, "slots=")) continue;  // max_slots and the like
      int32_t slots = 0;
      if (!absl::SimpleAtoi(value, &slots) || slots < 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("line ", number, ": '", words[i], "' is no number of slots"));
      }
      host.slots = slots;
    }
    const bool twice = std::any_of(hosts.begin(), hosts.end(), [&](const HostLine& before) {
      return before.host == host.host;
    });
    if (twice) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, ": ", host.host, " stands there for the second time"));
    }
    hosts.push_back(std::move(host));
  }
  return hosts;
}

std::string FirstHost(std::string_view list) {
  std::string host;
  for (size_t at = 0; at < list.size() && list[at] != ','; ++at) {
    if (list[at] != '[') {
      host += list[at];
      continue;
    }
    const size_t end = list.find_first_of(",-]", at + 1);
    const size_t close = list.find(']', at);
    if (close == std::string_view::npos) return "";
    host += list.substr(at + 1, end - at - 1);
    at = close;
  }
  return host;
}

absl::StatusOr<Detected> DetectCluster(const DetectInput& input) {
  const Environment& environment = *input.environment;
  if (input.hosts != nullptr) return OfHosts(*input.hosts, input.host_name);
  if (HasAll(environment, {"LOCKSTEP_RUN_ID"})) {
    Detected none;
    none.nodes = 1;
    none.why.push_back("within another lockstep run nobody else is looked for");
    return none;
  }
  if (HasAll(environment, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"})) {
    return OfOpenMpi(environment);
  }
  if (HasAll(environment, {"PMI_RANK", "PMI_SIZE"})) {
    auto detected = OfPair(environment, "pmi", "PMI_RANK", "PMI_SIZE");
    if (detected.ok()) AddSlurmHost(environment, *detected);
    return detected;
  }
  if (HasAll(environment, {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"})) {
    auto detected = OfPair(environment, "mvapich", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE");
    if (detected.ok()) AddSlurmHost(environment, *detected);
    return detected;
  }
  if (HasAll(environment,
             {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NODELIST"})) {
    return OfSlurm(environment);
  }
  if (HasAll(environment, {"KUBERNETES_SERVICE_HOST", "JOB_COMPLETION_INDEX"})) {
    return OfKubernetes(environment, input.host_name);
  }
  Detected none;
  none.nodes = 1;
  none.why.push_back(
      "no scheduler is seen (Open MPI, PMI, a step of Slurm, an indexed job of Kubernetes) and no "
      "hosts file is given");
  return none;
}

}  // namespace lockstep::launch
