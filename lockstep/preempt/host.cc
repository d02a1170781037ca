#include "lockstep/preempt/host.h"

#include <unistd.h>

#include <fstream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

extern char** environ;

namespace lockstep::preempt {
namespace {

// How Azure marks its machines: other Hyper-V hosts have the vendor, not the tag.
constexpr const char* kAzureTag = "7783-7084-3265-9085-8269-3286-77";

}  // namespace

std::string Host::Variable(const std::string& name) const {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

Host ThisHost() {
  Host host;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const absl::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals == absl::string_view::npos) continue;
    host.environment.emplace(std::string(text.substr(0, equals)),
                             std::string(text.substr(equals + 1)));
  }
  return host;
}

std::string ReadSmallFile(const std::string& path, size_t bytes_max) {
  std::ifstream file(path, std::ios::binary);
  std::string text(bytes_max + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > bytes_max) return {};
  return std::string(absl::StripAsciiWhitespace(text));
}

std::vector<Detected> DetectSources(const Host& host) {
  const auto dmi = [&host](const char* name) {
    return ReadSmallFile(absl::StrCat(host.root, "/sys/class/dmi/id/", name));
  };
  std::vector<Detected> found;
  const std::string vendor = dmi("sys_vendor");
  const std::string product = dmi("product_name");
  if (vendor == "Google" || product == "Google Compute Engine") {
    found.push_back({"gce", absl::StrCat("the firmware says ", product)});
  } else if (vendor == "Amazon EC2" || absl::StrContains(dmi("bios_version"), "amazon") ||
             absl::StartsWithIgnoreCase(dmi("product_uuid"), "ec2")) {
    found.push_back({"aws", "the firmware says Amazon EC2"});
  } else if (vendor == "Microsoft Corporation" && dmi("chassis_asset_tag") == kAzureTag) {
    found.push_back({"azure", "the firmware has Azure's tag"});
  }
  if (!host.Variable("KUBERNETES_SERVICE_HOST").empty()) {
    found.push_back({"kubernetes", "KUBERNETES_SERVICE_HOST is set"});
  }
  if (!host.Variable("SLURM_JOB_END_TIME").empty()) {
    found.push_back({"slurm", "SLURM_JOB_END_TIME is set"});
  }
  return found;
}

}  // namespace lockstep::preempt
