#include "lockstep/server/command_line.h"

#include <algorithm>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "lockstep/base/limits.h"
#include "lockstep/platform/config/show.h"
#include "lockstep/server/job_name.h"
#include "lockstep/server/option_declarations.h"

namespace lockstep::server {
namespace {

// Stock clients send a heartbeat every half of their own time-out, which is 100 s unless their
// program says otherwise, and is not on the wire.
constexpr absl::Duration kStockHeartbeatTimeout = absl::Seconds(100);

constexpr absl::Duration kHostTimeoutMin = absl::Seconds(1);

std::string Text(const absl::Status& status) { return std::string(status.message()); }

bool ReadSize(absl::string_view text, int32_t& size) {
  return absl::SimpleAtoi(text, &size) && size >= 1 && size <= kMembersMax;
}

// "4", or "worker:2,ps:1": the members of the first role come first.
absl::Status ReadShape(const std::string& text, JobOptions& job) {
  const std::string size_is = absl::StrFormat("a size is a number from 1 to %d", kMembersMax);
  if (text.find(':') == std::string::npos) {
    return ReadSize(text, job.size) ? absl::OkStatus() : absl::InvalidArgumentError(size_is);
  }
  int64_t sum = 0;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<std::string, std::string> role = absl::StrSplit(part, absl::MaxSplits(':', 1));
    coord::RoleOptions options{.name = role.first};
    if (!CheckJobName(options.name).ok()) {
      return absl::InvalidArgumentError(
          "a role needs a name, with the same characters as a job's name");
    }
    if (!ReadSize(role.second, options.size)) return absl::InvalidArgumentError(size_is);
    const bool again = std::any_of(job.roles.begin(), job.roles.end(),
                                   [&](const auto& other) { return other.name == options.name; });
    if (again) {
      return absl::InvalidArgumentError(absl::StrCat("role '", options.name, "' is given twice"));
    }
    sum += options.size;
    job.roles.push_back(std::move(options));
  }
  if (sum > kMembersMax) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the roles add up to %d members, more than %d", sum, kMembersMax));
  }
  job.size = static_cast<int32_t>(sum);
  return absl::OkStatus();
}

absl::Status ReadJobs(const DeclaredOptions& texts, ServerOptions& options) {
  if (texts.jobs.size() > options.jobs_max) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--job: %d jobs are too many for one server (jobs_max %d)",
                        texts.jobs.size(), options.jobs_max));
  }
  const auto named = [&](const std::string& name) {
    return std::find_if(options.jobs.begin(), options.jobs.end(),
                        [&](const JobOptions& job) { return job.name == name; });
  };
  for (const std::string& text : texts.jobs) {
    absl::StatusOr<JobOptions> job = ParseJob(text);
    if (!job.ok()) return job.status();
    if (named(job->name) != options.jobs.end()) {
      return absl::InvalidArgumentError(absl::StrCat("--job: '", job->name, "' is named twice"));
    }
    options.jobs.push_back(*std::move(job));
  }
  for (const std::string& name : texts.recoverable) {
    auto job = named(name);
    if (job == options.jobs.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--recoverable: no job is called '", name, "'"));
    }
    job->recoverable = true;
  }
  return absl::OkStatus();
}

// Empty: the environment names no place for state.
std::string UsualDirectory(const config::OptionTable::Variables& variables) {
  const char* const state = variables("XDG_STATE_HOME");
  const char* const home = variables("HOME");
  if (state != nullptr && state[0] == '/') return absl::StrCat(state, "/lockstep");
  if (home != nullptr && home[0] == '/') return absl::StrCat(home, "/.local/state/lockstep");
  return "";
}

