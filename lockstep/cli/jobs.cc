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
#include "lockstep/platform/config/renamed_options.h"
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
      "job ", observe::CleanText(request->job), reply->created ? " created" : " already exists",
      reply->grpc.empty() ? "" : "; stock clients: ", observe::CleanText(reply->grpc), "\n");
  return kExitOk;
}

int Delete(ServerCommand& self, const std::string& job, bool force) {
  const auto client = self.Connect();
  if (!client.ok()) return self.Fail(client.status());
  const auto reply = (*client)->Call(DeleteJob{.job = job, .force = force}, self.timeout());
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
  CLI::App* const jobs = app.add_subcommand("jobs", "List the jobs of the server");
  AddServerCommand(*jobs, invocation, "jobs", [](ServerCommand& self) -> int {
    const auto reply = self.Status("");
    if (!reply.ok()) return self.Fail(reply.status());
    self.out() << (self.json() ? observe::JobsJson(*reply) : observe::JobsTable(*reply));
    return kExitOk;
  });

  CLI::App* const job = app.add_subcommand("job", "Create or delete a job");
  job->require_subcommand(1);
  CLI::App* const create =
      job->add_subcommand("create", "Create a job, such as lockstep job create digits=4");
  auto shape = std::make_shared<std::string>();
  auto recoverable = std::make_shared<bool>(false);
  create->add_option("job", *shape, "Name and number of members, in all or per role")
      ->type_name("NAME=SIZE|NAME=ROLE:SIZE,...")
      ->required();
  create->add_flag("--recoverable", *recoverable,
                   "Let members die and rejoin without failing the job");
  AddServerCommand(*create, invocation, "job create", [shape, recoverable](ServerCommand& self) {
    return Create(self, *shape, *recoverable);
  });

  CLI::App* const remove = job->add_subcommand("delete", "End a job and delete all its state");
  auto name = std::make_shared<std::string>();
  auto force = std::make_shared<bool>(false);
  remove->add_option("job", *name, "Job")->type_name("JOB")->required();
  remove->add_flag("--force", *force, "Delete the job even if members are connected");
  config::RefuseOldNames("job delete", *remove);
  AddServerCommand(*remove, invocation, "job delete",
                   [name, force](ServerCommand& self) { return Delete(self, *name, *force); });
}

}  // namespace lockstep::cli
