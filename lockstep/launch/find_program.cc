#include "lockstep/launch/find_program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lockstep::launch {
namespace {

enum class Found { kNothing, kNotExecutable, kProgram };

Found LookAt(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return Found::kNothing;
  return S_ISREG(status.st_mode) && ::access(path.c_str(), X_OK) == 0 ? Found::kProgram
                                                                      : Found::kNotExecutable;
}

}  // namespace

absl::StatusOr<std::string> FindProgram(const std::string& name, const std::string& path_variable) {
  if (name.empty()) return absl::NotFoundError("the command is empty");
  std::string not_executable;
  const bool is_path = name.find('/') != std::string::npos;
  const std::vector<std::string> folders = absl::StrSplit(is_path ? "" : path_variable, ':');
  for (const std::string& folder : folders) {
    // An empty entry of PATH means the current folder.
    const std::string path =
        is_path ? name : absl::StrCat(folder.empty() ? "." : folder, "/", name);
    switch (LookAt(path)) {
      case Found::kProgram:
        return path;
      case Found::kNotExecutable:
        if (not_executable.empty()) not_executable = path;
        break;
      case Found::kNothing:
        break;
    }
  }
  if (!not_executable.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        not_executable, " cannot be executed: it is not a program, or has no x permission"));
  }
  return absl::NotFoundError(absl::StrCat(
      name, is_path ? ": there is no such file" : ": there is no such command in PATH"));
}

namespace {

// `variable` names it, else it is beside this program, else in PATH.
absl::StatusOr<std::string> FindOurs(const std::string& name, const char* variable) {
  const char* const path = std::getenv("PATH");
  const std::string path_variable = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  if (const char* given = std::getenv(variable); given != nullptr && *given != '\0') {
    auto found = FindProgram(given, path_variable);
    if (found.ok()) return found;
    return absl::Status(found.status().code(),
                        absl::StrCat(variable, " names a program that is not there: ",
                                     std::string(found.status().message())));
  }
  char self[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self);
  if (n > 0) {
    const std::string program(self, static_cast<size_t>(n));
    const std::string beside = absl::StrCat(program.substr(0, program.rfind('/')), "/", name);
    if (LookAt(beside) == Found::kProgram) return beside;
  }
  auto found = FindProgram(name, path_variable);
  if (found.ok()) return found;
  return absl::NotFoundError(absl::StrCat(name,
                                          " is neither beside this program nor in PATH; install "
                                          "it, or let ",
                                          variable, " name it"));
}

}  // namespace

absl::StatusOr<std::string> FindServer() { return FindOurs("lockstep-server", "LOCKSTEP_SERVER"); }
absl::StatusOr<std::string> FindAgent() {
  return FindOurs("lockstep-agent", "LOCKSTEP_AGENT_PROGRAM");
}

}  // namespace lockstep::launch
