// What is fuzzed of the store of torch's clients: any bytes, in any cuts, as a connection's.
#pragma once

#include <string_view>

namespace lockstep::fuzz {

// The first byte says how the rest is cut. Ends the process where something that must hold does
// not.
void ReadStoreBytes(std::string_view bytes);

}  // namespace lockstep::fuzz
