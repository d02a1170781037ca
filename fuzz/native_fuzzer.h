// What is fuzzed of the native protocol: any bytes, as a stream of frames and as messages.
#pragma once

#include <string_view>

namespace lockstep::fuzz {

// The first byte chooses how the rest is read. Ends the process where something that must hold does
// not.
void ReadNative(std::string_view bytes);

}  // namespace lockstep::fuzz