// Where the state is, unless --ephemeral says that it is nowhere.
absl::Status ReadState(const DeclaredOptions& declared,
                       const config::OptionTable::Variables& variables, ServerOptions& options) {
  std::string& directory = options.state_directory;
  if (declared.ephemeral) {
    if (directory.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--state ", directory, " and --ephemeral: give only one of them"));
  }
  if (etcd::IsLocation(directory)) {
    auto etcd = ReadEtcd(directory, declared.etcd, options.listen);
    if (!etcd.ok()) return etcd.status();
    options.etcd = *std::move(etcd);
    directory.clear();
    options.certificate_directory = UsualDirectory(variables);
    return absl::OkStatus();
  }
  if (!directory.empty()) return absl::OkStatus();
  directory = UsualDirectory(variables);
  if (!directory.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "no directory for the state: HOME is not set; use --state DIR, or --ephemeral to keep the "
      "state in memory only");
}

// What `lockstep auth init` has made, where nothing else is said.
void ReadAuth(const std::string& directory, ServerOptions& options) {
  if (directory.empty()) return;
  if (options.token_keys.empty()) options.token_keys = absl::StrCat(directory, "/token.key");
  CertificateFiles& files = options.certificate;
  if (!files.certificates.empty()) return;
  files.certificates = absl::StrCat(directory, "/server.pem");
  if (files.key.empty()) files.key = absl::StrCat(directory, "/server.key");
}

// Where pods find the API server of their cluster, unless something else is said.
absl::Status ReadKubernetes(const std::vector<std::string>& accounts,
                            const config::OptionTable::Variables& variables,
                            KubernetesOptions& options) {
  auto parsed = ParseKubernetesAccounts(accounts);
  if (!parsed.ok()) return parsed.status();
  options.accounts = *std::move(parsed);
  if (options.accounts.empty()) return absl::OkStatus();
  constexpr char kFolder[] = "/var/run/secrets/kubernetes.io/serviceaccount/";
  if (options.ca_file.empty()) options.ca_file = absl::StrCat(kFolder, "ca.crt");
  if (options.token_file.empty()) options.token_file = absl::StrCat(kFolder, "token");
  if (options.audience.empty() ||
      !std::all_of(options.audience.begin(), options.audience.end(), absl::ascii_isgraph)) {
    return absl::InvalidArgumentError(
        "--kubernetes-audience: must be printable ASCII without spaces, and not empty");
  }
  if (options.api.empty()) {
    const char* const host = variables("KUBERNETES_SERVICE_HOST");
    const char* const port = variables("KUBERNETES_SERVICE_PORT");
    if (host == nullptr || port == nullptr) {
      return absl::InvalidArgumentError(
          "--kubernetes-account needs --kubernetes-api URL outside pods, where "
          "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set");
    }
    const bool six = std::string_view(host).find(':') != std::string_view::npos;
    options.api = absl::StrCat("https://", six ? "[" : "", host, six ? "]:" : ":", port);
  }
  const auto url = preempt::ParseBaseUrl(options.api);
  if (!url.ok() || !url->tls) {
    return absl::InvalidArgumentError(
        absl::StrCat("--kubernetes-api: ", url.ok() ? "the URL must begin with https://"
                                                    : std::string(url.status().message())));
  }
  return absl::OkStatus();
}

// What clients have to prove by certificates, once the files are known.
absl::Status ReadCertificates(const DeclaredOptions& declared, ServerOptions& options) {
  const CertificateFiles& files = options.certificate;
  if (!declared.member_uri.empty()) {
    if (files.client_authorities.empty()) {
      return absl::InvalidArgumentError(
          "--member-uri needs --client-ca FILE: without it the server asks clients for no "
          "certificates");
    }
    auto uri = MemberUri::Parse(declared.member_uri);
    if (!uri.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--member-uri ", std::string(uri.status().message())));
    }
    options.member_uri = *std::move(uri);
  }
  if (declared.stock_tls) {
    if (files.certificates.empty()) {
      return absl::InvalidArgumentError(
          "--stock-tls needs --tls-cert or --auth: stock clients know authorities, not "
          "fingerprints");
    }
    options.listener.tls = {.certificates = files.certificates,
                            .key = files.key.empty() ? files.certificates : files.key,
                            .client_authorities = files.client_authorities};
  }
  return absl::OkStatus();
}

// What the texts say, checked.
absl::Status Read(const DeclaredOptions& declared, const config::OptionTable::Variables& variables,
                  ParsedOptions& parsed) {
  parsed.options = declared.options;
  ServerOptions& options = parsed.options;
  const auto read_address = [](const std::string& name, const std::string& text,
                               runtime::Address& address) -> absl::Status {
    absl::StatusOr<runtime::Address> read = runtime::ParseAddress(text);
    if (!read.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": ", std::string(read.status().message())));
    }
    address = *std::move(read);
    return absl::OkStatus();
  };
  absl::Status status = read_address("--listen", declared.listen, options.listen);
  if (status.ok()) status = ReadState(declared, variables, options);
  if (!status.ok()) return status;
  if (options.stores.store.keeps && declared.ephemeral) {
    return absl::InvalidArgumentError(
        "--torch-store-durable needs a state directory and --ephemeral has none; give only one of "
        "them");
  }
  if (!declared.http.empty()) {
    status = read_address("--http", declared.http, options.http.emplace());
    if (!status.ok()) return status;
  }
  options.log_format = declared.log_format == "json" ? LogFormat::kJson : LogFormat::kText;
  ReadAuth(declared.auth, options);
  status = ReadKubernetes(declared.kubernetes_accounts, variables, options.kubernetes);
  if (!status.ok()) return status;
  if (TakesTokens(options) && options.insecure_network) {
    return absl::InvalidArgumentError(
        "--insecure-network lets everybody do everything, whatever --auth, --token-keys or "
        "--kubernetes-account say; give only one of them");
  }
  status = ReadCertificates(declared, options);
  if (!status.ok()) return status;
  options.listener.callers_are_tasks = TakesTokens(options);
  auto allowed = runtime::ParseAllowedPeers(declared.allow_uids);
  if (!allowed.ok()) return allowed.status();
  options.allowed = *std::move(allowed);
  options.listener.connections.allowed = options.allowed;
  // One limit of connections for all kinds of foreign clients.
  options.stores.listener.connections = options.listener.connections;
  if (options.hosts.timeout < kHostTimeoutMin) {
    return absl::InvalidArgumentError(absl::StrCat("--host-timeout must be at least ",
                                                   absl::FormatDuration(kHostTimeoutMin),
                                                   ": hosts that are only slow would be given up"));
  }
  const absl::Duration heartbeat_timeout = options.coordinator.heartbeat_timeout;
  if (heartbeat_timeout < kStockHeartbeatTimeout) {
    parsed.warnings.push_back(absl::StrFormat(
        "--heartbeat-timeout %s: stock clients send a heartbeat only every 50s, so a healthy one "
        "that does not poll for errors may be declared lost; JAX's clients poll, and get 2.5 times "
        "the period of their own heartbeats",
        absl::FormatDuration(heartbeat_timeout)));
  }
  return ReadJobs(declared, options);
}

}  // namespace

