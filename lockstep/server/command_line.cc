#include "lockstep/server/command_line.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/limits.h"

namespace lockstep::server {
namespace {

constexpr int kWrongOptions = 2;
constexpr size_t kJobNameBytesMax = 128;

// Stock clients send a heartbeat every half of their own time-out, which is 100 s unless their
// program says otherwise, and is not on the wire.
constexpr absl::Duration kStockHeartbeatTimeout = absl::Seconds(100);

// The options as text, before they are checked.
struct Texts {
  std::string listen;
  std::vector<std::string> jobs;
  std::vector<std::string> recoverable;
  std::string register_timeout;
  std::string heartbeat_timeout;
  std::string shutdown_timeout;
  std::string connection_grace;
};

bool IsJobNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

void Declare(CLI::App& app, Texts& texts, ServerOptions& options, bool& ephemeral) {
  app.set_version_flag("--version", "lockstep-server " LOCKSTEP_VERSION);
  app.add_option("--listen", texts.listen,
                 "Where `lockstep status`, `lockstep run` and native clients call. Port 0: any.")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  app.add_option("--job", texts.jobs,
                 "A job and how many members it has. Stock JAX clients call the job at its own\n"
                 "address; without one, the server takes a free port from 20000 to 31999 on the\n"
                 "host of --listen. Repeat for more jobs.")
      ->type_name("NAME=SIZE[@HOST:PORT]")
      ->allow_extra_args(false);
  app.add_option("--register-timeout", texts.register_timeout,
                 "From the first member that registers until the last; then the attempt fails.")
      ->type_name("DURATION")
      ->capture_default_str();
  app.add_option(
         "--heartbeat-timeout", texts.heartbeat_timeout,
         "From the last sign of life until a silent member is lost. Stock clients give one\n"
         "only every 50s: keep it at 100s or more for them. (A member that dies is seen by\n"
         "its connection, at once.)")
      ->type_name("DURATION")
      ->capture_default_str();
  app.add_option("--shutdown-timeout", texts.shutdown_timeout,
                 "From the first member that shuts down until the last; 0: each leaves alone.")
      ->type_name("DURATION")
      ->capture_default_str();
  app.add_option("--connection-grace", texts.connection_grace,
                 "From a member's broken connection until it is lost.")
      ->type_name("DURATION")
      ->capture_default_str();
  app.add_option("--recoverable", texts.recoverable,
                 "Members of this job may die and come back without failing it. Repeatable.")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_flag("--ephemeral", ephemeral,
               "Keep all state in memory only. For now that is the only kind, so the option\n"
               "changes nothing; say it where losing the state with the process is all right.");
  app.add_option("--ready-file", options.ready_file,
                 "Written (whole, by rename) once the server answers; removed when it ends:\n"
                 "{\"listen\": ADDRESS, \"pid\": PID, \"jobs\": {NAME: {\"grpc\": ADDRESS}}}")
      ->type_name("PATH");
  app.add_flag("--insecure-network", options.insecure_network,
               "Allow addresses that other hosts can reach, although nothing is encrypted or\n"
               "authenticated: whoever reaches such a port can read and change the job.");
  app.add_flag("-v,--verbose", options.verbose, "Log more.");
}

absl::Status ReadDurations(const Texts& texts, ServerOptions& options) {
  const struct {
    const char* name;
    const std::string& text;
    absl::Duration& value;
    bool may_be_zero;
  } durations[] = {
      {"--register-timeout", texts.register_timeout, options.register_timeout, false},
      {"--heartbeat-timeout", texts.heartbeat_timeout, options.heartbeat_timeout, false},
      {"--shutdown-timeout", texts.shutdown_timeout, options.shutdown_timeout, true},
      {"--connection-grace", texts.connection_grace, options.connection_grace, true},
  };
  for (const auto& duration : durations) {
    absl::StatusOr<absl::Duration> parsed = ParseDuration(duration.name, duration.text);
    if (!parsed.ok()) return parsed.status();
    if (*parsed == absl::ZeroDuration() && !duration.may_be_zero) {
      return absl::InvalidArgumentError(absl::StrCat(duration.name, ": must be more than zero"));
    }
    duration.value = *parsed;
  }
  return absl::OkStatus();
}

absl::Status ReadJobs(const Texts& texts, ServerOptions& options) {
  if (texts.jobs.empty()) {
    return absl::InvalidArgumentError("name at least one job, such as --job digits=4");
  }
  if (texts.jobs.size() > options.jobs_max) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "--job: %d jobs; one server takes %d (jobs_max)", texts.jobs.size(), options.jobs_max));
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

absl::Status Read(const Texts& texts, ServerOptions& options) {
  absl::StatusOr<runtime::Address> listen = runtime::ParseAddress(texts.listen);
  if (!listen.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen: ", std::string(listen.status().message())));
  }
  options.listen = *std::move(listen);
  if (absl::Status status = ReadDurations(texts, options); !status.ok()) return status;
  return ReadJobs(texts, options);
}

}  // namespace

