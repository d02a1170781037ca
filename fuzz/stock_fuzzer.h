// What is fuzzed of the listeners for stock clients: any calls, as both families read them, and
// what a coordinator makes of them.
#pragma once

#include <string_view>

namespace lockstep::fuzz {

// Calls, one after the other: a byte for family and method, one for the length of the message, the
// message. Ends the process where something that must hold does not.
void ReadStock(std::string_view bytes);

}  // namespace lockstep::fuzz
