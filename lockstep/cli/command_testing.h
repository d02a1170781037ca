// Runs subcommands in this process against a server of the test's. For tests.
#pragma once

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/cli/subcommands.h"
#include "lockstep/platform/link/native_service.h"
#include "lockstep/platform/link/testing.h"

namespace lockstep::cli {

struct Ran {
  int code = 0;
  std::string out;
  std::string err;
};

// `add` adds the subcommands.
template <class Add>
Ran RunAdded(const std::map<std::string, std::string>& variables,
             const std::vector<std::string>& words, const Add& add) {
  std::ostringstream out;
  std::ostringstream err;
  Invocation invocation{.out = out, .err = err, .variables = [&](const char* name) {
                          const auto found = variables.find(name);
                          return found == variables.end() ? nullptr : found->second.c_str();
                        }};
  CLI::App app("", "lockstep");
  app.require_subcommand(1);
  add(app, invocation);
  try {
    // CLI11 takes the words of a vector from its end.
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    const int code = ExitOfParsing(app, error, out, err);
    return {code, out.str(), err.str()};
  }
  return {invocation.exit_code, out.str(), err.str()};
}

inline Ran RunWith(const std::map<std::string, std::string>& variables,
                   const std::vector<std::string>& words) {
  return RunAdded(variables, words, [](CLI::App& app, Invocation& invocation) {
    AddStatus(app, invocation);
    AddWhy(app, invocation);
    AddMembers(app, invocation);
    AddHosts(app, invocation);
    AddBarriers(app, invocation);
    AddKv(app, invocation);
    AddJobs(app, invocation);
    AddEvents(app, invocation);
    AddPreempt(app, invocation);
    AddConfig(app, invocation);
  });
}

inline Ran RunCommand(const std::string& address, const std::vector<std::string>& words) {
  return RunWith({{"LOCKSTEP_COORDINATOR", address}}, words);
}
inline Ran RunCommand(const link::testing::TestServer& server,
                      const std::vector<std::string>& words) {
  return RunCommand(server.address(), words);
}

// A server of the jobs "digits" (fine) and "broken".
inline link::Server::Handler ServeStatus() {
  using namespace wire::native;  // NOLINT: the messages are what this is about
  return link::MakeHandler(
      {.status = [](const StatusRequest& request) -> absl::StatusOr<StatusReply> {
         const JobStatus fine = {
             .job = "digits",
             .size = 1,
             .attempt = 1,
             .state = AttemptState::kRunning,
             .members = {{.name = "task/0#1", .condition = MemberCondition::kConnected}}};
         const JobStatus broken = {
             .job = "broken",
             .members = {{.name = "task/0#1", .condition = MemberCondition::kLost}}};
         if (!request.job) return StatusReply{.jobs = {fine, broken}};
         if (request.job == "digits") return StatusReply{.jobs = {fine}};
         if (request.job == "broken") return StatusReply{.jobs = {broken}};
         return absl::NotFoundError("no job 'x' here; there are broken and digits");
       },
       .report = [](const auto&, const auto&) { return absl::OkStatus(); }});
}

}  // namespace lockstep::cli