absl::StatusOr<JobOptions> ParseJob(const std::string& text) {
  const auto wrong = [&](std::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--job '", text, "': ", std::string(what),
        "; write NAME=SIZE or NAME=ROLE:SIZE,ROLE:SIZE, such as digits=4 or digits=worker:2,ps:1, "
        "and append @HOST:PORT to give the job an address of its own"));
  };
  const size_t equals = text.find('=');
  if (equals == std::string::npos) return wrong("has no size");
  JobOptions job;
  job.name = text.substr(0, equals);
  if (job.name.empty()) return wrong("has no name");
  if (absl::Status status = CheckJobName(job.name); !status.ok()) return wrong(Text(status));
  const size_t at = text.find('@', equals);
  const std::string shape = text.substr(equals + 1, at == std::string::npos ? at : at - equals - 1);
  if (absl::Status status = ReadShape(shape, job); !status.ok()) return wrong(Text(status));
  if (at != std::string::npos) {
    absl::StatusOr<runtime::Address> address = runtime::ParseAddress(text.substr(at + 1));
    if (!address.ok()) return wrong(Text(address.status()));
    job.address = *std::move(address);
  }
  return job;
}

std::variant<ParsedOptions, EndNow> ParseCommandLine(int argc, const char* const* argv) {
  return ParseCommandLine(argc, argv, config::Environment());
}

std::variant<ParsedOptions, EndNow> ParseCommandLine(
    int argc, const char* const* argv, const config::OptionTable::Variables& variables) {
  DeclaredOptions declared;
  std::string show;
  CLI::App app("The Lockstep server: coordinates the members of training jobs.", "lockstep-server");
  app.set_version_flag("--version", "lockstep-server " LOCKSTEP_VERSION);
  declared.table.AddTo(app);
  app.add_option("--show-config", show, "Print each option with its value and origin, and exit.")
      ->check(CLI::IsMember({"table", "json"}))
      ->expected(0, 1)
      ->default_str("table")
      ->type_name("table|json");
  if (auto end = config::Parse(app, argc, argv)) return *std::move(end);
  ParsedOptions parsed;
  absl::Status status = declared.table.Resolve(variables);
  if (status.ok()) status = Read(declared, variables, parsed);
  if (!status.ok()) return config::WrongOptions(app, status);
  if (!show.empty()) {
    return EndNow{.text = show == "json" ? config::ShowJson(declared.table)
                                         : config::ShowText(declared.table)};
  }
  return parsed;
}

}  // namespace lockstep::server
