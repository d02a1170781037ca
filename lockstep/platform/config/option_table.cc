#include "lockstep/platform/config/option_table.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "lockstep/platform/config/renamed_options.h"
#include "lockstep/platform/config/values.h"

namespace lockstep::config {
namespace {

absl::Status Wrong(const std::string& what) { return absl::InvalidArgumentError(what); }

// Help is written as one line, and shown in lines of this many columns beside the flags.
constexpr size_t kHelpColumns = 68;

std::string Wrapped(const std::string& text) {
  std::string wrapped;
  size_t column = 0;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    if (column > 0 && column + 1 + word.size() > kHelpColumns) {
      wrapped += '\n';
      column = 0;
    }
    if (column > 0) {
      wrapped += ' ';
      ++column;
    }
    absl::StrAppend(&wrapped, word);
    column += word.size();
  }
  return wrapped;
}

std::string Underscored(const std::string& name) { return absl::StrReplaceAll(name, {{"-", "_"}}); }

// A variable holds a list with spaces between.
std::vector<std::string> TextsOf(const Option& option, const char* value) {
  if (!option.repeatable) return {value};
  return absl::StrSplit(value, absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
}

}  // namespace

OptionTable::Variables Environment() {
  return [](const char* name) -> const char* { return std::getenv(name); };
}

OptionTable::OptionTable(std::string section, std::string prefix)
    : section_(std::move(section)), prefix_(std::move(prefix)) {
  Option& config = Text("config", &config_path_, "PATH",
                        "Read options from this YAML or JSON file, which has one section for each "
                        "program.")
                       .Common();
  config.variable = "LOCKSTEP_CONFIG";
  config.file = false;
}

Option& OptionTable::Add(std::string name, std::string type, std::string help) {
  Option& option = options_.emplace_back();
  option.flags = "--" + name;
  option.key = Underscored(name);
  option.variable = prefix_ + absl::AsciiStrToUpper(option.key);
  option.name = std::move(name);
  option.type = std::move(type);
  option.help = std::move(help);
  option.group = group_;
  return option;
}

Option& OptionTable::Duration(std::string name, absl::Duration* value, std::string help,
                              bool may_be_zero) {
  Option& option = Add(std::move(name), "DURATION", std::move(help));
  option.set = [value, may_be_zero](const std::vector<std::string>& texts) -> absl::Status {
    absl::StatusOr<absl::Duration> duration = ParseDuration(texts.front());
    if (!duration.ok()) return duration.status();
    if (*duration == absl::ZeroDuration() && !may_be_zero) return Wrong("must be more than zero");
    *value = *duration;
    return absl::OkStatus();
  };
  option.get = [value] { return std::vector<std::string>{DurationText(*value)}; };
  return option;
}

Option& OptionTable::Number(std::string name, std::function<int64_t()> get,
                            std::function<void(int64_t)> set, std::string help, int64_t least,
                            int64_t most) {
  Option& option = Add(std::move(name), "NUMBER", std::move(help));
  option.set = [set = std::move(set), least,
                most](const std::vector<std::string>& texts) -> absl::Status {
    absl::StatusOr<int64_t> number = ParseCount(texts.front());
    if (!number.ok()) return number.status();
    if (*number < least || *number > most) {
      return Wrong(absl::StrCat("'", texts.front(), "': must be from ", least, " to ", most));
    }
    set(*number);
    return absl::OkStatus();
  };
  option.get = [get = std::move(get)] { return std::vector<std::string>{absl::StrCat(get())}; };
  return option;
}

Option& OptionTable::Bytes(std::string name, size_t* value, std::string help) {
  Option& option = Add(std::move(name), "BYTES", std::move(help));
  option.set = [value](const std::vector<std::string>& texts) -> absl::Status {
    absl::StatusOr<int64_t> bytes = ParseBytes(texts.front());
    if (!bytes.ok()) return bytes.status();
    if (*bytes < 1) return Wrong("must be more than zero");
    *value = static_cast<size_t>(*bytes);
    return absl::OkStatus();
  };
  option.get = [value] {
    return std::vector<std::string>{BytesText(static_cast<int64_t>(*value))};
  };
  return option;
}

Option& OptionTable::Text(std::string name, std::string* value, std::string type,
                          std::string help) {
  Option& option = Add(std::move(name), std::move(type), std::move(help));
  option.set = [value](const std::vector<std::string>& texts) {
    *value = texts.front();
    return absl::OkStatus();
  };
  option.get = [value] { return std::vector<std::string>{*value}; };
  return option;
}

Option& OptionTable::Choice(std::string name, std::string* value, std::vector<std::string> choices,
                            std::string help) {
  Option& option = Text(std::move(name), value, absl::StrJoin(choices, "|"), std::move(help));
  option.set = [value, choices](const std::vector<std::string>& texts) -> absl::Status {
    if (std::find(choices.begin(), choices.end(), texts.front()) == choices.end()) {
      return Wrong(absl::StrCat("'", texts.front(), "': must be ", absl::StrJoin(choices, " or ")));
    }
    *value = texts.front();
    return absl::OkStatus();
  };
  return option;
}

Option& OptionTable::Switch(std::string name, bool* value, std::string help) {
  Option& option = Add(std::move(name), "", std::move(help));
  option.is_switch = true;
  option.set = [value](const std::vector<std::string>& texts) -> absl::Status {
    absl::StatusOr<bool> on = ParseSwitch(texts.front());
    if (!on.ok()) return on.status();
    *value = *on;
    return absl::OkStatus();
  };
  option.get = [value] { return std::vector<std::string>{*value ? "true" : "false"}; };
  return option;
}

Option& OptionTable::List(std::string name, std::vector<std::string>* value, std::string type,
                          std::string help) {
  Option& option = Add(std::move(name), std::move(type), std::move(help));
  option.repeatable = true;
  option.set = [value](const std::vector<std::string>& texts) {
    *value = texts;
    return absl::OkStatus();
  };
  option.get = [value] { return *value; };
  return option;
}

void OptionTable::TakeUnderscores() {
  for (Option& option : options_) {
    if (option.name.find('-') != std::string::npos) {
      option.other_flags.push_back("--" + Underscored(option.name));
    }
    for (const std::string& flag : std::vector<std::string>(option.other_flags)) {
      const std::string underscored = "--" + Underscored(flag.substr(2));
      if (underscored != flag) option.other_flags.push_back(underscored);
    }
  }
}

void OptionTable::AddTo(CLI::App& app) {
  for (Option& option : options_) {
    for (const std::string& flag : option.other_flags) {
      CLI::Option* const other =
          option.is_switch ? app.add_flag(flag)
                           : app.add_option(flag, [](const CLI::results_t&) { return true; });
      if (option.repeatable)
        other->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args(false);
      option.parsed_others.push_back(other->group(""));  // shown in no help
    }
    option.default_texts = option.get();
    const std::string help = Wrapped(absl::StrCat(option.help, " [", option.variable, "]"));
    if (option.is_switch) {
      option.parsed = app.add_flag(option.flags, help);
      if (!option.common) option.parsed->group("");
      continue;
    }
    option.parsed = app.add_option(
        option.flags, [](const CLI::results_t&) { return true; }, help);
    option.parsed->type_name(option.type);
    if (!option.common) option.parsed->group("");
    if (option.repeatable) {
      option.parsed->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args(false);
    } else if (!option.default_texts.front().empty()) {
      option.parsed->default_str(option.default_texts.front());
    }
  }
  RefuseOldNames(section_, app);
  const std::string footer = app.get_footer();
  app.add_flag_callback(
      "--help-all",
      [this, &app, footer] {
        app.footer(footer);
        for (Option& option : options_) {
          if (!option.common) option.parsed->group(option.group);
        }
        throw CLI::CallForHelp();
      },
      "Print this help message with all options and exit");
  const bool all_common = std::all_of(options_.begin(), options_.end(),
                                      [](const Option& option) { return option.common; });
  if (!all_common) {
    app.footer(absl::StrCat(footer, footer.empty() ? "" : "\n",
                            "These are the common options; --help-all shows all of them."));
  }
}

absl::Status OptionTable::CheckOldVariables(const Variables& variables) const {
  for (const RenamedOption& renamed : RenamedOptions()) {
    if (renamed.section != section_) continue;
    const auto variable = [&](const std::string& name) {
      return prefix_ + absl::AsciiStrToUpper(Underscored(name));
    };
    const std::string before = variable(renamed.before);
    const char* const value = variables(before.c_str());
    if (value != nullptr && *value != '\0') {
      return Wrong(absl::StrCat(before, " is now ", variable(renamed.now)));
    }
  }
  return absl::OkStatus();
}

absl::Status OptionTable::Resolve(const Variables& variables) {
  if (absl::Status status = CheckOldVariables(variables); !status.ok()) return status;
  ConfigFile file;
  Option& config = options_.front();
  if (absl::Status status = ResolveOne(config, variables, file); !status.ok()) return status;
  if (!config_path_.empty()) {
    absl::StatusOr<ConfigFile> read = ReadConfigFile(config_path_);
    if (!read.ok()) return absl::InvalidArgumentError(std::string(read.status().message()));
    file = *std::move(read);
    absl::Status status = CheckKeys(file.sections[section_], file.path);
    if (!status.ok()) return status;
  }
  for (Option& option : options_) {
    if (&option == &config) continue;
    if (absl::Status status = ResolveOne(option, variables, file); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status OptionTable::CheckKeys(const std::map<std::string, ConfigValue>& section,
                                    const std::string& path) const {
  for (const auto& [key, value] : section) {
    // A name of its own: clang 14 lets no lambda capture a structured binding.
    const std::string& name = key;
    const bool known = std::any_of(options_.begin(), options_.end(), [&](const Option& option) {
      return option.file && option.key == name;
    });
    if (known) continue;
    const std::string place = absl::StrCat(path, ":", value.line, ": ");
    for (const RenamedOption& renamed : RenamedOptions()) {
      if (renamed.section == section_ && Underscored(renamed.before) == Underscored(key)) {
        return Wrong(absl::StrCat(place, key, " is now ", Underscored(renamed.now)));
      }
    }
    std::string hint = "; --help-all and docs/cli.md list the options";
    for (const Option& option : options_) {
      if (option.file && option.key == Underscored(key)) hint = "; write " + option.key;
    }
    return Wrong(absl::StrCat(place, "section '", section_, "' has no option '", key, "'", hint));
  }
  return absl::OkStatus();
}

const CLI::Option* OptionTable::ParsedOf(const Option& option) {
  if (option.parsed != nullptr && option.parsed->count() > 0) return option.parsed;
  for (const CLI::Option* other : option.parsed_others) {
    if (other->count() > 0) return other;
  }
  return nullptr;
}

absl::Status OptionTable::ResolveOne(Option& option, const Variables& variables,
                                     const ConfigFile& file) {
  const auto set = [&](Origin origin, std::string where, const std::vector<std::string>& texts) {
    option.origin = origin;
    option.where = std::move(where);
    if (!option.repeatable && texts.size() != 1) {
      return Wrong(absl::StrCat(option.where, ": takes one value"));
    }
    const absl::Status status = option.set(texts);
    if (status.ok()) return status;
    const std::string name =
        origin == Origin::kFile ? absl::StrCat(option.where, ": ", option.key) : option.where;
    return Wrong(absl::StrCat(name, ": ", std::string(status.message())));
  };
  if (const CLI::Option* const parsed = ParsedOf(option); parsed != nullptr) {
    std::vector<std::string> texts = parsed->results();
    // A switch that is given twice is on as well.
    if (option.is_switch) texts = {texts.back()};
    // The library tells no name of an option that no help shows.
    const auto& names = parsed->get_lnames();
    return set(Origin::kFlag,
               "--" + (parsed == option.parsed || names.empty() ? option.name : names.front()),
               texts);
  }
  std::vector<std::string> names = {option.variable};
  names.insert(names.end(), option.other_variables.begin(), option.other_variables.end());
  for (const std::string& name : names) {
    const char* const variable = variables(name.c_str());
    if (variable != nullptr && *variable != '\0') {
      return set(Origin::kEnvironment, name, TextsOf(option, variable));
    }
  }
  const auto section = file.sections.find(section_);
  if (option.file && section != file.sections.end()) {
    if (const auto value = section->second.find(option.key); value != section->second.end()) {
      return set(Origin::kFile, absl::StrCat(file.path, ":", value->second.line),
                 value->second.texts);
    }
  }
  return absl::OkStatus();
}

}  // namespace lockstep::config
