#include "lockstep/platform/runtime/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/platform/runtime/unique_fd.h"

namespace lockstep::runtime {
namespace {

absl::Status Failed(const std::string& path, const char* doing, int error) {
  const std::string text = absl::StrCat("cannot ", doing, " ", path, ": ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(text);
  if (error == EEXIST) return absl::AlreadyExistsError(text);
  return absl::FailedPreconditionError(text);
}

absl::StatusOr<std::string> ReadAll(const std::string& path, int fd) {
  std::string text(kSmallFileBytesMax + 1, '\0');
  size_t read = 0;
  while (read < text.size()) {
    const ssize_t count = ::read(fd, text.data() + read, text.size() - read);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Failed(path, "read", errno);
    if (count == 0) break;
    read += static_cast<size_t>(count);
  }
  if (read > kSmallFileBytesMax) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s is longer than %d bytes (small_file_bytes_max)", path, kSmallFileBytesMax));
  }
  text.resize(read);
  return text;
}

enum class IfThere { kFail, kReplace };

// By a second name, so that a reader finds either what was there or all of the new.
absl::Status Write(const std::string& path, const std::string& text, mode_t mode,
                   IfThere if_there) {
  const std::string unfinished = absl::StrCat(path, ".", ::getpid());
  ::unlink(unfinished.c_str());
  const UniqueFd file(
      ::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!file.valid()) return Failed(path, "write", errno);
  size_t written = 0;
  int error = 0;
  while (error == 0 && written < text.size()) {
    const ssize_t count = ::write(file.get(), text.data() + written, text.size() - written);
    if (count >= 0) {
      written += static_cast<size_t>(count);
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (error == 0 && ::fsync(file.get()) != 0) error = errno;
  // A link fails when there is such a file, a rename does not.
  const auto name = if_there == IfThere::kFail ? &::link : &::rename;
  if (error == 0 && name(unfinished.c_str(), path.c_str()) != 0) error = errno;
  ::unlink(unfinished.c_str());
  return error == 0 ? absl::OkStatus() : Failed(path, "write", error);
}

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return Failed(path, "read", errno);
  return ReadAll(path, file.get());
}

absl::StatusOr<std::string> ReadSecretFile(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return Failed(path, "read", errno);
  // Of what was opened: the name may lead elsewhere by now.
  struct stat state = {};
  if (::fstat(file.get(), &state) != 0) return Failed(path, "read", errno);
  if ((state.st_mode & 077) != 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s contains a secret, and users other than its owner can access it (mode %04o): run chmod "
        "600 %s (in a pod: set the volume's `defaultMode` to 0400, and no `fsGroup`)",
        path, state.st_mode & 07777, path));
  }
  if (state.st_uid != ::geteuid() && state.st_uid != 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s contains a secret and belongs to another user (UID %d): change its owner to UID %d or "
        "root",
        path, state.st_uid, ::geteuid()));
  }
  return ReadAll(path, file.get());
}

absl::Status WriteSecretFile(const std::string& path, const std::string& text) {
  return Write(path, text, 0600, IfThere::kFail);
}

absl::Status WritePublicFile(const std::string& path, const std::string& text) {
  return Write(path, text, 0644, IfThere::kFail);
}

absl::Status ReplaceSecretFile(const std::string& path, const std::string& text) {
  return Write(path, text, 0600, IfThere::kReplace);
}

absl::Status ReplacePublicFile(const std::string& path, const std::string& text) {
  return Write(path, text, 0644, IfThere::kReplace);
}

FileState StateOf(const std::string& path) {
  struct stat state = {};
  if (::stat(path.c_str(), &state) != 0) return {};
  return {.inode = state.st_ino,
          .size = state.st_size,
          .changed_ns = int64_t{state.st_mtim.tv_sec} * 1'000'000'000 + state.st_mtim.tv_nsec};
}

}  // namespace lockstep::runtime
