// What is fuzzed of the data service: any bytes, as a worker's answer, a dataset, a request or an
// answer of the dispatcher, a cursor.
#pragma once

#include <string_view>

namespace lockstep::fuzz {

// The first byte chooses how the rest is read. Ends the process where something that must hold does
// not.
void ReadData(std::string_view bytes);

}  // namespace lockstep::fuzz
