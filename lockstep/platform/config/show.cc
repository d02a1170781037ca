#include "lockstep/platform/config/show.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"

namespace lockstep::config {
namespace {

const char* NameOf(Origin origin) {
  switch (origin) {
    case Origin::kDefault:
      return "default";
    case Origin::kFile:
      return "file";
    case Origin::kEnvironment:
      return "environment";
    case Origin::kFlag:
      return "flag";
  }
  return "unknown";
}

std::string ValueText(const Option& option) { return absl::StrJoin(option.get(), " "); }

// Empty when there are no such options.
std::string ReferenceTable(const OptionTable& table, bool common) {
  std::string rows;
  for (const Option& option : table.options()) {
    if (option.common != common) continue;
    const std::string default_text = absl::StrJoin(option.default_texts, " ");
    const std::string flags = absl::StrReplaceAll(option.flags, {{",", "`, `"}});
    const std::string type = absl::StrReplaceAll(option.type, {{"|", "\\|"}});
    absl::StrAppend(&rows, "| `", flags, type.empty() ? "" : " " + type, "` | `", option.variable,
                    "` | ", option.file ? "`" + option.key + "`" : "", " | ",
                    default_text.empty() ? "" : "`" + default_text + "`", " | ",
                    absl::StrReplaceAll(option.help, {{"|", "\\|"}}),
                    option.repeatable ? " Repeatable." : "", " |\n");
  }
  if (rows.empty()) return rows;
  return "| flag | variable | key | default | meaning |\n|---|---|---|---|---|\n" + rows;
}

}  // namespace

std::string ShowText(const OptionTable& table) {
  size_t name_width = 0;
  size_t value_width = 0;
  for (const Option& option : table.options()) {
    name_width = std::max(name_width, option.key.size());
    value_width = std::max(value_width, std::min<size_t>(ValueText(option).size(), 32));
  }
  std::string text = table.section() + "\n";
  for (const Option& option : table.options()) {
    const std::string value = ValueText(option);
    std::string line = absl::StrFormat("  %-*s  %-*s  %s", static_cast<int>(name_width), option.key,
                                       static_cast<int>(value_width), value.empty() ? "-" : value,
                                       NameOf(option.origin));
    if (!option.where.empty()) absl::StrAppend(&line, " ", option.where);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

std::string ShowJson(const OptionTable& table) {
  nlohmann::ordered_json options = nlohmann::ordered_json::object();
  for (const Option& option : table.options()) {
    nlohmann::ordered_json value;
    const std::vector<std::string> texts = option.get();
    if (option.repeatable) {
      value = texts;
    } else if (option.is_switch) {
      value = texts.front() == "true";
    } else {
      value = texts.front();
    }
    options[option.key] = {
        {"value", value}, {"origin", NameOf(option.origin)}, {"where", option.where}};
  }
  const nlohmann::ordered_json all = {{table.section(), options}};
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string Reference(const OptionTable& table) {
  std::string text = ReferenceTable(table, /*common=*/true);
  const std::string tuning = ReferenceTable(table, /*common=*/false);
  if (!tuning.empty()) {
    absl::StrAppend(&text, "\nTuning options, which `--help-all` shows:\n\n", tuning);
  }
  return text;
}

}  // namespace lockstep::config
