#include "lockstep/platform/journal/write_ahead_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace lockstep::journal {
namespace {

// Laid out at once: one sync takes about a millisecond.
constexpr int64_t kLayOutBytes = 1 << 20;
// SQLite's format of the log: a header, then a header before each page.
constexpr int64_t kLogHeaderBytes = 32;
constexpr int64_t kFrameHeaderBytes = 24;

class File {
 public:
  explicit File(const std::string& path)
      : fd_(open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

}  // namespace

WriteAheadLog::WriteAheadLog(Database& database, std::string vfs, int pages)
    : database_(database), vfs_(std::move(vfs)), pages_(pages) {}

WriteAheadLog::~WriteAheadLog() {
  if (carrier_.valid()) carrier_.wait();
}

absl::Status WriteAheadLog::CarryOverIfDue() {
  const int pages = database_.log_pages();
  // It has begun anew, since all of it had been carried over.
  if (pages < std::exchange(pages_before_, pages)) {
    carried_ = 0;
    ++beginnings_;
  }
  if (pages < pages_) return absl::OkStatus();
  if (carrying() && pages < 4 * pages_) return absl::OkStatus();
  if (absl::Status status = EndCarrying(); !status.ok()) return status;
  // So much is carried over in about a millisecond.
  if (pages - carried_ <= pages_ / 8 || pages >= 4 * pages_) return CarryOver();
  carriers_beginning_ = beginnings_;
  carrier_ = std::async(std::launch::async, [this] { return CarryOverBeside(); });
  return absl::OkStatus();
}

absl::Status WriteAheadLog::CarryOver() {
  if (absl::Status status = EndCarrying(); !status.ok()) return status;
  const absl::StatusOr<int> carried = database_.Checkpoint(false);
  carried_ = 0;
  pages_before_ = 0;
  return carried.status();
}

absl::Status WriteAheadLog::Empty() {
  absl::Status status = EndCarrying();
  carriers_database_.reset();
  return status.ok() ? database_.Checkpoint(true).status() : status;
}

absl::StatusOr<int> WriteAheadLog::CarryOverBeside() {
  if (carriers_database_ == nullptr) {
    auto database = Database::Open(database_.path(), vfs_);
    if (!database.ok()) return database.status();
    carriers_database_ = *std::move(database);
    absl::Status status = carriers_database_->Execute("PRAGMA synchronous=FULL");
    // Until something was read it does not know that there is a log.
    if (status.ok()) status = carriers_database_->Ask("PRAGMA schema_version").status();
    if (!status.ok()) return status;
  }
  absl::StatusOr<int> carried = carriers_database_->Checkpoint(false);
  // SQLite leaves that to whoever carries over the rest, if there is one.
  if (absl::Status status = carriers_database_->Sync(); !status.ok()) return status;
  return carried;
}

bool WriteAheadLog::carrying() const {
  return carrier_.valid() &&
         carrier_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

absl::Status WriteAheadLog::EndCarrying() {
  if (!carrier_.valid()) return absl::OkStatus();
  const absl::StatusOr<int> carried = carrier_.get();
  if (carried.ok() && carriers_beginning_ == beginnings_) carried_ = *carried;
  return carried.status();
}

bool WriteAheadLog::LayOutSome() {
  if (std::exchange(laid_out_, true)) return false;
  const absl::StatusOr<std::string> page_bytes = database_.Ask("PRAGMA page_size");
  int64_t page = 0;
  if (!page_bytes.ok() || !absl::SimpleAtoi(*page_bytes, &page)) return false;
  // A quarter more than where it is carried over, for what comes meanwhile.
  const int64_t wanted = kLogHeaderBytes + (pages_ + pages_ / 4) * (kFrameHeaderBytes + page);
  const File file(absl::StrCat(database_.path(), "-wal"));
  struct stat about;
  if (file.fd() < 0 || fstat(file.fd(), &about) != 0 || about.st_size >= wanted) return false;
  // Behind the end of the file: nothing that SQLite wrote is there, and it is not writing now.
  const std::string zeros(static_cast<size_t>(std::min(wanted - about.st_size, kLayOutBytes)),
                          '\0');
  const ssize_t written = pwrite(file.fd(), zeros.data(), zeros.size(), about.st_size);
  if (written <= 0 || fdatasync(file.fd()) != 0) return false;
  laid_out_ = false;
  return true;
}

}  // namespace lockstep::journal
