#include "lockstep/launch/orphans.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "lockstep/launch/read_file.h"

namespace lockstep::launch {

void ReapOrphans(absl::FunctionRef<bool(pid_t)> ours) {
  // Orphans become children of the first thread.
  std::istringstream children(ReadFile(absl::StrCat("/proc/self/task/", ::getpid(), "/children")));
  pid_t pid = 0;
  while (children >> pid) {
    if (ours(pid)) continue;
    siginfo_t info = {};
    ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG);
  }
}

}  // namespace lockstep::launch
