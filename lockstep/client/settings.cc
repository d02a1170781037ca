#include "lockstep/client/settings.h"

#include <unistd.h>

#include <cstdlib>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/limits.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::client {
namespace {

absl::Status Wrong(std::string text) {
  return wire::native::WithReason(absl::InvalidArgumentError(std::move(text)), "invalid_argument");
}

// Address and job, which members and tools need alike.
absl::Status FillPlace(std::string& address, std::string& job, const Environment& environment) {
  if (address.empty()) address = environment("LOCKSTEP_COORDINATOR").value_or("127.0.0.1:7070");
  const auto servers = ServersAt(address);
  if (!servers.ok()) return servers.status();
  if (job.empty()) job = (*servers)->job();
  if (job.empty()) job = environment("LOCKSTEP_JOB").value_or("");
  if (job.empty()) return Wrong("no job is named: give `job`, or set LOCKSTEP_JOB");
  return absl::OkStatus();
}

// The variable as a number in its range; nothing when it is not set.
absl::StatusOr<std::optional<int64_t>> Number(const char* name, int64_t least, int64_t most,
                                              const Environment& environment) {
  const auto text = environment(name);
  if (!text.has_value()) return std::nullopt;
  int64_t number = 0;
  if (!absl::SimpleAtoi(*text, &number) || number < least || number > most) {
    return Wrong(
        absl::StrCat(name, "=", *text, " is not a whole number from ", least, " to ", most));
  }
  return number;
}

}  // namespace

std::optional<std::string> ProcessEnvironment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

absl::StatusOr<std::shared_ptr<link::Servers>> ServersAt(const std::string& address) {
  auto servers = link::Servers::Read(address);
  if (servers.ok()) return servers;
  return Wrong(absl::StrCat("the address of the server (`address`, LOCKSTEP_COORDINATOR): ",
                            servers.status().message()));
}

absl::StatusOr<JoinOptions> Resolve(JoinOptions options, const Environment& environment) {
  if (absl::Status place = FillPlace(options.address, options.job, environment); !place.ok()) {
    return place;
  }
  if (options.role.empty()) options.role = environment("LOCKSTEP_ROLE").value_or("");
  if (!options.index.has_value()) {
    const auto index = Number("LOCKSTEP_INDEX", 0, kMembersMax - 1, environment);
    if (!index.ok()) return index.status();
    if (index->has_value()) options.index = static_cast<int32_t>(**index);
  }
  if (options.size == 0) {
    const auto size = Number("LOCKSTEP_SIZE", 1, kMembersMax, environment);
    if (!size.ok()) return size.status();
    options.size = static_cast<int32_t>(size->value_or(0));
  }
  if (options.attempt == 0) {
    const auto attempt =
        Number("LOCKSTEP_ATTEMPT", 1, std::numeric_limits<int64_t>::max(), environment);
    if (!attempt.ok()) return attempt.status();
    options.attempt = attempt->value_or(0);
  }
  if (options.index.has_value() && *options.index < 0) {
    return Wrong(absl::StrCat("index ", *options.index, " is below zero"));
  }
  if (options.size < 0 || options.size > kMembersMax) {
    return Wrong(absl::StrCat("a job of ", options.size, " members: at least 1, at most ",
                              kMembersMax, " (members_max)"));
  }
  if (options.attempt < 0) {
    return Wrong(absl::StrCat("attempt ", options.attempt, ": attempts count from 1"));
  }
  if (options.host.empty()) options.host = runtime::HostName();
  return options;
}

absl::StatusOr<SessionOptions> Resolve(SessionOptions options, const Environment& environment) {
  if (absl::Status place = FillPlace(options.address, options.job, environment); !place.ok()) {
    return place;
  }
  return options;
}

}  // namespace lockstep::client
