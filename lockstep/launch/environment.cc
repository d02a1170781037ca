#include "lockstep/launch/environment.h"

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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

Environment MemberEnvironment(Environment inherited, const JobAddress& address,
                              const std::string& role, MemberIndex member, int32_t size,
                              const std::string& run_id) {
  Environment environment = std::move(inherited);
  const std::string index_text = absl::StrCat(member.value());
  const std::string size_text = absl::StrCat(size);

  environment["LOCKSTEP_COORDINATOR"] = address.link;
  environment["LOCKSTEP_JOB"] = address.job;
  environment["LOCKSTEP_INDEX"] = index_text;
  environment["LOCKSTEP_SIZE"] = size_text;
  environment["LOCKSTEP_ROLE"] = role;
  std::string& run_ids = environment["LOCKSTEP_RUN_ID"];
  absl::StrAppend(&run_ids, run_ids.empty() ? "" : ":", run_id);

  environment["JAX_COORDINATOR_BIND_ADDRESS"] = "127.0.0.1:0";
  environment["JAX_COORDINATOR_ADDRESS"] = address.grpc;
  environment["JAX_NUM_PROCESSES"] = size_text;
  environment["JAX_PROCESS_ID"] = index_text;
  // JAX tests only that it is there when it has the coordinator's address already.
  environment["OMPI_MCA_orte_hnp_uri"] = "lockstep";
  environment["OMPI_COMM_WORLD_SIZE"] = size_text;
  environment["OMPI_COMM_WORLD_RANK"] = index_text;
  environment["OMPI_COMM_WORLD_LOCAL_RANK"] = index_text;

  environment.emplace("PYTHONUNBUFFERED", "1");

  if (HasProxy(environment)) {
    const std::vector<std::string> hosts = {"127.0.0.1", "localhost", "::1", HostOf(address.grpc)};
    for (const char* name : {"no_proxy", "NO_PROXY"}) {
      environment[name] = WithHosts(environment[name], hosts);
    }
    // gRPC prefers it to the others.
    if (auto own = environment.find("no_grpc_proxy"); own != environment.end()) {
      own->second = WithHosts(own->second, hosts);
    }
  }
  return environment;
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
