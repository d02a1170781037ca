// What is fuzzed of what a caller shows before anybody knows it: any bytes, as a token, a hello and
// a join string.
#pragma once

#include <string_view>

namespace lockstep::fuzz {

// Ends the process where something that must hold does not.
void ReadGreeting(std::string_view bytes);

}  // namespace lockstep::fuzz
