// The command line of `lockstep-agent`.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "lockstep/agent/agent.h"
#include "lockstep/platform/config/end_now.h"
#include "lockstep/platform/config/option_table.h"

namespace lockstep::agent {

// What the command line says, as texts; docs/cli.md has the table of it.
struct DeclaredAgent {
  DeclaredAgent();

  std::string coordinator = "127.0.0.1:7070";
  std::string job;
  std::string listen = "127.0.0.1:0";
  std::string torch_listen = "127.0.0.1:0";
  std::string peer_listen = "[::]:0";
  std::vector<std::string> allow_uids;
  std::string ready_file;
  std::string on_partition = "stop";
  std::string node = "0";
  AgentOptions options;
  config::OptionTable table;
};

struct ParsedCommand {
  AgentOptions options;
  std::string ready_file;
};

using config::EndNow;

// Also looks into `variables` and, when one is named, into a file of options.
std::variant<ParsedCommand, EndNow> ParseCommandLine(
    int argc, const char* const* argv, const config::OptionTable::Variables& variables);

}  // namespace lockstep::agent
