#include "lockstep/cli/server_command.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/observe/text_parts.h"
#include "lockstep/platform/config/renamed_options.h"
#include "lockstep/platform/link/refusals.h"
#include "lockstep/platform/runtime/server_list.h"

namespace lockstep::cli {

ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kNotFound:
      return kExitNotFound;
    case absl::StatusCode::kDeadlineExceeded:
      return kExitTimeout;
    case absl::StatusCode::kUnavailable:
      return kExitUnavailable;
    default:
      return kExitFailed;
  }
}

ClientOptions::ClientOptions() : table("client", "LOCKSTEP_") {
  table
      .Text("coordinator", &coordinator, "ADDRESS",
            "The server: HOST:PORT, or its join string (lockstep://HOST:PORT/JOB#sha256=...), "
            "which makes the client connect over TLS. Several, with commas between them or in a "
            "file (file:///PATH): the one that leads.")
      .Common();
  table.Choice("output", &output, {"table", "json"}, "Print a table, or JSON for programs.")
      .Common()
      .flags = "-o,--output";
  table.Duration("timeout", &timeout, "Maximum time to wait for the server's answer.").Common();
}

int ServerCommand::Run(const std::function<int(ServerCommand&)>& body) {
  if (absl::Status status = options_.table.Resolve(invocation_.variables); !status.ok()) {
    Say(std::string(status.message()));
    return kExitUsage;
  }
  const auto servers = runtime::ReadServerList(options_.coordinator);
  if (!servers.ok()) {
    Say(absl::StrCat("--coordinator: ", std::string(servers.status().message())));
    return kExitUsage;
  }
  joined_job_ = servers->job;
  return body(*this);
}

bool ServerCommand::coordinator_given() const {
  return std::any_of(options_.table.options().begin(), options_.table.options().end(),
                     [](const config::Option& option) {
                       return option.name == "coordinator" &&
                              option.origin != config::Origin::kDefault;
                     });
}

absl::StatusOr<std::unique_ptr<link::Client>> ServerCommand::Connect() {
  return link::Client::Connect(options_.coordinator, options_.timeout,
                               {.who = absl::StrCat("lockstep ", name_)});
}

absl::StatusOr<wire::native::StatusReply> ServerCommand::Status(const std::string& job) {
  const auto client = Connect();
  if (!client.ok()) return client.status();
  wire::native::StatusRequest request;
  if (!job.empty()) request.job = job;
  return (*client)->Call(request, options_.timeout);
}

std::string TextOfServerError(const absl::Status& status) {
  std::string text = observe::CleanText(std::string(status.message()), 4096);
  if (absl::IsUnavailable(status) && !link::LeadsNot(status)) {
    absl::StrAppend(&text,
                    "; is `lockstep serve` running there? Set the address with "
                    "--coordinator HOST:PORT or LOCKSTEP_COORDINATOR");
  }
  return text;
}

int ServerCommand::Fail(const absl::Status& status) {
  Say(TextOfServerError(status));
  return ExitCodeOf(status);
}

void ServerCommand::Say(const std::string& text) {
  invocation_.err << "lockstep " << name_ << ": " << text << "\n";
}

namespace {

const CLI::App& DeepestOf(const CLI::App& app) {
  const CLI::App* deepest = &app;
  while (!deepest->get_subcommands().empty()) deepest = deepest->get_subcommands().front();
  return *deepest;
}

}  // namespace

std::string CommandPath(const CLI::App& app) {
  std::string path = app.get_name();
  for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
    at = at->get_subcommands().front();
    absl::StrAppend(&path, " ", at->get_name());
  }
  return path;
}

int ExitOfParsing(const CLI::App& app, const CLI::ParseError& error, std::ostream& out,
                  std::ostream& err) {
  const bool help = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);
  if (help) {
    app.exit(error, out, err);
    return kExitOk;
  }
  const std::string path = CommandPath(app);
  const CLI::App& deepest = DeepestOf(app);
  // CLI11 says only that a subcommand is required, also when there is one that it does not know.
  const std::vector<std::string> unknown = deepest.remaining();
  if (deepest.get_require_subcommand_min() > 0 && !unknown.empty()) {
    const std::string now = config::NewNameOfCommand(unknown.front());
    if (!now.empty()) {
      err << path << ": " << unknown.front() << " is now " << now << "\n";
      return kExitUsage;
    }
    err << path << ": unknown command '" << observe::CleanText(unknown.front()) << "'; `" << path
        << " --help` lists the commands\n";
  } else {
    err << path << ": " << error.what() << "; see `" << path << " --help`\n";
  }
  return kExitUsage;
}

void AddServerCommand(CLI::App& command, Invocation& invocation, const std::string& name,
                      std::function<int(ServerCommand&)> body) {
  auto self = std::make_shared<ServerCommand>(invocation, name);
  self->options().table.AddTo(command);
  command.callback(
      [self, body = std::move(body), &invocation] { invocation.exit_code = self->Run(body); });
}

void AddJobCommand(CLI::App& app, Invocation& invocation, const std::string& name,
                   const std::string& help, JobPrinter table, JobPrinter json,
                   int (*exit_code)(const wire::native::JobStatus&)) {
  CLI::App* const command = app.add_subcommand(name, help);
  auto job = std::make_shared<std::string>();
  command->add_option("job", *job, "Job")->type_name("JOB")->required();
  AddServerCommand(
      *command, invocation, name, [job, table, json, exit_code](ServerCommand& self) -> int {
        const auto reply = self.Status(*job);
        if (!reply.ok()) return self.Fail(reply.status());
        if (reply->jobs.size() != 1) {
          return self.Fail(absl::InternalError("the server answered about another job"));
        }
        self.out() << (self.json() ? json : table)(reply->jobs.front());
        return exit_code == nullptr ? kExitOk : exit_code(reply->jobs.front());
      });
}

}  // namespace lockstep::cli
