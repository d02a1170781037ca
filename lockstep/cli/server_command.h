// What all subcommands that ask a server have in common: their options, how they end, what they
// say when it goes wrong.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/platform/config/option_table.h"
#include "lockstep/platform/link/client.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::cli {

// How these subcommands end; docs/cli.md.
enum ExitCode {
  kExitOk = 0,
  kExitFailed = 1,       // the server refused, a job is in trouble, or the output is not all
  kExitUsage = 2,        // the command line is wrong
  kExitNotFound = 3,     // no such job, no such key
  kExitTimeout = 4,      // the server did not answer, or what was waited for did not come
  kExitUnavailable = 5,  // no server there
  kExitNotSaved = 6,     // the preemption that was waited for ended without a checkpoint of all
};

ExitCode ExitCodeOf(const absl::Status& status);

// One run of `lockstep`, as its subcommands see it.
struct Invocation {
  std::ostream& out;
  std::ostream& err;
  config::OptionTable::Variables variables = config::Environment();
  int exit_code = kExitOk;  // left by the subcommand that ran
};

// The options of all these subcommands; section `client` of a file.
struct ClientOptions {
  ClientOptions();
  ClientOptions(const ClientOptions&) = delete;
  ClientOptions& operator=(const ClientOptions&) = delete;

  std::string coordinator = "127.0.0.1:7070";
  std::string output = "table";
  absl::Duration timeout = absl::Seconds(5);
  config::OptionTable table;
};

// One subcommand while it runs.
class ServerCommand {
 public:
  // `name` as people type it, for what is said: "kv get".
  ServerCommand(Invocation& invocation, std::string name)
      : invocation_(invocation), name_(std::move(name)) {}

  // The options, for `AddServerCommand`; then what `body` returns, once they are resolved.
  ClientOptions& options() { return options_; }
  int Run(const std::function<int(ServerCommand&)>& body);

  std::ostream& out() { return invocation_.out; }
  std::ostream& err() { return invocation_.err; }
  bool json() const { return options_.output == "json"; }
  absl::Duration timeout() const { return options_.timeout; }
  const std::string& coordinator() const { return options_.coordinator; }
  // Whether flag, variable or file said it.
  bool coordinator_given() const;
  // The job that the server's join string names; empty: none.
  const std::string& joined_job() const { return joined_job_; }
  // Asks that server from now on.
  void Use(const std::string& coordinator) { options_.coordinator = coordinator; }

  // To `coordinator`, within `timeout`; errors as link::Client::Connect.
  absl::StatusOr<std::unique_ptr<link::Client>> Connect();

  // The status of this job; of all when it is empty.
  absl::StatusOr<wire::native::StatusReply> Status(const std::string& job);

  // Says what went wrong and returns the exit code.
  int Fail(const absl::Status& status);
  // A line on standard error, which begins with the command's name.
  void Say(const std::string& text);

 private:
  Invocation& invocation_;
  const std::string name_;
  ClientOptions options_;
  std::string joined_job_;
};

// What the error says, and what to do when no server was there.
std::string TextOfServerError(const absl::Status& status);

// The subcommands that the command line names, with the program: "lockstep kv get".
std::string CommandPath(const CLI::App& app);

// Says what is wrong with the command line, or prints the help that it asks for; the exit code.
int ExitOfParsing(const CLI::App& app, const CLI::ParseError& error, std::ostream& out,
                  std::ostream& err);

// Adds the common options to `command` and has `body` run when the command line names it; what it
// returns is the exit code. `invocation` outlives the parsing.
void AddServerCommand(CLI::App& command, Invocation& invocation, const std::string& name,
                      std::function<int(ServerCommand&)> body);

// A command that prints what the status of one job says: `lockstep NAME JOB`.
using JobPrinter = std::string (*)(const wire::native::JobStatus&);
void AddJobCommand(CLI::App& app, Invocation& invocation, const std::string& name,
                   const std::string& help, JobPrinter table, JobPrinter json,
                   int (*exit_code)(const wire::native::JobStatus&) = nullptr);

}  // namespace lockstep::cli
