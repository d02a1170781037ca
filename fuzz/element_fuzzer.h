// What is fuzzed of datasets: any bytes, as an element's frame, a spec, an expression, a TFRecord's
// head.
#pragma once

#include <string_view>

namespace lockstep::fuzz {

// The first byte chooses how the rest is read. Ends the process where something that must hold does
// not.
void ReadElement(std::string_view bytes);

}  // namespace lockstep::fuzz
