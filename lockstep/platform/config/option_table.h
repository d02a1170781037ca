// The options of a program, each declared once: from the declaration come the flag, the variable,
// the key in a file, the check, the help, the reference in docs/cli.md and `lockstep config show`.
#pragma once

#include <concepts>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lockstep/platform/config/config_file.h"

namespace lockstep::config {

// Where a value came from; the later ones win.
enum class Origin { kDefault, kFile, kEnvironment, kFlag };

// One option as it was declared, and where its value came from.
struct Option {
  std::string name;      // "heartbeat-timeout"
  std::string flags;     // "--heartbeat-timeout", "-v,--verbose"
  std::string variable;  // "LOCKSTEP_SERVER_HEARTBEAT_TIMEOUT"
  std::string key;       // in a file: "heartbeat_timeout"
  std::string type;      // "DURATION"; empty for a switch
  std::string help;
  bool repeatable = false;
  bool is_switch = false;
  bool file = true;     // may stand in a file
  bool common = false;  // shown by --help; the others, for tuning, by --help-all only
  std::string group;    // the heading in --help-all
  // What others call it; taken, but in no help. A flag of ours, and then a variable of ours, beats
  // them.
  std::vector<std::string> other_flags;      // "--nproc_per_node"
  std::vector<std::string> other_variables;  // "PET_NPROC_PER_NODE"

  // Checks the texts and stores what they say; one text unless repeatable.
  std::function<absl::Status(const std::vector<std::string>&)> set;
  std::function<std::vector<std::string>()> get;

  // Marks an option that --help shows.
  Option& Common() {
    common = true;
    return *this;
  }

  // Known once the table is resolved.
  Origin origin = Origin::kDefault;
  std::string where;  // "--listen", "LOCKSTEP_SERVER_LISTEN", "lockstep.yaml:3"; empty for defaults
  std::vector<std::string> default_texts;
  CLI::Option* parsed = nullptr;
  std::vector<CLI::Option*> parsed_others;
};

// Declares options bound to variables that outlive the table, whose values are the defaults.
//
//   OptionTable table("server", "LOCKSTEP_SERVER_");
//   table.Duration("register-timeout", &options.register_timeout, "From the first ...");
//   table.AddTo(app);
//   app.parse(argc, argv);
//   absl::Status status = table.Resolve(Environment());
//
// `--config PATH` (LOCKSTEP_CONFIG) is in every table, and so is `--help-all`. A name that an
// option had before (renamed_options.h) is an error that says the new one. Threads:
// thread-compatible.
class OptionTable {
 public:
  // Returns the variable's value; null when it is not set.
  using Variables = std::function<const char*(const char* name)>;

  // `section`: of the file. A variable is `prefix` and the option's name.
  OptionTable(std::string section, std::string prefix);
  OptionTable(const OptionTable&) = delete;
  OptionTable& operator=(const OptionTable&) = delete;

  // Each returns the declaration, to be refined before AddTo. Durations must be more than zero
  // unless said otherwise.
  Option& Duration(std::string name, absl::Duration* value, std::string help,
                   bool may_be_zero = false);
  template <std::integral T>
  // From `least` to `most`.
  Option& Count(std::string name, T* value, std::string help, int64_t least = 1,
                int64_t most = std::numeric_limits<int32_t>::max()) {
    return Number(
        std::move(name), [value] { return static_cast<int64_t>(*value); },
        [value](int64_t number) { *value = static_cast<T>(number); }, std::move(help), least, most);
  }
  // At least 1; with a unit such as 64MiB.
  Option& Bytes(std::string name, size_t* value, std::string help);
  // Any text; `type` is what the help calls it.
  Option& Text(std::string name, std::string* value, std::string type, std::string help);
  // One of `choices`.
  Option& Choice(std::string name, std::string* value, std::vector<std::string> choices,
                 std::string help);
  // A flag alone is true; true or false elsewhere.
  Option& Switch(std::string name, bool* value, std::string help);
  // Replaces the default; a flag may come again.
  Option& List(std::string name, std::vector<std::string>* value, std::string type,
               std::string help);

  // Puts the options declared from now on under this heading of --help-all.
  void Group(std::string heading) { group_ = std::move(heading); }

  // Takes each flag with underscores for dashes, too.
  void TakeUnderscores();

  // Adds the flags to a command line. The table must outlive `app`'s parsing.
  void AddTo(CLI::App& app);

  // After the command line was parsed: looks into variables and file, and stores the values.
  // INVALID_ARGUMENT names the option and where the wrong value stands.
  absl::Status Resolve(const Variables& variables);

  // In the order in which they were declared, --config first.
  const std::deque<Option>& options() const { return options_; }
  const std::string& section() const { return section_; }  // of the file

 private:
  Option& Add(std::string name, std::string type, std::string help);
  Option& Number(std::string name, std::function<int64_t()> get, std::function<void(int64_t)> set,
                 std::string help, int64_t least, int64_t most);
  absl::Status CheckKeys(const std::map<std::string, ConfigValue>& section,
                         const std::string& path) const;
  absl::Status CheckOldVariables(const Variables& variables) const;
  absl::Status ResolveOne(Option& option, const Variables& variables, const ConfigFile& file);
  // Whether a flag said it, and which.
  static const CLI::Option* ParsedOf(const Option& option);

  const std::string section_;
  const std::string prefix_;
  std::string group_ = "Tuning";
  std::string config_path_;
  std::deque<Option> options_;  // addresses stay
};

// The process's own environment.
OptionTable::Variables Environment();

}  // namespace lockstep::config
