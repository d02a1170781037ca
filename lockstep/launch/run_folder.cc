#include "lockstep/launch/run_folder.h"

#include <dirent.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace lockstep::launch {

absl::StatusOr<std::string> MakeRunFolder() {
  const char* const base = std::getenv("TMPDIR");
  std::string folder =
      absl::StrCat(base != nullptr && *base != '\0' ? base : "/tmp", "/lockstep-run-XXXXXX");
  if (::mkdtemp(folder.data()) == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot make a temporary folder ", folder, ": ",
                                               std::strerror(errno), "; TMPDIR says where"));
  }
  return folder;
}

void RemoveRunFolder(const std::string& folder) {
  if (folder.empty()) return;
  if (DIR* const dir = ::opendir(folder.c_str()); dir != nullptr) {
    while (const dirent* entry = ::readdir(dir)) {
      ::unlinkat(::dirfd(dir), entry->d_name, 0);  // fails for "." and "..", as it should
    }
    ::closedir(dir);
  }
  ::rmdir(folder.c_str());
}

}  // namespace lockstep::launch
