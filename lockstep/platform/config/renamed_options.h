// Names of flags and commands that people's scripts may still use. An old name is an error that
// says the new one: as a flag, as an environment variable and as a key of a file.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace lockstep::config {

struct RenamedOption {
  std::string section;  // of a file; for a flag that has no variable, its command: "job delete"
  std::string before;   // without the leading dashes
  std::string now;
};

// Every option that had another name.
const std::vector<RenamedOption>& RenamedOptions();

// The new name of a command that had another one, such as "tell-processes"; else empty.
std::string NewNameOfCommand(const std::string& before);

// Makes `app` refuse the old flags of this section or command: parsing throws CLI::ValidationError
// with "--before is now --now".
void RefuseOldNames(const std::string& section, CLI::App& app);

}  // namespace lockstep::config
