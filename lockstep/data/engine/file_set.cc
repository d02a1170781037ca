#include "lockstep/data/engine/file_set.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/mutex.h"

namespace lockstep::engine::internal {
namespace {

// `open_files_total_max`.
constexpr size_t kOpenFilesTotalMax = 8192;

}  // namespace

FileSet::FileSet(std::vector<plan::FileInfo> files, const std::vector<std::string>& roots, bool map)
    : files_(std::move(files)), roots_(roots), map_(map) {
  int64_t begin = 0;
  begins_.reserve(files_.size() + 1);
  for (const plan::FileInfo& file : files_) {
    begins_.push_back(begin);
    begin += std::max<int64_t>(0, file.records);
  }
  begins_.push_back(begin);
}

bool FileSet::TooManyOpen() {
  rlimit limit = {};
  size_t most = kOpenFilesTotalMax;
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) most = std::min<size_t>(most, limit.rlim_cur / 2);
  return SourceFile::CountOpen() >= most;
}

std::pair<size_t, int64_t> FileSet::Locate(int64_t record, size_t near) const {
  if (near < files_.size() && record >= begins_[near] && record < begins_[near + 1]) {
    return {near, record - begins_[near]};
  }
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), record);
  const auto file = static_cast<size_t>(after - begins_.begin()) - 1;
  return {file, record - begins_[file]};
}

absl::StatusOr<std::shared_ptr<SourceFile>> FileSet::Open(size_t file) const {
  {
    const MutexLock lock(mutex_);
    if (const auto found = open_.find(file); found != open_.end()) return found->second;
  }
  auto opened = SourceFile::Open(roots_, files_[file].path, map_);
  if (!opened.ok()) return opened.status();
  if (absl::Status status = (*opened)->Check(files_[file]); !status.ok()) return status;
  const MutexLock lock(mutex_);
  const auto [entry, fresh] = open_.emplace(file, *opened);
  if (!fresh) return entry->second;
  order_.push_back(file);
  while (order_.size() > kOpenFilesMax || (order_.size() > 1 && TooManyOpen())) {
    open_.erase(order_.front());
    order_.pop_front();
  }
  return *opened;
}

absl::StatusOr<TouchedFiles::Place> TouchedFiles::Find(int64_t record) {
  const auto [number, local] = set_.Locate(record, last_number_);
  if (last_ == nullptr || number != last_number_) {
    auto found = files_.find(number);
    if (found == files_.end()) {
      auto file = set_.Open(number);
      if (!file.ok()) return file.status();
      if (absl::Status status = (*file)->Check(set_.info(number)); !status.ok()) return status;
      // A run over more files than may be open lets go of some; each was looked at until then.
      if (files_.size() >= FileSet::kOpenFilesMax ||
          (files_.size() >= FileSet::kOpenFilesOfARunMin && FileSet::TooManyOpen())) {
        if (absl::Status status = CheckUnchanged(); !status.ok()) return status;
        files_.clear();
      }
      found = files_.emplace(number, *std::move(file)).first;
    }
    before_ = std::exchange(last_, found->second);
    last_number_ = number;
  }
  return Place{last_.get(), number, local};
}

absl::Status TouchedFiles::CheckUnchanged() const {
  for (const auto& [number, file] : files_) {
    if (absl::Status status = file->Check(set_.info(number)); !status.ok()) return status;
  }
  return absl::OkStatus();
}

std::string TouchedFiles::NameOf(int64_t record) const {
  const auto [number, local] = set_.Locate(record, last_number_);
  return absl::StrCat("record ", local, " of ", set_.info(number).path);
}

}  // namespace lockstep::engine::internal
