// The options of `lockstep run`, each declared once.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/launch/nodes.h"
#include "lockstep/launch/output_routing.h"
#include "lockstep/launch/supervisor.h"
#include "lockstep/platform/config/option_table.h"

namespace lockstep::cli {

struct RunOptions {
  launch::NodesWanted nodes;
  std::string hosts_file;
  absl::Duration join_timeout = absl::Minutes(10);
  absl::Duration last_call = absl::Seconds(30);
  std::string coordinator;  // empty: a server is started for this run
  std::string job;          // empty: "job", or the only one that the server has
  std::string role = "task";
  std::string run_name;  // empty: the job's name
  absl::Duration grace = absl::Seconds(10);
  absl::Duration stop_grace = absl::Seconds(5);
  absl::Duration term_grace = absl::InfiniteDuration();
  int32_t preempt_exit_code = launch::kExitPreempted;
  absl::Duration restart_backoff = absl::Seconds(1);
  absl::Duration restart_backoff_max = absl::Minutes(1);
  std::string result_file;
  std::string bundle_folder;
  int32_t max_restarts = 0;
  launch::RestartScope scope = launch::RestartScope::kWorld;
  std::vector<std::string> notices = {"auto"};  // sources of preemption notices; "none": none
  launch::OnPreempt on_preempt = launch::OnPreempt::kExit;
  std::string log_folder;  // empty: none
  launch::OutputRouting routing;
  bool prefix = true;
  std::vector<int> signals;  // that are passed on; empty: those of the documentation
  launch::Environment extra;
  bool encrypt_data = false;  // of members, what goes over the network between them
  bool show_server_log = false;
  bool agent = false;
  std::string on_partition = "stop";  // as the agent has it
  bool no_stacks = false;
  std::vector<std::string> server_arguments;  // for the server that is started
  bool is_module = false;                     // the command is a Python module
  bool is_program = false;                    // and no Python script, whatever it is called
  std::vector<std::string> command;
  bool print_environment = false;
  bool dry_run = false;
  // Nothing is started, and nothing changed at the server: it is told what would be done.
  bool only_shows() const { return print_environment || dry_run; }
  // Flags that were given and do nothing, those of torchrun above all; each with why.
  std::vector<std::string> without_effect;
};

// Options whose text a parser of their own checks. Keeps each text as it was written, for `lockstep
// config show`.
class ParsedTexts {
 public:
  using Parse = std::function<absl::Status(const std::string& text)>;

  // Declares an option of the table; this must live as long as the table is used. `parse` checks a
  // text and stores what it says; what it refuses is not kept.
  config::Option& Declare(config::OptionTable& table, std::string name, std::string type,
                          std::string help, Parse parse);

 private:
  std::deque<std::string> texts_;  // addresses stay
};

// Times of the server that is started for the run, handed on to it if they are given.
class ServerTimes {
 public:
  // This must live as long as the table is used.
  void Declare(config::OptionTable& table);
  // For the server's command line.
  std::vector<std::string> Arguments() const;

 private:
  std::vector<std::pair<std::string, std::string>> times_;  // by flag; empty: not given
};

// Options of torchrun that are taken and do nothing, so that its command lines work unchanged.
class IgnoredOfTorchrun {
 public:
  // This must live as long as the table is used.
  void Declare(config::OptionTable& table);
  // A sentence for each that takes a value and was given as a flag.
  std::vector<std::string> Given(const config::OptionTable& table) const;

 private:
  struct Ignored {
    std::string why;
    std::string value;
  };
  std::vector<std::pair<std::string, Ignored>> options_;  // by name
  bool switch_ = false;
};

// What the table's options are bound to. Stays where it is made.
struct DeclaredRun {
  DeclaredRun();
  DeclaredRun(const DeclaredRun&) = delete;
  DeclaredRun& operator=(const DeclaredRun&) = delete;

  // Once the table is resolved: fills in what several options say together.
  void Settle();

  RunOptions options;
  config::OptionTable table;

 private:
  void DeclareNodes();
  void DeclareRestarts();
  void DeclareOutput();
  void DeclareEnvironment();
  void DeclareServer();
  void DeclareModule();
  // torchrun's names of an option: its own flag, if it is another one, and its variable.
  static void AsTorchrun(config::Option& option, const std::string& name);

  std::string on_preempt_ = "exit";
  std::string scope_ = "world";
  std::vector<std::string> extra_;
  bool no_prefix_ = false;
  ParsedTexts parsed_;
  ServerTimes server_times_;
  IgnoredOfTorchrun ignored_;
};

}  // namespace lockstep::cli
