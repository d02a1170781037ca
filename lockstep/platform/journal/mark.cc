#include "lockstep/platform/journal/mark.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "lockstep/base/check.h"
#include "lockstep/base/crc32c.h"

namespace lockstep::journal {
namespace {

constexpr char kNewMarkFile[] = "mark.new";
constexpr size_t kSlots = 2;
static_assert(kSlots == 2);                // `Make` writes both at once
static_assert(kMarkSlotBytes % 512 == 0);  // whole blocks of any disk

absl::Status Failure(std::string_view what) {
  return absl::ErrnoToStatus(errno, std::string(what));
}

absl::Status WriteAt(int fd, size_t at, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Failure("cannot write the mark");
    at += static_cast<size_t>(written);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

std::string Slot(const Mark& mark) {
  std::string slot = MarkText(mark);
  LOCKSTEP_DCHECK(slot.size() <= kMarkSlotBytes);  // or it would be cut
  slot.resize(kMarkSlotBytes, '\0');
  return slot;
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
    return absl::DataLossError(absl::StrFormat("%d bytes that are not a mark", text.size()));
  }
  return mark;
}

absl::StatusOr<NewestMark> ParseMarkFile(std::string_view bytes) {
  std::optional<NewestMark> newest;
  for (size_t slot = 0; slot < kSlots && slot * kMarkSlotBytes < bytes.size(); ++slot) {
    std::string_view text = bytes.substr(slot * kMarkSlotBytes, kMarkSlotBytes);
    const size_t end = text.find_last_not_of('\0');
    text = text.substr(0, end == std::string_view::npos ? 0 : end + 1);
    const absl::StatusOr<Mark> mark = ParseMark(text);
    if (!mark.ok() || (newest && newest->mark.through >= mark->through)) continue;
    newest = NewestMark{.mark = *mark, .slot = slot};
  }
  if (newest && bytes.size() <= kSlots * kMarkSlotBytes) return *newest;
  return absl::DataLossError(absl::StrFormat("%d bytes that are no mark", bytes.size()));
}

absl::StatusOr<std::unique_ptr<MarkFile>> MarkFile::Open(int directory_fd) {
  std::unique_ptr<MarkFile> file(new MarkFile(directory_fd));
  if (absl::Status status = file->Read(); !status.ok()) return status;
  return file;
}

MarkFile::~MarkFile() {
  if (fd_ >= 0) close(fd_);
}

absl::Status MarkFile::Read() {
  const std::string name(kMarkFile);
  fd_ = openat(directory_fd_, name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd_ < 0) return errno == ENOENT ? absl::OkStatus() : Failure("cannot open the mark");
  std::string bytes(kSlots * kMarkSlotBytes + 1, '\0');  // one more, to see that there is more
  size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t got =
        pread(fd_, bytes.data() + size, bytes.size() - size, static_cast<off_t>(size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failure("cannot read the mark");
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  bytes.resize(size);
  const absl::StatusOr<NewestMark> newest = ParseMarkFile(bytes);
  if (!newest.ok()) return newest.status();
  found_ = newest->mark;
  slot_ = newest->slot;
  return absl::OkStatus();
}

absl::Status MarkFile::Write(const Mark& mark) {
  if (fd_ < 0) return Make(mark);
  const size_t slot = (slot_ + 1) % kSlots;
  if (absl::Status status = WriteAt(fd_, slot * kMarkSlotBytes, Slot(mark)); !status.ok()) {
    return status;
  }
  if (fdatasync(fd_) != 0) return Failure("cannot sync the mark");
  slot_ = slot;
  return absl::OkStatus();
}

absl::Status MarkFile::Make(const Mark& mark) {
  fd_ = openat(directory_fd_, kNewMarkFile, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
               0600);
  if (fd_ < 0) return Failure("cannot make the mark");
  // Both slots, so that no later write makes the file longer.
  if (absl::Status status = WriteAt(fd_, 0, Slot(mark) + Slot(mark)); !status.ok()) return status;
  if (fdatasync(fd_) != 0) return Failure("cannot sync the new mark");
  const std::string name(kMarkFile);
  if (renameat(directory_fd_, kNewMarkFile, directory_fd_, name.c_str()) != 0) {
    return Failure("cannot name the mark");
  }
  if (fsync(directory_fd_) != 0) return Failure("cannot sync the directory");
  return absl::OkStatus();
}

}  // namespace lockstep::journal
