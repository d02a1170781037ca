// What is fuzzed of what members say to each other: any bytes, as peer messages.
#pragma once

#include <string_view>

namespace lockstep::fuzz {

// Ends the process where something that must hold does not.
void ReadPeerMessage(std::string_view bytes);

}  // namespace lockstep::fuzz
