#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/preempt/descriptor.h"
#include "lockstep/preempt/local_watches.h"
#include "lockstep/preempt/payload.h"

namespace lockstep::preempt {
namespace {

class FileWatch final : public Watch {
 public:
  explicit FileWatch(FileOptions options) : options_(std::move(options)) {}

  Sight Look(Clock clock, int /*interrupt*/) override {
    Sight sight = LookAt(clock());
    sight.next = options_.interval;
    return sight;
  }

  std::string detail() const override { return options_.path; }

 private:
  // What tells one content from another without reading it.
  struct Stamp {
    ino_t inode = 0;
    off_t size = -1;
    int64_t changed = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };

  Sight LookAt(const Now& now) {
    // A pipe without a writer would be waited for.
    const Descriptor file(::open(options_.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0) {
      if (errno != ENOENT && errno != ENOTDIR) return Fail("cannot be opened", errno);
      stamp_ = {};
      return {.notices = std::vector<Notice>{}};
    }
    struct stat status = {};
    if (::fstat(file.get(), &status) != 0) return Fail("cannot be looked at", errno);
    if (!S_ISREG(status.st_mode)) {
      return {.health = absl::FailedPreconditionError(
                  absl::StrCat(options_.path, " is no regular file"))};
    }
    const Stamp stamp = {.inode = status.st_ino,
                         .size = status.st_size,
                         .changed = status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec};
    if (stamp == stamp_) return {.notices = notices_};

    const absl::StatusOr<std::string> content = ReadAll(file.get());
    if (!content.ok()) return {.health = content.status()};
    absl::StatusOr<std::vector<Notice>> notices =
        ParsePayload(now, *content, absl::StrCat("file-", HashOf(options_.path)));
    if (!notices.ok()) {
      // Perhaps it is being written: looked at again, whatever its stamp.
      stamp_ = {};
      return {.health = absl::Status(
                  notices.status().code(),
                  absl::StrCat(options_.path, ": ", std::string(notices.status().message())))};
    }
    notices_ = *std::move(notices);
    for (Notice& notice : notices_) {
      if (notice.lead) notice.death = now.steady + *notice.lead;
      if (notice.text.empty()) notice.text = absl::StrCat("there is ", options_.path);
    }
    stamp_ = stamp;
    return {.notices = notices_};
  }

  Sight Fail(absl::string_view what, int error) const {
    return {.health = absl::UnavailableError(
                absl::StrCat(options_.path, " ", what, ": ", std::strerror(error)))};
  }

  absl::StatusOr<std::string> ReadAll(int fd) const {
    std::string content(kPayloadBytesMax + 1, '\0');
    size_t size = 0;
    while (size < content.size()) {
      const ssize_t n = ::read(fd, content.data() + size, content.size() - size);
      if (n == 0) break;
      if (n < 0 && errno != EINTR) {
        return absl::UnavailableError(
            absl::StrCat(options_.path, " cannot be read: ", std::strerror(errno)));
      }
      if (n > 0) size += static_cast<size_t>(n);
    }
    content.resize(size);
    return content;
  }

  const FileOptions options_;
  Stamp stamp_;  // of what `notices_` were read from
  std::vector<Notice> notices_;
};

}  // namespace

std::unique_ptr<Watch> MakeFileWatch(FileOptions options) {
  return std::make_unique<FileWatch>(std::move(options));
}

}  // namespace lockstep::preempt
