// The directory of one server's state: whether it is fit for it, and that it has one owner.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace lockstep::journal {

// Owns the directory as long as it lives, by a lock on a file in it that holds our process id. The
// lock goes with the process, however that ends.
class StateDirectory {
 public:
  // Makes the directory (0700), and those above it, if there is none.
  // FAILED_PRECONDITION: not to be used, and why: it is a file, a symbolic link, another user's,
  // read only, on a file system of another host, or another process's, which is named.
  static absl::StatusOr<std::unique_ptr<StateDirectory>> Take(const std::string& path);
  ~StateDirectory();
  StateDirectory(const StateDirectory&) = delete;
  StateDirectory& operator=(const StateDirectory&) = delete;

  const std::string& path() const { return path_; }
  int fd() const { return directory_fd_; }
  // What an operator should change, though it can be used so; empty: nothing.
  const std::string& warning() const { return warning_; }

 private:
  StateDirectory(std::string path, int directory_fd);
  absl::Status Check();
  absl::Status Lock();

  const std::string path_;
  const int directory_fd_;
  int lock_fd_ = -1;
  std::string warning_;
};

// The name of the file system of that statfs(2) type when its files may be another host's too, on
// which neither locks nor syncs can be relied on; null for others.
const char* NetworkFileSystem(uint64_t type);

}  // namespace lockstep::journal
