// Files that say which `lockstep run`s this user has on this host, so that `lockstep why` and
// `lockstep stacks` find a run whose server nobody named.
//
// One file for each run, mode 0600, in a folder of mode 0700: $XDG_RUNTIME_DIR/lockstep,
// /run/user/UID/lockstep or /tmp/lockstep-UID, the first that can be used. A folder or file that
// belongs to somebody else, that others may write to, or that is a link, is not touched or read.
// The file of a run that was killed stays; its pid and start time tell that it is stale.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::cli {

struct KnownRun {
  pid_t pid = 0;
  uint64_t started = 0;  // in ticks since the boot: another process of that pid has another
  std::string job;
  std::string coordinator;  // HOST:PORT

  friend bool operator==(const KnownRun&, const KnownRun&) = default;
};

// When the process was started; nothing when there is none.
std::optional<uint64_t> StartTimeOf(pid_t pid);

// Where such files may be, the best first.
std::vector<std::string> RunFolders();

// Exists from construction on until it is destroyed.
class RunFile {
 public:
  // Of this process. Makes the first of `folders` that can be used, and removes stale files there.
  static absl::StatusOr<RunFile> Write(const std::string& job, const std::string& coordinator,
                                       const std::vector<std::string>& folders = RunFolders());
  ~RunFile();
  RunFile(RunFile&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  RunFile& operator=(RunFile&&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit RunFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// The runs that live, by pid; `kRunFilesMax` files of a folder are looked at.
std::vector<KnownRun> LivingRuns(const std::vector<std::string>& folders = RunFolders());

inline constexpr size_t kRunFilesMax = 256;

}  // namespace lockstep::cli
