// Standard input, output and error, in a program that was started without.
#pragma once

namespace lockstep::runtime {

// Those that are closed lead to /dev/null from now on. Otherwise the next files and sockets that
// the program opens get their numbers, and whatever is printed goes into those. First thing in
// `main`.
void OpenStandardFiles();

}  // namespace lockstep::runtime
