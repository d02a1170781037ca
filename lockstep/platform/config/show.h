// Prints a table of options: what `lockstep config show` says, and the reference in docs/cli.md.
// Pure.
#pragma once

#include <string>

#include "lockstep/platform/config/option_table.h"

namespace lockstep::config {

// For people: option, value and where it came from. Of a resolved table. Ends with a new line.
std::string ShowText(const OptionTable& table);

// For programs: {"server": {"listen": {"value": "...", "origin": "flag", "where": "--listen"}}}.
std::string ShowJson(const OptionTable& table);

// The reference, for Markdown: a table of the common options, and one of the tuning options if
// there are any. Of a table that was added to an app.
std::string Reference(const OptionTable& table);

}  // namespace lockstep::config
