#include "lockstep/server/command_line.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "lockstep/base/limits.h"
#include "lockstep/config/show.h"
#include "lockstep/server/option_declarations.h"

namespace lockstep::server {
namespace {

constexpr int kWrongOptions = 2;
constexpr size_t kJobNameBytesMax = 128;

// Stock clients send a heartbeat every half of their own time-out, which is 100 s unless their
// program says otherwise, and is not on the wire.
constexpr absl::Duration kStockHeartbeatTimeout = absl::Seconds(100);

bool IsJobNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

absl::Status ReadJobs(const DeclaredOptions& texts, ServerOptions& options) {
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

// "4", or "worker:4,ps:1". What is wrong; empty when nothing is.
std::string ReadShape(const std::string& shape, JobOptions& job) {
  const auto read = [](const std::string& text, int32_t& size) {
    return absl::SimpleAtoi(text, &size) && size >= 1 && size <= kMembersMax;
  };
  const std::string bounds = absl::StrFormat("a size is a number from 1 to %d", kMembersMax);
  if (shape.find(':') == std::string::npos) return read(shape, job.size) ? "" : bounds;
  int64_t all = 0;
  for (const absl::string_view part : absl::StrSplit(shape, ',')) {
    const std::string role(part);
    const size_t colon = role.rfind(':');
    int32_t size = 0;
    if (colon == std::string::npos || !read(role.substr(colon + 1), size)) return bounds;
    const std::string name = role.substr(0, colon);
    if (name.empty() || name.size() > kJobNameBytesMax ||
        !std::all_of(name.begin(), name.end(), IsJobNameCharacter)) {
      return "a role is named as a job is";
    }
    for (const coord::RoleOptions& other : job.roles) {
      if (other.name == name) return absl::StrCat("role '", name, "' is named twice");
    }
    job.roles.push_back({.name = name, .size = size});
    all += size;
  }
  if (all > kMembersMax) return bounds;
  job.size = static_cast<int32_t>(all);
  return "";
}

// What the texts say, checked.
absl::Status Read(const DeclaredOptions& declared, ParsedOptions& parsed) {
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
  if (!status.ok()) return status;
  if (!declared.http.empty()) {
    status = read_address("--http", declared.http, options.http.emplace());
    if (!status.ok()) return status;
  }
  options.log_format = declared.log_format == "json" ? LogFormat::kJson : LogFormat::kText;
  const absl::Duration heartbeat_timeout = options.coordinator.heartbeat_timeout;
  if (heartbeat_timeout < kStockHeartbeatTimeout) {
    parsed.warnings.push_back(absl::StrFormat(
        "--heartbeat-timeout %s: stock clients send a heartbeat only every 50s and are lost before "
        "that although they are well; use 100s or more unless their program sets a shorter one",
        absl::FormatDuration(heartbeat_timeout)));
  }
  return ReadJobs(declared, options);
}

}  // namespace

absl::StatusOr<JobOptions> ParseJob(const std::string& text) {
  const auto wrong = [&](std::string what) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--job '", text, "': ", what,
        "; write NAME=SIZE or NAME=ROLE:SIZE,..., with @HOST:PORT behind it or not, such as "
        "digits=4"));
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
  const std::string shape = text.substr(equals + 1, at == std::string::npos ? at : at - equals - 1);
  if (std::string problem = ReadShape(shape, job); !problem.empty()) return wrong(problem);
  if (at != std::string::npos) {
    absl::StatusOr<runtime::Address> address = runtime::ParseAddress(text.substr(at + 1));
    if (!address.ok()) return wrong(std::string(address.status().message()));
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
  CLI::App app("The Lockstep server: keeps the members of training jobs in lockstep.",
               "lockstep-server");
  app.set_version_flag("--version", "lockstep-server " LOCKSTEP_VERSION);
  declared.table.AddTo(app);
  app.add_option("--show-config", show,
                 "Print what each option is and where that came from, and end.")
      ->check(CLI::IsMember({"table", "json"}))
      ->expected(0, 1)
      ->default_str("table")
      ->type_name("table|json");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    std::ostringstream err;
    const int code = app.exit(error, out, err);
    return EndNow{.exit_code = code == 0 ? 0 : kWrongOptions,
                  .text = code == 0 ? out.str() : "lockstep-server: " + err.str()};
  }
  ParsedOptions parsed;
  absl::Status status = declared.table.Resolve(variables);
  if (status.ok()) status = Read(declared, parsed);
  if (!status.ok()) {
    return EndNow{.exit_code = kWrongOptions,
                  .text = absl::StrCat("lockstep-server: ", std::string(status.message()), "\n")};
  }
  if (!show.empty()) {
    return EndNow{.text = show == "json" ? config::ShowJson(declared.table)
                                         : config::ShowText(declared.table)};
  }
  return parsed;
}

}  // namespace lockstep::server
