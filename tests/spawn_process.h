// Starts a program for a test. Tests only.
#pragma once

#include <spawn.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/check.h"

namespace lockstep {

// `words`: the program's path, then its arguments. It gets the files of this process as `files`
// leaves them. Beside many other tests the system may have no process left for a moment, so a
// refusal for that is tried again.
inline pid_t SpawnProcess(std::vector<std::string> words,
                          const posix_spawn_file_actions_t* files = nullptr) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(90);
  pid_t pid = 0;
  int error = 0;
  while (true) {
    error = ::posix_spawn(&pid, arguments[0], files, nullptr, arguments.data(), environ);
    if (error != EAGAIN || std::chrono::steady_clock::now() > until) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (error != 0) {
    std::fprintf(stderr, "%s does not start: %s\n", arguments[0], std::strerror(error));
  }
  LOCKSTEP_CHECK(error == 0);
  return pid;
}

}  // namespace lockstep
