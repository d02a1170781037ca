// `lockstep data`: what the data service of a server does.
#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "lockstep/cli/server_command.h"
#include "lockstep/cli/subcommands.h"
#include "lockstep/observe/data_text.h"

namespace lockstep::cli {
namespace {

using namespace wire::native;  // NOLINT: the messages are what this file is about

}  // namespace

void AddData(CLI::App& app, Invocation& invocation) {
  CLI::App* const command = app.add_subcommand(
      "data",
      "Show the data service: iterations, consumers and what they wait for, workers, datasets");
  auto name = std::make_shared<std::string>();
  command->add_option("iteration", *name, "Show only this iteration, with its consumers and tasks")
      ->type_name("ITERATION");
  AddServerCommand(*command, invocation, "data", [name](ServerCommand& self) {
    auto client = self.Connect();
    if (!client.ok()) return self.Fail(client.status());
    const auto status = (*client)->Call(DataStatus{}, self.timeout());
    if (!status.ok()) return self.Fail(status.status());
    const bool known =
        name->empty() ||
        std::any_of(status->iterations.begin(), status->iterations.end(),
                    [&](const IterationStatus& one) { return one.spec.name == *name; });
    if (!known) {
      self.Say(absl::StrCat("no such iteration: '", *name, "'"));
      return static_cast<int>(kExitNotFound);
    }
    self.out() << (self.json() ? observe::DataJson(*status, *name)
                               : observe::DataTable(*status, *name));
    const bool failed =
        std::any_of(status->iterations.begin(), status->iterations.end(), [&](const auto& one) {
          return one.phase == IterationPhase::kFailed && (name->empty() || one.spec.name == *name);
        });
    return static_cast<int>(failed ? kExitFailed : kExitOk);
  });
}

}  // namespace lockstep::cli
