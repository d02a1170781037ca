#include "lockstep/journal/mark.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "lockstep/base/crc32c.h"

namespace lockstep::journal {
namespace {

constexpr char kNewMarkFile[] = "mark.new";
constexpr size_t kMarkBytesMax = 256;

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

absl::Status Failure(std::string_view what) {
  return absl::ErrnoToStatus(errno, std::string(what));
}

absl::Status WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failure("cannot write the new mark");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

std::string MarkText(const Mark& mark) {
  std::string text = absl::StrFormat("lockstep journal mark 1\nthrough %d\nchecksum %08x\n",
                                     mark.through, mark.checksum);
  absl::StrAppendFormat(&text, "crc %08x\n", Crc32c(0, text));
  return text;
}

absl::StatusOr<Mark> ParseMark(std::string_view text) {
  const std::vector<std::string> lines = absl::StrSplit(std::string(text), '\n');
  Mark mark;
  const bool read = lines.size() == 5 && lines[1].size() > 8 && lines[2].size() > 9 &&
                    absl::SimpleAtoi(lines[1].substr(8), &mark.through) &&
                    absl::SimpleHexAtoi(lines[2].substr(9), &mark.checksum);
  // Whatever is not exactly as we would write it is not ours.
  if (!read || MarkText(mark) != text) {
    return absl::DataLossError(absl::StrFormat("%d bytes that are no mark", text.size()));
  }
  return mark;
}

absl::Status WriteMark(int directory_fd, const Mark& mark) {
  {
    const File file(openat(directory_fd, kNewMarkFile,
                           O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (file.fd() < 0) return Failure("cannot make the new mark");
    if (absl::Status status = WriteAll(file.fd(), MarkText(mark)); !status.ok()) return status;
    if (fdatasync(file.fd()) != 0) return Failure("cannot sync the new mark");
  }
  const std::string name(kMarkFile);
  if (renameat(directory_fd, kNewMarkFile, directory_fd, name.c_str()) != 0) {
    return Failure("cannot replace the mark");
  }
  if (fsync(directory_fd) != 0) return Failure("cannot sync the directory");
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Mark>> ReadMark(int directory_fd) {
  const std::string name(kMarkFile);
  const File file(openat(directory_fd, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (file.fd() < 0) {
    if (errno == ENOENT) return std::optional<Mark>();
    return Failure("cannot open the mark");
  }
  std::string text(kMarkBytesMax, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(file.fd(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failure("cannot read the mark");
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  absl::StatusOr<Mark> mark = ParseMark(text);
  if (!mark.ok()) return mark.status();
  return std::optional<Mark>(*mark);
}

}  // namespace lockstep::journal
