// What this host is called, and numbers that nobody else has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace lockstep::runtime {

// As the kernel says it: any bytes but '\0', at most 255. Empty when it says nothing.
std::string HostName();

// From the kernel's generator, so that two processes, and two forks of one, never draw the same.
// Throws std::system_error where that cannot be had.
uint64_t RandomNumber();
std::string RandomBytes(size_t count);

}  // namespace lockstep::runtime
