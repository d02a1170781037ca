#include "lockstep/platform/journal/sqlite_journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/journal/framing.h"

namespace lockstep::journal {
namespace {

// Of a snapshot, and of what it leaves to be deleted, in each commit: takes about as long again as
// the sync.
constexpr size_t kBesideBytes = 64 << 10;

// What is kept together is one row up to here, since SQLite takes no longer ones; above it, rows of
// one transaction.
constexpr size_t kTogetherBytesMax = kEntryBytesMax;
static_assert(kEntryBytesMax <= kTogetherBytesMax);  // an entry alone fits into a row
static_assert(kTogetherBytesMax <= 1'000'000'000);   // SQLITE_MAX_LENGTH

// What is found damaged is said with what to do about it.
absl::Status WithAdvice(const absl::Status& status, const std::string& directory) {
  if (status.code() != absl::StatusCode::kDataLoss) return status;
  return absl::DataLossError(absl::StrFormat(
      "the state is damaged: %s. The server did not start, since that would take back what clients "
      "were told. Restore a good copy of %s, or move it away to begin with an empty state",
      std::string(status.message()), directory));
}

// A database must be there, and a file, when the mark says that something was in it.
absl::Status CheckDatabaseFile(const StateDirectory& directory, const Mark& mark) {
  const std::string name(kDatabaseFile);
  const std::string path = absl::StrCat(directory.path(), "/", name);
  struct stat about;
  if (fstatat(directory.fd(), name.c_str(), &about, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno != ENOENT) return absl::InternalError(absl::StrCat(path, ": ", std::strerror(errno)));
    about.st_mode = S_IFREG;
    about.st_size = 0;
  }
  if (!S_ISREG(about.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is not a regular file"));
  }
  if (about.st_size == 0 && mark.through > 0) {
    return absl::DataLossError(
        absl::StrFormat("%s: it is missing or empty; the mark says that rows up to %d were durable",
                        path, mark.through));
  }
  return absl::OkStatus();
}

// SQLite makes files as the umask says, and the log with the mode of the database: both are to be
// their owner's alone, also those that an older version made.
absl::Status CloseToOthers(const StateDirectory& directory) {
  for (const bool log : {false, true}) {
    const std::string name = absl::StrCat(std::string(kDatabaseFile), log ? "-wal" : "");
    const int make = log ? 0 : O_CREAT;
    const int fd =
        openat(directory.fd(), name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | make, 0600);
    if (fd < 0 && log && errno == ENOENT) continue;
    const bool closed = fd >= 0 && fchmod(fd, 0600) == 0;
    const int error = errno;
    if (fd >= 0) close(fd);
    if (closed) continue;
    return absl::InternalError(
        absl::StrCat(directory.path(), "/", name, ": ", std::strerror(error)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteJournal>> SqliteJournal::Open(SqliteOptions options) {
  auto directory = StateDirectory::Take(options.directory);
  if (!directory.ok()) return directory.status();
  return std::unique_ptr<SqliteJournal>(
      new SqliteJournal(std::move(options), *std::move(directory)));
}

SqliteJournal::SqliteJournal(SqliteOptions options, std::unique_ptr<StateDirectory> directory)
    : options_(std::move(options)),
      directory_(std::move(directory)),
      queue_(SnapshotPolicy(options_.snapshot_bytes_min, options_.snapshot_factor)) {}

SqliteJournal::~SqliteJournal() { Close().IgnoreError(); }

absl::StatusOr<Replayed> SqliteJournal::Replay(
    absl::FunctionRef<absl::Status(std::string_view entry)> apply) {
  const std::string& path = directory_->path();
  absl::StatusOr<std::unique_ptr<MarkFile>> mark = MarkFile::Open(directory_->fd());
  if (!mark.ok()) {
    return WithAdvice(
        absl::Status(mark.status().code(), absl::StrCat(path, "/", std::string(kMarkFile), ": ",
                                                        std::string(mark.status().message()))),
        path);
  }
  const std::optional<Mark> found = (*mark)->found();
  absl::Status status = CheckDatabaseFile(*directory_, found.value_or(Mark()));
  if (status.ok()) status = CloseToOthers(*directory_);
  if (!status.ok()) return WithAdvice(status, path);
  auto store = SqliteStore::Open(
      path,
      {.vfs = options_.vfs, .page_bytes = options_.page_bytes, .log_pages = options_.log_pages});
  if (!store.ok()) return WithAdvice(store.status(), path);
  absl::StatusOr<Replayed> replayed = (*store)->Replay(found, apply);
  if (!replayed.ok()) return WithAdvice(replayed.status(), path);
  store_ = *std::move(store);
  queue_.Found(store_->row_bytes(), store_->snapshot_bytes());
  mark_ = *std::move(mark);
  told_ = store_->last();
  if (absl::Status written = mark_->Write(told_); !written.ok()) return Said(written);
  return replayed;
}

absl::Status SqliteJournal::Start(Durable durable, Failed failed) {
  LOCKSTEP_CHECK(store_ != nullptr && !writer_.joinable());
  durable_ = std::move(durable);
  failed_ = std::move(failed);
  // Signals are for the threads that were there before.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  marker_ = std::make_unique<MarkWriter>(
      std::move(mark_), options_.mark_delay,
      [this](absl::Status reason) { queue_.Break(std::move(reason)); });
  writer_ = std::thread([this] { Write(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return absl::OkStatus();
}

uint64_t SqliteJournal::Append(std::string entry) {
  absl::Status sealed = SealEntry(entry);
  std::vector<std::string> rows;
  rows.push_back(std::move(entry));
  return queue_.Append(std::move(rows), std::move(sealed));
}

uint64_t SqliteJournal::AppendTogether(std::vector<std::string> entries) {
  absl::Status sealed;
  std::vector<std::string> rows(1);
  for (std::string& entry : entries) {
    sealed.Update(SealEntry(entry));
    if (rows.back().size() + entry.size() > kTogetherBytesMax) rows.emplace_back();
    rows.back().empty() ? rows.back().swap(entry) : static_cast<void>(rows.back() += entry);
    std::string().swap(entry);
  }
  return queue_.Append(std::move(rows), std::move(sealed));
}

absl::Status SqliteJournal::Close() {
  if (writer_.joinable()) {
    queue_.Close();
    writer_.join();
  }
  marker_.reset();
  store_.reset();
  return queue_.failure();
}

void SqliteJournal::Write() {
  uint64_t through = 0;
  while (true) {
    JournalQueue::Work work = queue_.Take(/*wait=*/Idle() && laid_out_);
    absl::Status status = Check(work);
    if (!status.ok()) return Fail(std::move(status));
    const size_t bytes = work.bytes;
    const bool closing = work.closing;
    through += work.entries;
    if (!work.queued.empty() || !Idle()) {
      status = WriteAll(std::move(work));
    } else if (!closing) {
      laid_out_ = !store_->LayOutSome();
    }
    if (status.ok() && bytes > 0) {
      queue_.Written(bytes);
      durable_(through);
    }
    // What follows is for later commits, so whoever waited for this one does not wait for it.
    if (status.ok()) status = store_->CarryOverIfDue();
    if (status.ok() && closing) status = Finish();
    if (!status.ok()) return Fail(std::move(status));
    if (closing) return;
  }
}

bool SqliteJournal::Idle() const { return snapshot_ == nullptr && !store_->has_leftovers(); }

absl::Status SqliteJournal::Check(const JournalQueue::Work& work) const {
  if (!work.broken.ok()) return Said(work.broken);
  if (queue_.bytes() <= options_.queued_bytes_max) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "%s: the disk cannot keep up: more than %d bytes are queued for it (queued_bytes_max)",
      directory_->path(), options_.queued_bytes_max));
}

absl::Status SqliteJournal::WriteAll(JournalQueue::Work work) {
  if (absl::Status status = store_->Begin(); !status.ok()) return status;
  std::string row;
  for (JournalQueue::Queued& each : work.queued) {
    const bool full = row.size() + each.bytes.size() > options_.row_bytes_max;
    if (full || each.snapshot != nullptr) {
      if (absl::Status status = WriteRow(row); !status.ok()) return status;
    }
    if (each.snapshot != nullptr) {
      LOCKSTEP_DCHECK(snapshot_ == nullptr);  // `SnapshotPolicy` begins one at a time
      snapshot_ = std::move(each.snapshot);
      store_->BeginSnapshot();
    } else if (row.empty()) {
      row = std::move(each.bytes);  // a large one is not copied
    } else {
      row += each.bytes;
    }
  }
  absl::Status status = WriteRow(row);
  // In step with the rows, so that neither keeps the other waiting for long.
  const size_t beside = std::max(kBesideBytes, work.bytes);
  if (status.ok()) status = WritePiece(std::min(beside, options_.row_bytes_max));
  if (status.ok() && store_->has_leftovers()) status = store_->DeleteLeftovers(2 * beside);
  if (status.ok()) status = store_->Commit();
  if (status.ok() && store_->last() != told_) {
    told_ = store_->last();
    marker_->Durable(told_);
  }
  return status;
}

absl::Status SqliteJournal::WriteRow(std::string& row) {
  if (row.empty()) return absl::OkStatus();
  absl::Status status = store_->AppendRow(row);
  row.clear();
  return status;
}

absl::Status SqliteJournal::WritePiece(size_t bytes) {
  if (snapshot_ == nullptr) return absl::OkStatus();
  std::string piece;
  uint64_t entries = 0;
  bool ended = false;
  while (piece.size() < bytes) {
    std::optional<std::string> entry = snapshot_();
    ended = !entry.has_value();
    if (ended) break;
    if (absl::Status status = SealEntry(*entry); !status.ok()) return Said(status);
    piece += *entry;
    ++entries;
  }
  if (!piece.empty()) {
    if (absl::Status status = store_->AppendPiece(piece, entries); !status.ok()) return status;
  }
  if (!ended) return absl::OkStatus();
  snapshot_ = nullptr;
  if (absl::Status status = store_->EndSnapshot(); !status.ok()) return status;
  queue_.EndSnapshot(store_->snapshot_bytes());
  return absl::OkStatus();
}

absl::Status SqliteJournal::Finish() {
  absl::Status status = Said(marker_->Stop());
  return status.ok() ? store_->Finish() : status;
}

// What is wrong with the mark, with its place.
absl::Status SqliteJournal::Said(const absl::Status& status) const {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(directory_->path(), ": ", std::string(status.message())));
}

void SqliteJournal::Fail(absl::Status reason) {
  // Whatever its kind was, to its owner it is one: nothing is durable any more.
  reason = absl::Status(
      reason.code() == absl::StatusCode::kResourceExhausted ? absl::StatusCode::kResourceExhausted
                                                            : absl::StatusCode::kInternal,
      absl::StrCat("cannot write the journal, so the server answers nothing more: ",
                   std::string(reason.message())));
  queue_.Fail(reason);
  snapshot_ = nullptr;
  failed_(std::move(reason));
}

}  // namespace lockstep::journal
