// Small files with secrets or certificates, and whether they have changed.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::runtime {

inline constexpr size_t kSmallFileBytesMax = size_t{1} << 20;

// All of a file of at most kSmallFileBytesMax. The errors name it: NOT_FOUND, or
// FAILED_PRECONDITION when it cannot be read. Blocks as the file does. Threads: any.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path);

// As ReadSmallFile, of a file that nobody but its owner, and that is this process's user or root,
// may read or change: FAILED_PRECONDITION otherwise.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path);

// Makes a file that only this user can read. Readers see nothing or all of it. ALREADY_EXISTS: it
// is there, and stays as it is.
absl::Status WriteSecretFile(const std::string& path, const std::string& text);
// The same for a file that everybody may read.
absl::Status WritePublicFile(const std::string& path, const std::string& text);

// As WriteSecretFile, in place of the file that is there, if one is.
absl::Status ReplaceSecretFile(const std::string& path, const std::string& text);
absl::Status ReplacePublicFile(const std::string& path, const std::string& text);

// By what a change of a file is noticed.
struct FileState {
  ino_t inode = 0;
  off_t size = 0;
  int64_t changed_ns = 0;  // since the epoch

  friend bool operator==(const FileState&, const FileState&) = default;
};
// Of a file that is not there: nothing but zeroes.
FileState StateOf(const std::string& path);

}  // namespace lockstep::runtime
