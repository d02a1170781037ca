#include "lockstep/platform/config/renamed_options.h"

#include "absl/strings/str_cat.h"

namespace lockstep::config {

const std::vector<RenamedOption>& RenamedOptions() {
  static const auto* const all = new std::vector<RenamedOption>{
      {"server", "job-rest", "idle-job-timeout"},
      {"server", "preempt-fence-timeout", "preempt-sync-timeout"},
      {"server", "torch-store-rest", "torch-store-idle-timeout"},
      {"job delete", "running-too", "force"},
  };
  return *all;
}

std::string NewNameOfCommand(const std::string& before) {
  return before == "tell-processes" ? "report-processes" : "";
}

void RefuseOldNames(const std::string& section, CLI::App& app) {
  for (const RenamedOption& renamed : RenamedOptions()) {
    if (renamed.section != section) continue;
    // A switch has no value and others have one: both are taken, to be refused.
    app.add_option("--" + renamed.before,
                   [&renamed](const CLI::results_t&) -> bool {
                     throw CLI::ValidationError(
                         absl::StrCat("--", renamed.before, " is now --", renamed.now));
                   })
        ->expected(0, 1)
        ->group("");
  }
}

}  // namespace lockstep::config
