// The files of one source as one run of records.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/base/mutex.h"
#include "lockstep/data/engine/file_roots.h"
#include "lockstep/data/engine/source_file.h"
#include "lockstep/data/plan/definition.h"

namespace lockstep::engine::internal {

// Opens files when they are needed, and keeps the last ones open. Threads: thread-safe. Bounds: of
// one source so many files are open beside those that runs hold: `open_files_max`; and one each,
// and a few for each run, when all sources of the process have `open_files_total_max` open.
class FileSet {
 public:
  static constexpr size_t kOpenFilesMax = 128;
  static constexpr size_t kOpenFilesOfARunMin = 4;

  // Opens none of them. `roots`: what may be read. `map`: as SourceFile::Open.
  FileSet(std::vector<plan::FileInfo> files, const std::vector<std::string>& roots, bool map);

  // Half of what the process may have open, and no more than may be mapped.
  static bool TooManyOpen();

  size_t size() const { return files_.size(); }                           // how many files
  const plan::FileInfo& info(size_t file) const { return files_[file]; }  // as the manifest has it
  // Which file the record is in, and which of its records it is.
  std::pair<size_t, int64_t> Locate(int64_t record, size_t near) const;
  // Checked against the manifest when it was opened. Errors as SourceFile::Open and
  // SourceFile::Check.
  absl::StatusOr<std::shared_ptr<SourceFile>> Open(size_t file) const;

 private:
  const std::vector<plan::FileInfo> files_;
  const FileRoots roots_;
  const bool map_;
  std::vector<int64_t> begins_;  // the first record of each file, and the end
  mutable Mutex mutex_;
  mutable std::unordered_map<size_t, std::shared_ptr<SourceFile>> open_ ABSL_GUARDED_BY(mutex_);
  mutable std::deque<size_t> order_ ABSL_GUARDED_BY(mutex_);  // as they were opened
};

// The files that one run has touched. Threads: thread-compatible.
class TouchedFiles {
 public:
  explicit TouchedFiles(const FileSet& set) : set_(set) {}

  struct Place {
    SourceFile* file = nullptr;  // good until two other files were found
    size_t number = 0;
    int64_t record = 0;  // of the file
  };
  // Opens its file when this run has not. Errors as SourceFile::Open and SourceFile::Check.
  absl::StatusOr<Place> Find(int64_t record);
  // FAILED_PRECONDITION with kSourceChanged: a file that this run holds is not as the manifest
  // says.
  absl::Status CheckUnchanged() const;
  std::string NameOf(int64_t record) const;  // "record 17 of /data/a.tfrecord"

 private:
  const FileSet& set_;
  std::unordered_map<size_t, std::shared_ptr<SourceFile>> files_;
  size_t last_number_ = 0;
  std::shared_ptr<SourceFile> last_;
  std::shared_ptr<SourceFile> before_;
};

}  // namespace lockstep::engine::internal
