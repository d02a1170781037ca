// What can be known of this host without asking anybody: its environment and its firmware.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace lockstep::preempt {

// What sources look at of a host, so that a test can make one up.
struct Host {
  std::map<std::string, std::string> environment;
  std::string root = "";  // before /sys and /var; for tests

  // Empty when it is not set.
  std::string Variable(const std::string& name) const;
};

// This process's own environment.
Host ThisHost();

// A source that fits the host.
struct Detected {
  std::string name;  // of a source
  std::string why;   // for people
};

// Which sources fit this host. Reads /sys/class/dmi/id and the environment; no network. Signals and
// files are for the user to choose.
std::vector<Detected> DetectSources(const Host& host);

// The file's text without white space at its ends; empty when it cannot be read or is longer.
std::string ReadSmallFile(const std::string& path, size_t bytes_max = 64 << 10);

}  // namespace lockstep::preempt
