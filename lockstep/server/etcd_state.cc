#include "lockstep/server/etcd_state.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "asio/ip/address.hpp"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/secret_file.h"
#include "spdlog/spdlog.h"

namespace lockstep::server {
namespace {

// etcd counts leases in whole seconds, and grants none below its election time-out.
constexpr absl::Duration kLeaderTimeoutMin = absl::Seconds(2);

absl::Status Wrong(const std::string& text) { return absl::InvalidArgumentError(text); }

// What others call a server that listens at this address.
std::string Advertised(const runtime::Address& listen) {
  asio::error_code error;
  const auto number = asio::ip::make_address(listen.host, error);
  if (error || !number.is_unspecified()) return runtime::ToString(listen);
  return runtime::ToString(runtime::Address{.host = runtime::HostName(), .port = listen.port});
}

absl::Status ReadFiles(const EtcdSettings& given, etcd::Access& access) {
  const auto read = [](const std::string& path, bool secret, std::string& to) {
    if (path.empty()) return absl::OkStatus();
    auto text = secret ? runtime::ReadSecretFile(path) : runtime::ReadSmallFile(path);
    if (text.ok()) to = *std::move(text);
    return text.status();
  };
  absl::Status status = read(given.authority_file, false, access.authority);
  if (status.ok()) status = read(given.certificate_file, false, access.certificate);
  if (status.ok()) status = read(given.key_file, true, access.key);
  if (status.ok()) status = read(given.password_file, true, access.password);
  absl::StripTrailingAsciiWhitespace(&access.password);
  return status;
}

}  // namespace

absl::StatusOr<etcd::EtcdOptions> ReadEtcd(const std::string& location, const EtcdSettings& given,
                                           const runtime::Address& listen) {
  auto parsed = etcd::ParseLocation(location);
  if (!parsed.ok()) {
    return Wrong(absl::StrCat("--state ", std::string(parsed.status().message())));
  }
  if (given.certificate_file.empty() != given.key_file.empty()) {
    return Wrong("--etcd-cert and --etcd-key: give both, or neither");
  }
  if (given.authority_file.empty() && !given.certificate_file.empty()) {
    return Wrong("--etcd-cert needs --etcd-ca: without it etcd is called without TLS");
  }
  if (parsed->user.empty() != given.password_file.empty()) {
    return Wrong(
        "a user of etcd needs a password: give etcd://USER@... and --etcd-password-file, or "
        "neither");
  }
  if (given.leader_timeout < kLeaderTimeoutMin ||
      given.leader_timeout != absl::Trunc(given.leader_timeout, absl::Seconds(1))) {
    return Wrong(absl::StrCat("--leader-timeout: etcd takes whole seconds, at least ",
                              absl::FormatDuration(kLeaderTimeoutMin)));
  }
  etcd::EtcdOptions options{.location = *std::move(parsed),
                            .identity = given.advertise,
                            .ttl = given.leader_timeout,
                            .make_state = given.new_state,
                            .any_version = given.any_version,
                            .compacts = !given.no_compaction,
                            .say = [](bool warns, const std::string& text) {
                              warns ? spdlog::warn("{}", text) : spdlog::info("{}", text);
                            }};
  if (options.identity.empty() && listen.port == 0) {
    return Wrong(
        "--listen with port 0 needs --advertise where servers share a state: others have "
        "to know the address");
  }
  if (options.identity.empty()) {
    options.identity = Advertised(listen);
  } else if (const auto address = runtime::ParseAddress(options.identity); !address.ok()) {
    return Wrong(absl::StrCat("--advertise: ", std::string(address.status().message())));
  }
  if (absl::Status status = ReadFiles(given, options.access); !status.ok()) return status;
  return options;
}

}  // namespace lockstep::server
