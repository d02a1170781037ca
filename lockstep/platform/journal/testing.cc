#include "lockstep/platform/journal/testing.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/base/mutex.h"

namespace lockstep::journal {
namespace {

FaultyDisk* the_disk = nullptr;

// SQLite's file, and ours behind it, which is allocated with it.
struct FaultyFile {
  sqlite3_file base;
  bool database;
  sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

sqlite3_file* Real(sqlite3_file* file) { return reinterpret_cast<FaultyFile*>(file)->real(); }

sqlite3_io_methods Methods() {
  sqlite3_io_methods methods = {};
  methods.iVersion = 2;
  methods.xClose = [](sqlite3_file* f) { return Real(f)->pMethods->xClose(Real(f)); };
  methods.xRead = [](sqlite3_file* f, void* to, int size, sqlite3_int64 at) {
    return Real(f)->pMethods->xRead(Real(f), to, size, at);
  };
  methods.xWrite = [](sqlite3_file* f, const void* from, int size, sqlite3_int64 at) {
    const int result = the_disk->OnWrite();
    return result != 0 ? result : Real(f)->pMethods->xWrite(Real(f), from, size, at);
  };
  methods.xTruncate = [](sqlite3_file* f, sqlite3_int64 size) {
    return Real(f)->pMethods->xTruncate(Real(f), size);
  };
  methods.xSync = [](sqlite3_file* f, int flags) {
    const int result = the_disk->OnSync(reinterpret_cast<FaultyFile*>(f)->database);
    return result != 0 ? result : Real(f)->pMethods->xSync(Real(f), flags);
  };
  methods.xFileSize = [](sqlite3_file* f, sqlite3_int64* size) {
    return Real(f)->pMethods->xFileSize(Real(f), size);
  };
  methods.xLock = [](sqlite3_file* f, int kind) { return Real(f)->pMethods->xLock(Real(f), kind); };
  methods.xUnlock = [](sqlite3_file* f, int kind) {
    return Real(f)->pMethods->xUnlock(Real(f), kind);
  };
  methods.xCheckReservedLock = [](sqlite3_file* f, int* out) {
    return Real(f)->pMethods->xCheckReservedLock(Real(f), out);
  };
  methods.xFileControl = [](sqlite3_file* f, int op, void* arg) {
    return Real(f)->pMethods->xFileControl(Real(f), op, arg);
  };
  methods.xSectorSize = [](sqlite3_file* f) { return Real(f)->pMethods->xSectorSize(Real(f)); };
  methods.xDeviceCharacteristics = [](sqlite3_file* f) {
    return Real(f)->pMethods->xDeviceCharacteristics(Real(f));
  };
  methods.xShmMap = [](sqlite3_file* f, int page, int size, int extend, void volatile** out) {
    return Real(f)->pMethods->xShmMap(Real(f), page, size, extend, out);
  };
  methods.xShmLock = [](sqlite3_file* f, int at, int count, int flags) {
    return Real(f)->pMethods->xShmLock(Real(f), at, count, flags);
  };
  methods.xShmBarrier = [](sqlite3_file* f) { Real(f)->pMethods->xShmBarrier(Real(f)); };
  methods.xShmUnmap = [](sqlite3_file* f, int remove) {
    return Real(f)->pMethods->xShmUnmap(Real(f), remove);
  };
  return methods;
}

int OpenFaulty(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out) {
  static const sqlite3_io_methods kMethods = Methods();
  auto* real = static_cast<sqlite3_vfs*>(vfs->pAppData);
  const int result = real->xOpen(real, name, Real(file), flags, out);
  reinterpret_cast<FaultyFile*>(file)->database = (flags & SQLITE_OPEN_MAIN_DB) != 0;
  file->pMethods = Real(file)->pMethods == nullptr ? nullptr : &kMethods;
  return result;
}

sqlite3_vfs* FaultyVfs() {
  static sqlite3_vfs vfs = [] {
    sqlite3_vfs* real = sqlite3_vfs_find("unix-excl");
    sqlite3_vfs copy = *real;
    copy.zName = kFaultyDisk;
    copy.pAppData = real;
    copy.szOsFile = static_cast<int>(sizeof(FaultyFile)) + real->szOsFile;
    copy.xOpen = OpenFaulty;
    return copy;
  }();
  return &vfs;
}

}  // namespace

TemporaryDirectory::TemporaryDirectory() {
  const bool in_memory = access("/dev/shm", W_OK) == 0;
  path_ = std::string(in_memory ? "/dev/shm" : "/tmp") + "/lockstep-journal-XXXXXX";
  LOCKSTEP_CHECK(mkdtemp(path_.data()) != nullptr);
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string ReadFile(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

void WriteFile(const std::string& path, const std::string& bytes) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  LOCKSTEP_CHECK(fd >= 0);
  LOCKSTEP_CHECK(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  close(fd);
}

absl::StatusOr<std::vector<std::string>> ReadJournal(const SqliteOptions& options,
                                                     Replayed* replayed) {
  auto journal = SqliteJournal::Open(options);
  if (!journal.ok()) return journal.status();
  std::vector<std::string> entries;
  absl::StatusOr<Replayed> found = (*journal)->Replay([&](std::string_view entry) {
    entries.emplace_back(entry);
    return absl::OkStatus();
  });
  if (!found.ok()) return found.status();
  if (replayed != nullptr) *replayed = *found;
  return entries;
}

StartedJournal::StartedJournal(std::unique_ptr<Journal> journal) : journal_(std::move(journal)) {
  const auto replayed = journal_->Replay([this](std::string_view entry) {
    found_.emplace_back(entry);
    return absl::OkStatus();
  });
  LOCKSTEP_CHECK(replayed.ok());
  replayed_ = *replayed;
  const auto durable = [this](uint64_t through) {
    const MutexLock lock(mutex_);
    durable_ = through;
    changed_.NotifyAll();
  };
  const auto failed = [this](absl::Status reason) {
    const MutexLock lock(mutex_);
    failures_.push_back(std::move(reason));
    changed_.NotifyAll();
  };
  LOCKSTEP_CHECK(journal_->Start(durable, failed).ok());
}

StartedJournal::~StartedJournal() { journal_->Close().IgnoreError(); }

uint64_t StartedJournal::Append(const std::string& text) {
  return journal_->Append(NewEntry() + text);
}

bool StartedJournal::WaitFor(uint64_t entry) {
  const MutexLock lock(mutex_);
  while (durable_ < entry && failures_.empty()) changed_.Wait(mutex_);
  return durable_ >= entry;
}

void StartedJournal::Snapshot(std::vector<std::string> entries) {
  journal_->BeginSnapshot(
      [entries = std::move(entries), next = size_t{0}]() mutable -> std::optional<std::string> {
        if (next == entries.size()) return std::nullopt;
        return NewEntry() + entries[next++];
      });
}

uint64_t StartedJournal::durable() const {
  const MutexLock lock(mutex_);
  return durable_;
}

std::vector<absl::Status> StartedJournal::failures() const {
  const MutexLock lock(mutex_);
  return failures_;
}

OpenJournal::OpenJournal(const SqliteOptions& options)
    : StartedJournal([&options]() -> std::unique_ptr<Journal> {
        auto journal = SqliteJournal::Open(options);
        LOCKSTEP_CHECK(journal.ok());
        return *std::move(journal);
      }()),
      directory_(options.directory) {}

void OpenJournal::WaitForMark(uint64_t row) const {
  const std::string path = directory_ + "/" + std::string(kMarkFile);
  while (true) {
    const absl::StatusOr<NewestMark> newest = ParseMarkFile(ReadFile(path));
    if (newest.ok() && newest->mark.through >= row) return;
    std::this_thread::yield();
  }
}

FaultyDisk::FaultyDisk() {
  LOCKSTEP_CHECK(the_disk == nullptr);
  the_disk = this;
  sqlite3_vfs_register(FaultyVfs(), 0);
}

FaultyDisk::~FaultyDisk() {
  sqlite3_vfs_unregister(FaultyVfs());
  the_disk = nullptr;
}

void FaultyDisk::Hold(bool database, bool log) {
  const MutexLock lock(mutex_);
  database_held_ = database;
  log_held_ = log;
  changed_.NotifyAll();
}

int FaultyDisk::OnSync(bool database) {
  const MutexLock lock(mutex_);
  while (database ? database_held_ : log_held_) changed_.Wait(mutex_);
  ++syncs_;
  return database && database_sync_result_ != 0 ? database_sync_result_ : sync_result_;
}

}  // namespace lockstep::journal
