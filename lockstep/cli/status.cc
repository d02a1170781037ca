#include "lockstep/cli/status.h"

#include <algorithm>

#include "lockstep/link/client.h"
#include "lockstep/observe/status_text.h"
#include "lockstep/runtime/address.h"

namespace lockstep::cli {
namespace {

using wire::native::StatusReply;
using wire::native::StatusRequest;

int Unreachable(const absl::Status& status, std::ostream& err) {
  err << "lockstep status: " << std::string(status.message())
      << "; is `lockstep serve` running there? --coordinator HOST:PORT or LOCKSTEP_COORDINATOR says"
         " where to ask\n";
  return kStatusUnreachable;
}

}  // namespace

CLI::App* AddStatusCommand(CLI::App& app, StatusOptions& options) {
  CLI::App* command = app.add_subcommand(
      "status", "Who is in, who is missing, suspect or lost; who waits for whom; what went wrong");
  command->add_option("job", options.job, "Only this job; all if not given")->type_name("JOB");
  command->add_option("--coordinator", options.coordinator, "Where the server listens")
      ->type_name("HOST:PORT")
      ->envname("LOCKSTEP_COORDINATOR")
      ->capture_default_str();
  command->add_option("-o,--output", options.output, "For people or for programs")
      ->check(CLI::IsMember({"table", "json"}))
      ->type_name("table|json")
      ->capture_default_str();
  return command;
}

int Status(const StatusOptions& options, std::ostream& out, std::ostream& err) {
  if (const auto address = runtime::ParseAddress(options.coordinator); !address.ok()) {
    err << "lockstep status: " << std::string(address.status().message()) << "\n";
    return kStatusUsage;
  }
  auto client =
      link::Client::Connect(options.coordinator, options.timeout, {.who = "lockstep status"});
  if (!client.ok()) return Unreachable(client.status(), err);
  StatusRequest request;
  if (!options.job.empty()) request.job = options.job;
  const auto reply = (*client)->Call(request, options.timeout);
  if (!reply.ok()) {
    if (absl::IsUnavailable(reply.status()) || absl::IsDeadlineExceeded(reply.status())) {
      return Unreachable(reply.status(), err);
    }
    err << "lockstep status: " << std::string(reply.status().message()) << "\n";
    return kStatusRefused;
  }
  out << (options.output == "json" ? observe::StatusJson(*reply) : observe::StatusTable(*reply));
  const bool trouble = std::any_of(reply->jobs.begin(), reply->jobs.end(), observe::InTrouble);
  return trouble ? kStatusTrouble : kStatusFine;
}

}  // namespace lockstep::cli
