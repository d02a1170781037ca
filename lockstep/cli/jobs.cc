// `lockstep jobs` and `lockstep job create|delete`.
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lockstep/cli/server_command.h"
#include "lockstep/cli/subcommands.h"
#include "lockstep/observe/tables.h"
#include "lockstep/observe/text_parts.h"
#include "lockstep/wire/native/job_messages.h"
#include "lockstep/wire/native/json.h"

namespace lockstep::cli {
namespace {

using wire::native::CreateJob;
using wire::native::DeleteJob;

// "digits=4" or "digits=worker:2,ps:1". The server checks names and sizes.
absl::StatusOr<CreateJob> ParseShape(const std::string& text) {
  const auto wrong = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text,
                     "': write NAME=SIZE or NAME=ROLE:SIZE,..., such as digits=4 or "
                     "digits=worker:4,ps:1"));
  };
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return wrong();
  CreateJob request{.job = text.substr(0, equals)};
  const std::string shape = text.substr(equals + 1);
  if (absl::SimpleAtoi(shape, &request.size)) return request;
  for (const absl::string_view part : absl::StrSplit(shape, ',')) {
    const std::string role(part);
    const size_t colon = role.rfind(':');
    int32_t size = 0;
    if (colon == std::string::npos || !absl::SimpleAtoi(role.substr(colon + 1), &size)) {
      return wrong();
    }
    request.roles.push_back({.name = role.substr(0, colon), .size = size});
    request.size += size;
  }
  return request;
}

int Create(ServerCommand& self, const std::string& shape, bool recoverable) {
  absl::StatusOr<CreateJob> request = ParseShape(shape);
  if (!request.ok()) {
    self.Say(std::string(request.status().message()));
    return kExitUsage;
  }
  request->recoverable = recoverable;
  const auto client = self.Connect();
  if (!client.ok()) return self.Fail(client.status());
  const auto reply = (*client)->Call(*request, self.timeout());
  if (!reply.ok()) return self.Fail(reply.status());
  if (self.json()) {
    wire::native::Json json = wire::native::ToJson(*reply);
    json["job"] = request->job;
    self.out() << json.dump() << "\n";
    return kExitOk;
  }
  self.out() << absl::StrCat(
      "job ", observe::CleanText(request->job), reply->created ? " created" : " was there already",
      reply->grpc.empty() ? "" : "; stock clients: ", observe::CleanText(reply->grpc), "\n");
  return kExitOk;
}

int Delete(ServerCommand& self, const std::string& job, bool running_too) {
  const auto client = self.Connect();
  if (!client.ok()) return self.Fail(client.status());
  const auto reply =
      (*client)->Call(DeleteJob{.job = job, .running_too = running_too}, self.timeout());
  if (!reply.ok()) return self.Fail(reply.status());
  if (self.json()) {
    self.out() << wire::native::Json({{"job", job}, {"deleted", true}}).dump() << "\n";
  } else {
    self.out() << "job " << observe::CleanText(job) << " deleted\n";
  }
  return kExitOk;
}

}  // namespace

void AddJobs(CLI::App& app, Invocation& invocation) {
  CLI::App* const jobs = app.add_subcommand("jobs", "The jobs of a server, one row each");
  AddServerCommand(*jobs, invocation, "jobs", [](ServerCommand& self) -> int {
    const auto reply = self.Status("");
    if (!reply.ok()) return self.Fail(reply.status());
    self.out() << (self.json() ? observe::JobsJson(*reply) : observe::JobsTable(*reply));
    return kExitOk;
  });

  CLI::App* const job = app.add_subcommand("job", "Make or delete a job");
  job->require_subcommand(1);
  CLI::App* const create =
      job->add_subcommand("create", "Make a job: lockstep job create digits=4");
  auto shape = std::make_shared<std::string>();
  auto recoverable = std::make_shared<bool>(false);
  create->add_option("job", *shape, "Its name and size, or sizes of its roles")
      ->type_name("NAME=SIZE|NAME=ROLE:SIZE,...")
      ->required();
  create->add_flag("--recoverable", *recoverable,
                   "Its members may die and come back without failing it");
  AddServerCommand(*create, invocation, "job create", [shape, recoverable](ServerCommand& self) {
    return Create(self, *shape, *recoverable);
  });

  CLI::App* const remove = job->add_subcommand("delete", "End a job and forget it");
  auto name = std::make_shared<std::string>();
  auto running_too = std::make_shared<bool>(false);
  remove->add_option("job", *name, "Which job")->type_name("JOB")->required();
  remove->add_flag("--running-too", *running_too, "Although members of it are connected");
  AddServerCommand(*remove, invocation, "job delete", [name, running_too](ServerCommand& self) {
    return Delete(self, *name, *running_too);
  });
}

}  // namespace lockstep::cli
