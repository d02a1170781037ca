#include "lockstep/platform/runtime/fault_point.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lockstep::runtime {
namespace internal {

struct ArmedFault {
  std::string name;
  std::atomic<int> left = 0;
  void (*act)() = nullptr;
};

std::atomic<ArmedFault*> armed_fault = nullptr;

void ReachFaultPoint(ArmedFault& armed, std::string_view name) {
  if (name == armed.name && --armed.left == 0) armed.act();
}

}  // namespace internal

namespace {

constexpr int kExitCode = 3;

// To this thread, so that it goes no further: a signal to the process may be another thread's.
void Kill() { ::raise(SIGKILL); }
void Stop() { ::raise(SIGSTOP); }
void Exit() { ::_exit(kExitCode); }

}  // namespace

absl::Status ArmFaultPoint(std::string_view what) {
  const std::vector<std::string> parts = absl::StrSplit(std::string(what), ':');
  int times = 0;
  void (*act)() = nullptr;
  if (parts.size() == 3) {
    if (parts[2] == "kill") act = Kill;
    if (parts[2] == "stop") act = Stop;
    if (parts[2] == "exit") act = Exit;
  }
  if (act == nullptr || parts[0].empty() || !absl::SimpleAtoi(parts[1], &times) || times < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", std::string(what), "' is not POINT:TIMES:kill, :stop or :exit"));
  }
  // Never deleted: a thread may be looking at it.
  auto* const armed = new internal::ArmedFault{.name = parts[0], .left = times, .act = act};
  internal::armed_fault.store(armed, std::memory_order_release);
  return absl::OkStatus();
}

}  // namespace lockstep::runtime
