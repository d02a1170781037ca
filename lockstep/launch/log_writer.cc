#include "lockstep/launch/log_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/base/mutex.h"

namespace lockstep::launch {
namespace {

// Returns 0, or the errno that ended it.
int WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<size_t>(n));
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

LogWriter::LogWriter(absl::AnyInvocable<void()> on_room, absl::AnyInvocable<void(int)> on_error)
    : on_room_(std::move(on_room)), on_error_(std::move(on_error)) {
  thread_ = std::thread([this] { Run(); });
}

LogWriter::~LogWriter() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyOne();
  }
  thread_.join();
}

absl::StatusOr<LogWriter::File> LogWriter::Open(const std::string& folder,
                                                const std::string& name) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("cannot make the folder ", folder, ": ", error.message()));
  }
  const std::string path = absl::StrCat(folder, "/", name);
  runtime::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!fd.valid()) {
    return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
  }
  return std::make_shared<const runtime::UniqueFd>(std::move(fd));
}

absl::Status LogWriter::Prepare(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot make the folder ", folder, ": ", error.message()));
  }
  std::string probe = absl::StrCat(folder, "/.lockstep-run-XXXXXX");
  if (::mkdtemp(probe.data()) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot make anything in ", folder, ": ", std::strerror(errno)));
  }
  ::rmdir(probe.c_str());
  return absl::OkStatus();
}

absl::StatusOr<std::string> LogWriter::FolderOfRun(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  // A first attempt's folder is claimed by making it, so that two runs that begin at once differ.
  if (!fs::exists(absl::StrCat(folder, "/", kResultFile), error) &&
      fs::create_directory(absl::StrCat(folder, "/attempt_1"), error)) {
    return folder;
  }
  for (int run = 2; !error && run <= kLogRunsMax; ++run) {
    std::string own = absl::StrCat(folder, "/run_", run);
    if (fs::create_directory(own, error)) return own;
  }
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot make a folder in ", folder, ": ", error.message()));
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(folder, " has the files of ", kLogRunsMax, " runs (log_runs_max)"));
}

bool LogWriter::Push(const File& file, std::string_view text) {
  const MutexLock lock(mutex_);
  LOCKSTEP_DCHECK(!stopping_ && file != nullptr);
  if (!queue_.empty() && queue_.back().file == file) {
    queue_.back().text += text;
  } else {
    queue_.push_back({file, std::string(text)});
  }
  queued_ += text.size();
  changed_.NotifyOne();
  wants_room_ = queued_ >= kLogQueueBytesMax;
  return !wants_room_;
}

void LogWriter::Flush(absl::AnyInvocable<void()> done) {
  const MutexLock lock(mutex_);
  flushed_ = std::move(done);
  changed_.NotifyOne();
}

std::optional<LogWriter::Work> LogWriter::Take() {
  const MutexLock lock(mutex_);
  while (!stopping_ && queue_.empty() && !flushed_) changed_.Wait(mutex_);
  if (stopping_) return std::nullopt;
  queued_ = 0;
  return Work{.parts = std::exchange(queue_, {}),
              .wants_room = std::exchange(wants_room_, false),
              .flushed = std::exchange(flushed_, nullptr)};
}

void LogWriter::Run() {
  bool told = false;
  while (std::optional<Work> work = Take()) {
    if (work->wants_room) on_room_();
    for (const Part& part : work->parts) {
      const int error = WriteAll(part.file->get(), part.text);
      if (error != 0 && !std::exchange(told, true)) on_error_(error);
    }
    if (work->flushed) work->flushed();
  }
}

}  // namespace lockstep::launch
