// result.json: how a run ended, for programs. Its schema is in docs/cli.md and only grows.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "lockstep/launch/supervisor.h"

namespace lockstep::launch {

// Goes up when a field changes its meaning or goes away.
inline constexpr int kResultVersion = 1;

struct ResultAbout {
  std::string job;
  std::string host;
  std::string role = "task";
};

// One JSON object, on lines. Pure.
std::string ResultJson(const RunResult& result, const ResultAbout& about);

// Writes it whole or not at all: to a file beside it, which then takes its name.
absl::Status WriteResult(const std::string& path, const RunResult& result,
                         const ResultAbout& about);

}  // namespace lockstep::launch
