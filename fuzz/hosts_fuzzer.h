// What is fuzzed of what agents and the server say to each other of hosts: any bytes, as datagrams.
#pragma once

#include <string_view>

namespace lockstep::fuzz {

// Ends the process where something that must hold does not.
void ReadHostPacket(std::string_view bytes);

}  // namespace lockstep::fuzz
