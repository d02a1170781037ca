#include "lockstep/launch/environment.h"

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace lockstep::launch {
namespace {

bool HasProxy(const Environment& environment) {
  for (const auto& [name, value] : environment) {
    const std::string lower = absl::AsciiStrToLower(name);
    if (!value.empty() && absl::EndsWith(lower, "_proxy") && !absl::StartsWith(lower, "no_")) {
      return true;
    }
  }
  return false;
}

std::string WithHosts(std::string list, const std::vector<std::string>& hosts) {
  for (const std::string& host : hosts) {
    bool there = false;
    for (absl::string_view entry : absl::StrSplit(list, ',')) {
      there |= absl::StripAsciiWhitespace(entry) == host;
    }
    if (!there) absl::StrAppend(&list, list.empty() ? "" : ",", host);
  }
  return list;
}

// "10.0.0.1" of "10.0.0.1:7070", "::1" of "[::1]:7070".
std::string HostOf(absl::string_view address) {
  absl::string_view host = address.substr(0, address.rfind(':'));
  absl::ConsumePrefix(&host, "[");
  absl::ConsumeSuffix(&host, "]");
  return std::string(host);
}

// Which of its own processes an MPI or PMI launcher took `lockstep run` for.
constexpr const char* kOfMpiLaunchers[] = {"PMI_RANK",
                                           "PMI_SIZE",
                                           "PMI_LOCAL_RANK",
                                           "PMI_LOCAL_SIZE",
                                           "PMIX_RANK",
                                           "MPI_LOCALRANKID",
                                           "MPI_LOCALNRANKS",
                                           "MV2_COMM_WORLD_RANK",
                                           "MV2_COMM_WORLD_SIZE",
                                           "MV2_COMM_WORLD_LOCAL_RANK",
                                           "MV2_COMM_WORLD_LOCAL_SIZE",
                                           "OMPI_COMM_WORLD_NODE_RANK"};

// {"cluster": {"worker": ["h:1", "h:2"]}, "task": {"type": "worker", "index": 0}}
std::string TensorFlowConfig(const std::vector<std::string>& addresses, int32_t index) {
  return absl::StrCat("{\"cluster\": {\"worker\": [\"", absl::StrJoin(addresses, "\", \""),
                      "\"]}, \"task\": {\"type\": \"worker\", \"index\": ", index, "}}");
}

void SetOwn(const RunEnvironment& run, const std::string& index, Environment& environment) {
  environment["LOCKSTEP_COORDINATOR"] = run.address.link;
  environment["LOCKSTEP_JOB"] = run.address.job;
  environment["LOCKSTEP_INDEX"] = index;
  environment["LOCKSTEP_SIZE"] = absl::StrCat(run.placement.size);
  environment["LOCKSTEP_ROLE"] = run.role;
  if (run.attempt.number) environment["LOCKSTEP_ATTEMPT"] = absl::StrCat(*run.attempt.number);
  std::string& run_ids = environment["LOCKSTEP_RUN_ID"];
  absl::StrAppend(&run_ids, run_ids.empty() ? "" : ":", run.run_id);
}

void SetTorch(const RunEnvironment& run, const std::string& index, int32_t local,
              Environment& environment) {
  const Placement& place = run.placement;
  environment["RANK"] = environment["ROLE_RANK"] = index;
  environment["WORLD_SIZE"] = environment["ROLE_WORLD_SIZE"] = absl::StrCat(place.size);
  environment["ROLE_NAME"] = run.role;
  environment["LOCAL_RANK"] = absl::StrCat(local);
  environment["LOCAL_WORLD_SIZE"] = absl::StrCat(place.local_size);
  environment["GROUP_RANK"] = environment["NODE_RANK"] = absl::StrCat(place.node);
  environment["GROUP_WORLD_SIZE"] = absl::StrCat(place.nodes);
  environment["TORCHELASTIC_RUN_ID"] = run.run_name.empty() ? run.address.job : run.run_name;
  environment["TORCHELASTIC_RESTART_COUNT"] = absl::StrCat(run.attempt.restarts);
  environment["TORCHELASTIC_MAX_RESTARTS"] = absl::StrCat(run.attempt.max_restarts);
  if (!run.error_folder.empty()) environment["TORCHELASTIC_ERROR_FILE"] = ErrorFileOf(run, local);
  environment.emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  if (LimitsThreads(run)) environment["OMP_NUM_THREADS"] = "1";
  if (run.address.store.empty()) return;
  environment["MASTER_ADDR"] = HostOf(run.address.store);
  environment["MASTER_PORT"] = run.address.store.substr(run.address.store.rfind(':') + 1);
  // Torch compares with exactly this text.
  environment["TORCHELASTIC_USE_AGENT_STORE"] = "True";
}

void SetJax(const RunEnvironment& run, const std::string& index, int32_t local,
            Environment& environment) {
  const std::string size = absl::StrCat(run.placement.size);
  environment["JAX_COORDINATOR_BIND_ADDRESS"] = "127.0.0.1:0";
  environment["JAX_COORDINATOR_ADDRESS"] = run.address.grpc;
  environment["JAX_NUM_PROCESSES"] = size;
  environment["JAX_PROCESS_ID"] = index;
  // JAX tests only that it is there when it has the coordinator's address already.
  environment["OMPI_MCA_orte_hnp_uri"] = "lockstep";
  environment["OMPI_COMM_WORLD_SIZE"] = size;
  environment["OMPI_COMM_WORLD_RANK"] = index;
  environment["OMPI_COMM_WORLD_LOCAL_RANK"] = absl::StrCat(local);
  environment["OMPI_COMM_WORLD_LOCAL_SIZE"] = absl::StrCat(run.placement.local_size);
}

}  // namespace

Environment ParseEnvironment(const char* const* strings) {
  Environment environment;
  for (; *strings != nullptr; ++strings) {
    const std::string_view entry = *strings;
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    environment.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return environment;
}

std::vector<std::string> Format(const Environment& environment) {
  std::vector<std::string> strings;
  strings.reserve(environment.size());
  for (const auto& [name, value] : environment) strings.push_back(absl::StrCat(name, "=", value));
  return strings;
}

Environment MemberEnvironment(const RunEnvironment& run, int32_t local) {
  Environment environment = run.inherited;
  for (const char* name : kOfMpiLaunchers) environment.erase(name);
  const Placement& place = run.placement;
  const std::string index = absl::StrCat(place.first + local);

  SetOwn(run, index, environment);
  SetTorch(run, index, local, environment);
  SetJax(run, index, local, environment);
  if (!run.tensorflow.empty()) {
    environment["TF_CONFIG"] = TensorFlowConfig(run.tensorflow, place.first + local);
  }
  environment.emplace("PYTHONUNBUFFERED", "1");

  if (HasProxy(environment)) {
    std::vector<std::string> hosts = {"127.0.0.1", "localhost", "::1", HostOf(run.address.grpc)};
    for (const char* name : {"no_proxy", "NO_PROXY"}) {
      environment[name] = WithHosts(environment[name], hosts);
    }
    // gRPC prefers it to the others.
    if (auto own = environment.find("no_grpc_proxy"); own != environment.end()) {
      own->second = WithHosts(own->second, hosts);
    }
  }
  for (const auto& [name, value] : run.extra) environment[name] = value;
  return environment;
}

std::string ErrorFileOf(const RunEnvironment& run, int32_t local) {
  if (run.error_folder.empty()) return "";
  return absl::StrCat(run.error_folder, "/error-", run.attempt.restarts, "-",
                      run.placement.first + local, ".json");
}

bool LimitsThreads(const RunEnvironment& run) {
  return run.placement.local_size > 1 && !run.inherited.contains("OMP_NUM_THREADS") &&
         !run.extra.contains("OMP_NUM_THREADS");
}

Environment WithoutOtherServers(Environment inherited) {
  std::erase_if(inherited, [](const auto& variable) {
    const std::string& name = variable.first;
    return name == "LOCKSTEP_CONFIG" || name == "LOCKSTEP_ATTEMPT" ||
           absl::StartsWith(name, "LOCKSTEP_SERVER_");
  });
  return inherited;
}

}  // namespace lockstep::launch
