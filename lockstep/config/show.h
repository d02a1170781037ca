// Prints a table of options: what `lockstep config show` says, and the reference in docs/cli.md.
// Pure.
#pragma once

#include <string>

#include "lockstep/config/option_table.h"

namespace lockstep::config {

// For people: option, value and where it came from. Of a resolved table. Ends with a new line.
std::string ShowText(const OptionTable& table);

// For programs: {"server": {"listen": {"value": "...", "origin": "flag", "where": "--listen"}}}.
std::string ShowJson(const OptionTable& table);

// The rows of the reference, for Markdown. Of a table that was added to an app.
std::string ReferenceRows(const OptionTable& table);

}  // namespace lockstep::config
