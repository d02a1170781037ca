#include "lockstep/launch/exit_status.h"

#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/launch/exit_code.h"

namespace lockstep::launch {

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? absl::StrCat("SIG", name) : absl::StrCat("signal ", signal);
}

std::string DurationText(absl::Duration duration) {
  const double seconds = absl::ToDoubleSeconds(duration);
  if (seconds < 60) return absl::StrFormat("%.1f s", seconds);
  const int64_t whole = absl::ToInt64Seconds(duration);
  if (whole < 3600) return absl::StrFormat("%d min %d s", whole / 60, whole % 60);
  return absl::StrFormat("%d h %d min", whole / 3600, whole % 3600 / 60);
}

std::string Describe(const ExitStatus& ending) {
  if (ending.signal != 0) return absl::StrCat("was killed by ", SignalName(ending.signal));
  return absl::StrCat("ended with exit code ", ending.exit_code);
}

int ExitCode(const ExitStatus& ending) {
  return ending.signal != 0 ? kExitSignalBase + ending.signal : ending.exit_code;
}

}  // namespace lockstep::launch
