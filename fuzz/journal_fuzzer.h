// What is fuzzed of the journal: any bytes, as a row, as an entry, as a mark.
#pragma once

#include <string_view>

namespace lockstep::fuzz {

// The first byte chooses how the rest is read. Ends the process where something that must hold does
// not.
void ReadJournal(std::string_view bytes);

}  // namespace lockstep::fuzz
