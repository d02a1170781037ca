#include "lockstep/platform/journal/state_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep::journal {
namespace {

constexpr char kLockFile[] = "lock";

absl::Status Unfit(const std::string& path, std::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat("the state directory ", path, " ", std::string(what)));
}

// So that a name in it is there after a power failure.
absl::Status SyncDirectory(const std::string& path, const std::string& parent) {
  const int fd = open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 && errno == EACCES) return absl::OkStatus();  // not ours to read, so not to sync
  const bool synced = fd >= 0 && fsync(fd) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  if (synced) return absl::OkStatus();
  return Unfit(path, absl::StrCat("cannot be made: sync of ", parent, ": ", std::strerror(error)));
}

absl::Status Make(const std::string& path) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (error) return Unfit(path, absl::StrCat("cannot be made: ", error.message()));
  if (mkdir(path.c_str(), 0700) == 0) return SyncDirectory(path, parent.empty() ? "." : parent);
  if (errno == EEXIST) return absl::OkStatus();
  return Unfit(path, absl::StrCat("cannot be made: ", std::strerror(errno)));
}

std::string ReadSome(int fd) {
  char text[32];
  const ssize_t size = pread(fd, text, sizeof(text), 0);
  std::string pid(text, size < 0 ? 0 : static_cast<size_t>(size));
  while (!pid.empty() && pid.back() == '\n') pid.pop_back();
  return pid;
}

}  // namespace

const char* NetworkFileSystem(uint64_t type) {
  switch (type) {
    case 0x6969:
      return "NFS";
    case 0x517B:
    case 0xFE534D42:
      return "SMB";
    case 0xFF534D42:
      return "CIFS";
    case 0x5346414F:
    case 0x6B414653:
      return "AFS";
    case 0x00C36400:
      return "Ceph";
    case 0x0BD00BD0:
      return "Lustre";
    case 0x47504653:
      return "GPFS";
    case 0x01161970:
      return "GFS2";
    case 0x7461636F:
      return "OCFS2";
    case 0x19830326:
      return "BeeGFS";
    case 0x73757245:
      return "Coda";
    default:
      return nullptr;
  }
}

absl::StatusOr<std::unique_ptr<StateDirectory>> StateDirectory::Take(const std::string& path) {
  std::string name = path;
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  struct stat about;
  if (lstat(name.c_str(), &about) != 0) {
    if (errno != ENOENT) return Unfit(name, absl::StrCat("cannot be seen: ", std::strerror(errno)));
    if (absl::Status status = Make(name); !status.ok()) return status;
  } else if (S_ISLNK(about.st_mode)) {
    return Unfit(name, "is a symbolic link: use the directory that it points to");
  } else if (!S_ISDIR(about.st_mode)) {
    return Unfit(name, "is not a directory: use another path");
  }
  const int fd = open(name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return Unfit(name, absl::StrCat("cannot be opened: ", std::strerror(errno)));
  std::unique_ptr<StateDirectory> directory(new StateDirectory(std::move(name), fd));
  if (absl::Status status = directory->Check(); !status.ok()) return status;
  if (absl::Status status = directory->Lock(); !status.ok()) return status;
  return directory;
}

StateDirectory::StateDirectory(std::string path, int directory_fd)
    : path_(std::move(path)), directory_fd_(directory_fd) {}

StateDirectory::~StateDirectory() {
  if (lock_fd_ >= 0) close(lock_fd_);
  close(directory_fd_);
}

absl::Status StateDirectory::Check() {
  struct stat about;
  struct statfs system;
  if (fstat(directory_fd_, &about) != 0 || fstatfs(directory_fd_, &system) != 0) {
    return Unfit(path_, absl::StrCat("cannot be seen: ", std::strerror(errno)));
  }
  if (about.st_uid != geteuid()) {
    return Unfit(path_, absl::StrFormat("belongs to user %d, but this is user %d: use a directory "
                                        "of this user's own, or start the server as that user",
                                        about.st_uid, geteuid()));
  }
  const mode_t mode = about.st_mode & 07777;
  if ((mode & 022) != 0) {
    return Unfit(path_, absl::StrFormat("has mode %04o, so other users may change what is in it: "
                                        "chmod 700 %s",
                                        mode, path_));
  }
  if ((mode & 055) != 0) {
    warning_ = absl::StrFormat(
        "the state directory %s has mode %04o, so other users see which files are in it, though "
        "they cannot read them: chmod 700 %s",
        path_, mode, path_);
  }
  if (const char* kind = NetworkFileSystem(static_cast<uint32_t>(system.f_type))) {
    return Unfit(
        path_,
        absl::StrFormat(
            "is on %s, where two hosts could own it at once: use a directory on a local disk",
            kind));
  }
  return absl::OkStatus();
}

absl::Status StateDirectory::Lock() {
  lock_fd_ = openat(directory_fd_, kLockFile, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock_fd_ < 0) {
    if (errno == EROFS || errno == EACCES || errno == EPERM) {
      return Unfit(path_, absl::StrCat("is read-only: ", std::strerror(errno)));
    }
    return Unfit(path_, absl::StrCat("cannot be locked: ", std::strerror(errno)));
  }
  if (flock(lock_fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      return Unfit(path_, absl::StrCat("cannot be locked: ", std::strerror(errno)));
    }
    const std::string pid = ReadSome(lock_fd_);
    return Unfit(
        path_, absl::StrCat("is in use by another server, process ", pid.empty() ? "unknown" : pid,
                            ": stop that server, or use another directory"));
  }
  const std::string pid = absl::StrFormat("%d\n", getpid());
  if (ftruncate(lock_fd_, 0) != 0 ||
      pwrite(lock_fd_, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return Unfit(path_, absl::StrCat("cannot be written to: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace lockstep::journal
