#include "lockstep/data/engine/file_error.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "lockstep/data/plan/error.h"

namespace lockstep::engine {

absl::Status FileError(const std::string& path, int error) {
  const std::string text = absl::StrCat(path, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) {
    return plan::Error(absl::StatusCode::kNotFound, plan::kSourceMissing, text);
  }
  if (error == EACCES || error == EPERM) {
    return plan::Error(absl::StatusCode::kPermissionDenied, plan::kPathRefused, text);
  }
  if (error == EMFILE) {
    rlimit limit = {};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return absl::UnavailableError(
        absl::StrCat(text, ": this process may have ", limit.rlim_cur,
                     " open (RLIMIT_NOFILE); raise that limit (ulimit -n)"));
  }
  return absl::UnavailableError(text);
}

}  // namespace lockstep::engine
