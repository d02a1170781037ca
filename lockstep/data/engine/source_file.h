// One file of a source, read at any place.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/base/mutex.h"
#include "lockstep/data/engine/file_roots.h"
#include "lockstep/data/plan/definition.h"
#include "lockstep/platform/runtime/unique_fd.h"

namespace lockstep::engine {

struct ReadRequest {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::byte* to = nullptr;
};

// Where each record lies; built by reading the whole file once.
struct RecordIndex {
  // Of text lines: where each begins, and where the last ends. Of TFRecord: where each record's
  // head begins, and where the last ends.
  std::vector<uint64_t> begins;
  // TFRecord: the last one's head is damaged or cut off, and so is all that would follow.
  bool broken_end = false;

  // Also one that is damaged.
  int64_t records() const { return static_cast<int64_t>(begins.size()) - 1; }
};

enum class IndexKind : uint8_t { kLines, kTfRecord };

// An open file that must stay what the manifest says. Threads: thread-safe.
class SourceFile {
 public:
  // With `map` it is mapped, and reading it when it has shrunk is an error like any other.
  // Errors as FileRoots::Open.
  static absl::StatusOr<std::shared_ptr<SourceFile>> Open(const FileRoots& roots,
                                                          const std::string& path, bool map);
  ~SourceFile();
  SourceFile(const SourceFile&) = delete;
  SourceFile& operator=(const SourceFile&) = delete;

  const std::string& path() const { return path_; }  // without symbolic links
  uint64_t bytes() const { return bytes_; }          // when it was opened
  int64_t mtime_ns() const { return mtime_ns_; }     // when it was opened, since the epoch
  // Of all that the process has open now.
  static size_t CountOpen() { return open_; }
  // FAILED_PRECONDITION with kSourceChanged: it is not, or not any more, as the manifest says.
  absl::Status Check(const plan::FileInfo& manifest) const;

  // All of them; a place beyond the end is kSourceChanged. Else UNAVAILABLE, as the system says.
  absl::Status Read(std::span<const ReadRequest> requests) const;
  // One piece of it, with the same errors.
  absl::Status Read(uint64_t offset, uint64_t bytes, std::byte* to) const {
    const ReadRequest request = {offset, bytes, to};
    return Read({&request, 1});
  }

  // Made at the first call, and kept. Errors as `Read`; the next call tries again. Of one kind for
  // each file.
  absl::StatusOr<const RecordIndex*> Index(IndexKind kind);

 private:
  SourceFile(std::string path, runtime::UniqueFd fd, uint64_t bytes, int64_t mtime_ns)
      : path_(std::move(path)), fd_(std::move(fd)), bytes_(bytes), mtime_ns_(mtime_ns) {
    ++open_;
  }
  absl::Status Changed(const std::string& how) const;
  absl::Status ReadPlain(const ReadRequest& request) const;
  absl::Status ReadMapped(std::span<const ReadRequest> requests) const;
  // Whether a long piece is copied from the mapping. Pages that this process maps the first time
  // cost more than a system call, later they cost nothing: so from the second pass over the file
  // on, and only what is still in memory.
  bool CopiesLong(const ReadRequest& request) const;

  static inline std::atomic<size_t> open_ = 0;

  const std::string path_;
  const runtime::UniqueFd fd_;
  const uint64_t bytes_;
  const int64_t mtime_ns_;
  const std::byte* mapped_ = nullptr;
  mutable std::atomic<uint64_t> read_long_ = 0;  // bytes, in long pieces
  Mutex index_mutex_;
  std::unique_ptr<RecordIndex> index_ ABSL_GUARDED_BY(index_mutex_);
};

// What the head of a .npy file says.
struct NpyHead {
  plan::DType type = plan::DType::kFloat32;
  std::vector<int64_t> shape;
  uint64_t data_at = 0;
};
// INVALID_ARGUMENT: it is no such file, or of a kind that is not read: Fortran order, objects,
// big-endian numbers, structures.
absl::StatusOr<NpyHead> ReadNpyHead(const SourceFile& file);

}  // namespace lockstep::engine
