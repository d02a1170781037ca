#include "lockstep/cli/run_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lockstep/wire/native/json.h"

namespace lockstep::cli {
namespace {

using wire::native::Json;

constexpr char kPrefix[] = "run-";
constexpr char kSuffix[] = ".json";
constexpr size_t kFileBytesMax = 4096;

bool IsOurFolder(const std::string& path) {
  struct stat found = {};
  return ::lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
         found.st_uid == ::geteuid() && (found.st_mode & 077) == 0;
}

// Names of such files in the folder, in order; none of a folder that is not ours.
std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> names;
  if (!IsOurFolder(folder)) return names;
  DIR* const opened = ::opendir(folder.c_str());
  if (opened == nullptr) return names;
  while (const dirent* const entry = ::readdir(opened)) {
    const std::string name = entry->d_name;
    if (absl::StartsWith(name, kPrefix) && absl::EndsWith(name, kSuffix)) names.push_back(name);
    if (names.size() == kRunFilesMax) break;
  }
  ::closedir(opened);
  std::sort(names.begin(), names.end());
  return names;
}

// Nothing when it is not ours, too long, or says something else.
std::optional<KnownRun> Read(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return std::nullopt;
  struct stat found = {};
  std::string text(kFileBytesMax, '\0');
  ssize_t length = -1;
  if (::fstat(file, &found) == 0 && S_ISREG(found.st_mode) && found.st_uid == ::geteuid()) {
    length = ::read(file, text.data(), text.size());
  }
  ::close(file);
  if (length <= 0) return std::nullopt;
  text.resize(static_cast<size_t>(length));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool whole = json.is_object() && json.contains("pid") && json.contains("started") &&
                     json.contains("job") && json.contains("coordinator") &&
                     json["pid"].is_number_integer() && json["started"].is_number_unsigned() &&
                     json["job"].is_string() && json["coordinator"].is_string();
  if (!whole) return std::nullopt;
  return KnownRun{.pid = json["pid"].get<pid_t>(),
                  .started = json["started"].get<uint64_t>(),
                  .job = json["job"].get<std::string>(),
                  .coordinator = json["coordinator"].get<std::string>()};
}

bool Lives(const KnownRun& run) { return StartTimeOf(run.pid) == run.started; }

// Whether the folder can be used; made when it is not there.
bool Prepare(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return false;
  return IsOurFolder(folder);
}

absl::Status WriteWhole(const std::string& path, const std::string& text) {
  const std::string part = absl::StrCat(path, ".part");
  ::unlink(part.c_str());
  const int file = ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  const bool written =
      file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  if (file >= 0) ::close(file);
  if (written && ::rename(part.c_str(), path.c_str()) == 0) return absl::OkStatus();
  ::unlink(part.c_str());
  return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", std::strerror(error)));
}

}  // namespace

std::optional<uint64_t> StartTimeOf(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::ostringstream text;
  text << file.rdbuf();
  // The second field is a name in brackets, which may hold anything.
  const std::string all = text.str();
  const size_t name_ends = all.rfind(") ");
  if (name_ends == std::string::npos) return std::nullopt;
  const std::vector<std::string> fields = absl::StrSplit(all.substr(name_ends + 2), ' ');
  constexpr size_t kStartTime = 19;  // the 22nd of all
  uint64_t started = 0;
  if (fields.size() <= kStartTime || fields[0] == "Z") return std::nullopt;
  if (!absl::SimpleAtoi(fields[kStartTime], &started)) return std::nullopt;
  return started;
}

std::vector<std::string> RunFolders() {
  std::vector<std::string> folders;
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/') folders.push_back(absl::StrCat(runtime, "/lockstep"));
  folders.push_back(absl::StrCat("/run/user/", ::geteuid(), "/lockstep"));
  folders.push_back(absl::StrCat("/tmp/lockstep-", ::geteuid()));
  return folders;
}

absl::StatusOr<RunFile> RunFile::Write(const std::string& job, const std::string& coordinator,
                                       const std::vector<std::string>& folders) {
  const auto folder = std::find_if(folders.begin(), folders.end(), Prepare);
  if (folder == folders.end()) {
    return absl::UnavailableError("cannot create a directory for files about runs");
  }
  for (const std::string& name : FilesIn(*folder)) {
    const std::string path = absl::StrCat(*folder, "/", name);
    if (const auto run = Read(path); run && !Lives(*run)) ::unlink(path.c_str());
  }
  const Json json = {{"pid", ::getpid()},
                     {"started", StartTimeOf(::getpid()).value_or(0)},
                     {"job", job},
                     {"coordinator", coordinator}};
  const std::string path = absl::StrCat(*folder, "/", kPrefix, ::getpid(), kSuffix);
  const absl::Status status =
      WriteWhole(path, json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  if (!status.ok()) return status;
  return RunFile(path);
}

RunFile::~RunFile() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

std::vector<KnownRun> LivingRuns(const std::vector<std::string>& folders) {
  std::vector<KnownRun> runs;
  for (const std::string& folder : folders) {
    for (const std::string& name : FilesIn(folder)) {
      auto run = Read(absl::StrCat(folder, "/", name));
      if (!run || !Lives(*run)) continue;
      if (std::find(runs.begin(), runs.end(), *run) == runs.end()) runs.push_back(*std::move(run));
    }
  }
  std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.pid < b.pid; });
  return runs;
}

}  // namespace lockstep::cli
