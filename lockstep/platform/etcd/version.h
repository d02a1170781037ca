// Which versions of etcd are known to lose data. Pure.
#pragma once

#include <string>

namespace lockstep::etcd {

// What is wrong with this version, and what to use instead; empty: nothing that is known.
std::string WhyNot(const std::string& version);

}  // namespace lockstep::etcd
