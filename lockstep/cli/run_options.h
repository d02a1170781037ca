// The options of `lockstep run`, each declared once.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/cli/run_session.h"
#include "lockstep/config/option_table.h"

namespace lockstep::cli {

// What the table's options are bound to. Stays where it is made.
struct DeclaredRun {
  DeclaredRun();
  DeclaredRun(const DeclaredRun&) = delete;
  DeclaredRun& operator=(const DeclaredRun&) = delete;

  RunOptions options;
  std::string on_preempt = "exit";
  std::string term_grace_text;
  // Handed on to the server that is started, if said.
  std::vector<std::pair<std::string, std::string>> server_times;
  config::OptionTable table;
};

}  // namespace lockstep::cli
