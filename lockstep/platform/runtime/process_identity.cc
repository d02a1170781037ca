#include "lockstep/platform/runtime/process_identity.h"

#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace lockstep::runtime {

std::string ProcessMachine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  struct stat pids = {};
  if (boot.empty() || ::stat("/proc/self/ns/pid", &pids) != 0) return "";
  return absl::StrCat(boot, "/", pids.st_ino);
}

int64_t ProcessStarted(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string line;
  std::getline(file, line);
  // The name, in brackets, may hold anything; the time of the start is field 22.
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream rest(line.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) rest >> skipped;
  int64_t started = 0;
  rest >> started;
  return rest ? started : 0;
}

}  // namespace lockstep::runtime
