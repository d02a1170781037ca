// What is fuzzed of bulk links: any bytes, as what either end says on one.
#pragma once

#include <string_view>

namespace lockstep::fuzz {

// Ends the process where something that must hold does not.
void ReadBulkLink(std::string_view bytes);

}  // namespace lockstep::fuzz