absl::StatusOr<JobOptions> ParseJob(const std::string& text) {
  const auto wrong = [&](std::string what) {
    return absl::InvalidArgumentError(
        absl::StrCat("--job '", text, "': ", what,
                     "; write NAME=SIZE or NAME=SIZE@HOST:PORT, such as digits=4"));
  };
  const size_t equals = text.find('=');
  if (equals == std::string::npos) return wrong("has no size");
  JobOptions job;
  job.name = text.substr(0, equals);
  if (job.name.empty()) return wrong("has no name");
  if (job.name.size() > kJobNameBytesMax ||
      !std::all_of(job.name.begin(), job.name.end(), IsJobNameCharacter)) {
    return wrong(
        absl::StrFormat("a name has up to %d letters, digits, '.', '_' and '-'", kJobNameBytesMax));
  }
  const size_t at = text.find('@', equals);
  const std::string size = text.substr(equals + 1, at == std::string::npos ? at : at - equals - 1);
  if (!absl::SimpleAtoi(size, &job.size) || job.size < 1 || job.size > kMembersMax) {
    return wrong(absl::StrFormat("a size is a number from 1 to %d", kMembersMax));
  }
  if (at != std::string::npos) {
    absl::StatusOr<runtime::Address> address = runtime::ParseAddress(text.substr(at + 1));
    if (!address.ok()) return wrong(std::string(address.status().message()));
    job.address = *std::move(address);
  }
  return job;
}

absl::StatusOr<absl::Duration> ParseDuration(const std::string& option, const std::string& text) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) || duration < absl::ZeroDuration() ||
      duration == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, " '", text,
                     "': not a duration; write a number and a unit, such as 90s, 5m, 200ms"));
  }
  return duration;
}

std::variant<ParsedOptions, EndNow> ParseCommandLine(int argc, const char* const* argv) {
  ParsedOptions parsed;
  ServerOptions& options = parsed.options;
  bool ephemeral = false;
  Texts texts{.listen = runtime::ToString(options.listen),
              .register_timeout = absl::FormatDuration(options.register_timeout),
              .heartbeat_timeout = absl::FormatDuration(options.heartbeat_timeout),
              .shutdown_timeout = absl::FormatDuration(options.shutdown_timeout),
              .connection_grace = absl::FormatDuration(options.connection_grace)};
  CLI::App app("The Lockstep server: keeps the members of training jobs in lockstep.",
               "lockstep-server");
  Declare(app, texts, options, ephemeral);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    std::ostringstream err;
    const int code = app.exit(error, out, err);
    return EndNow{.exit_code = code == 0 ? 0 : kWrongOptions,
                  .text = code == 0 ? out.str() : "lockstep-server: " + err.str()};
  }
  if (absl::Status status = Read(texts, options); !status.ok()) {
    return EndNow{.exit_code = kWrongOptions,
                  .text = absl::StrCat("lockstep-server: ", std::string(status.message()), "\n")};
  }
  if (options.heartbeat_timeout < kStockHeartbeatTimeout) {
    parsed.warnings.push_back(absl::StrFormat(
        "--heartbeat-timeout %s: stock clients send a heartbeat only every 50s and are lost before "
        "that although they are well; use 100s or more unless their program sets a shorter one",
        absl::FormatDuration(options.heartbeat_timeout)));
  }
  return parsed;
}

}  // namespace lockstep::server
