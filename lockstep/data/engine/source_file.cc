#include "lockstep/data/engine/source_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "lockstep/base/mutex.h"
#include "lockstep/data/engine/fault_guard.h"
#include "lockstep/data/engine/file_error.h"
#include "lockstep/data/engine/tfrecord.h"
#include "lockstep/data/plan/error.h"

namespace lockstep::engine {
namespace {

using plan::Error;

constexpr size_t kScanBytes = size_t{1} << 20;
// A long piece: from here on a system call costs less than pages that are mapped the first time.
constexpr uint64_t kLongRead = 256 << 10;
constexpr size_t kNpyHeadBytesMax = 64 << 10;

int64_t MtimeOf(const struct stat& info) {
  return int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

// The bytes from `at` on, in pieces of a buffer.
class Scanner {
 public:
  explicit Scanner(const SourceFile& file) : file_(file), buffer_(kScanBytes) {}

  // Empty: the end of the file.
  absl::StatusOr<std::string_view> At(uint64_t at, size_t least) {
    if (at < begin_ || at + least > begin_ + filled_) {
      begin_ = at;
      filled_ = static_cast<size_t>(
          std::min<uint64_t>(buffer_.size(), file_.bytes() - std::min(at, file_.bytes())));
      if (absl::Status status = file_.Read(begin_, filled_, buffer_.data()); !status.ok()) {
        return status;
      }
    }
    const size_t from = static_cast<size_t>(at - begin_);
    return std::string_view(reinterpret_cast<const char*>(buffer_.data()) + from, filled_ - from);
  }

 private:
  const SourceFile& file_;
  std::vector<std::byte> buffer_;
  uint64_t begin_ = 0;
  size_t filled_ = 0;
};

absl::StatusOr<std::unique_ptr<RecordIndex>> IndexLines(const SourceFile& file) {
  auto index = std::make_unique<RecordIndex>();
  Scanner scanner(file);
  uint64_t at = 0;
  index->begins.push_back(0);
  while (at < file.bytes()) {
    const auto piece = scanner.At(at, 1);
    if (!piece.ok()) return piece.status();
    const char* from = piece->data();
    const char* const end = from + piece->size();
    while (from < end) {
      const auto* newline = static_cast<const char*>(std::memchr(from, '\n', end - from));
      if (newline == nullptr) break;
      from = newline + 1;
      index->begins.push_back(at + static_cast<uint64_t>(from - piece->data()));
    }
    at += piece->size();
  }
  // A last line without an end is one too.
  if (index->begins.back() != file.bytes()) index->begins.push_back(file.bytes());
  return index;
}

absl::StatusOr<std::unique_ptr<RecordIndex>> IndexTfRecord(const SourceFile& file) {
  auto index = std::make_unique<RecordIndex>();
  Scanner scanner(file);
  uint64_t at = 0;
  index->begins.push_back(0);
  while (at < file.bytes()) {
    const auto head = scanner.At(at, kTfRecordHeadBytes);
    if (!head.ok()) return head.status();
    const auto length = TfRecordLength(*head);
    const uint64_t left = file.bytes() - at;
    if (!length || left < kTfRecordExtraBytes || *length > left - kTfRecordExtraBytes) {
      index->broken_end = true;
      index->begins.push_back(file.bytes());
      break;
    }
    at += *length + kTfRecordExtraBytes;
    index->begins.push_back(at);
  }
  return index;
}

}  // namespace

absl::StatusOr<std::shared_ptr<SourceFile>> SourceFile::Open(const FileRoots& roots,
                                                             const std::string& path, bool map) {
  auto opened = roots.Open(path);
  if (!opened.ok()) return opened.status();
  struct stat info;
  if (::fstat(opened->fd.get(), &info) != 0) return FileError(path, errno);
  const auto bytes = static_cast<uint64_t>(info.st_size);
  std::shared_ptr<SourceFile> file(
      new SourceFile(std::move(opened->path), std::move(opened->fd), bytes, MtimeOf(info)));
  if (map && bytes != 0) {
    void* mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file->fd_.get(), 0);
    // Where that is not possible it is read.
    if (mapped != MAP_FAILED) file->mapped_ = static_cast<const std::byte*>(mapped);
  }
  return file;
}

SourceFile::~SourceFile() {
  --open_;
  if (mapped_ != nullptr) ::munmap(const_cast<std::byte*>(mapped_), bytes_);
}

absl::Status SourceFile::Changed(const std::string& how) const {
  return Error(absl::StatusCode::kFailedPrecondition, plan::kSourceChanged,
               absl::StrCat(path_, " has changed since the dataset was registered: ", how,
                            "; register it anew"));
}

absl::Status SourceFile::Check(const plan::FileInfo& manifest) const {
  struct stat now;
  if (::fstat(fd_.get(), &now) != 0) return FileError(path_, errno);
  if (static_cast<uint64_t>(now.st_size) != manifest.bytes) {
    return Changed(absl::StrCat("it had ", manifest.bytes, " bytes, and has ", now.st_size));
  }
  if (MtimeOf(now) != manifest.mtime_ns) return Changed("it was written to");
  return absl::OkStatus();
}

absl::Status SourceFile::ReadPlain(const ReadRequest& request) const {
  uint64_t done = 0;
  while (done < request.bytes) {
    const ssize_t n = ::pread(fd_.get(), request.to + done, request.bytes - done,
                              static_cast<off_t>(request.offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError(path_, errno);
    if (n == 0) return Changed("it has become shorter");
    done += static_cast<uint64_t>(n);
  }
  return absl::OkStatus();
}

absl::Status SourceFile::ReadMapped(std::span<const ReadRequest> requests) const {
  for (const ReadRequest& request : requests) {
    if (request.bytes > bytes_ || request.offset > bytes_ - request.bytes) {
      return Changed("it has become shorter");
    }
  }
  return CopyGuarded(mapped_, requests) ? absl::OkStatus() : Changed("it has become shorter");
}

bool SourceFile::CopiesLong(const ReadRequest& request) const {
  const uint64_t before = read_long_.fetch_add(request.bytes, std::memory_order_relaxed);
  if (mapped_ == nullptr || before < bytes_) return false;
  if (request.bytes > bytes_ || request.offset > bytes_ - request.bytes) return false;
  static const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t from = request.offset / page * page;
  const uint64_t bytes = request.offset + request.bytes - from;
  std::vector<unsigned char> there((bytes + page - 1) / page);
  if (::mincore(const_cast<std::byte*>(mapped_ + from), bytes, there.data()) != 0) return false;
  return std::all_of(there.begin(), there.end(),
                     [](unsigned char each) { return (each & 1) != 0; });
}

absl::Status SourceFile::Read(std::span<const ReadRequest> requests) const {
  const bool is_long = !requests.empty() && requests[0].bytes >= kLongRead;
  if (mapped_ != nullptr && !is_long) return ReadMapped(requests);
  // Neighbours that go side by side are read at once.
  for (size_t i = 0; i < requests.size();) {
    ReadRequest request = requests[i++];
    while (i < requests.size() && requests[i].offset == request.offset + request.bytes &&
           requests[i].to == request.to + request.bytes) {
      request.bytes += requests[i++].bytes;
    }
    const bool copies = is_long && CopiesLong(request);
    absl::Status status = copies ? ReadMapped({&request, 1}) : ReadPlain(request);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<const RecordIndex*> SourceFile::Index(IndexKind kind) {
  const MutexLock lock(index_mutex_);
  if (index_ == nullptr) {
    auto index = kind == IndexKind::kLines ? IndexLines(*this) : IndexTfRecord(*this);
    if (!index.ok()) return index.status();
    index_ = *std::move(index);
  }
  return index_.get();
}

namespace {

// What follows 'key': in the head of a .npy file, up to the comma that ends it.
absl::string_view ValueOf(absl::string_view head, absl::string_view key) {
  const size_t at = head.find(absl::StrCat("'", key, "':"));
  if (at == absl::string_view::npos) return {};
  absl::string_view rest = head.substr(at + key.size() + 3);
  while (absl::ConsumePrefix(&rest, " ")) {
  }
  const size_t end = !rest.empty() && rest[0] == '(' ? rest.find(')') : rest.find_first_of(",}");
  return end == absl::string_view::npos ? absl::string_view() : rest.substr(0, end);
}

bool NpyType(absl::string_view descr, plan::DType& type) {
  constexpr struct {
    const char* code;
    plan::DType type;
  } kCodes[] = {
      {"b1", plan::DType::kBool},    {"i1", plan::DType::kInt8},    {"i2", plan::DType::kInt16},
      {"i4", plan::DType::kInt32},   {"i8", plan::DType::kInt64},   {"u1", plan::DType::kUint8},
      {"u2", plan::DType::kUint16},  {"u4", plan::DType::kUint32},  {"u8", plan::DType::kUint64},
      {"f2", plan::DType::kFloat16}, {"f4", plan::DType::kFloat32}, {"f8", plan::DType::kFloat64},
  };
  if (descr.size() != 5 || descr.front() != '\'' || descr.back() != '\'') return false;
  const char order = descr[1];
  const absl::string_view code = descr.substr(2, 2);
  if (order != '<' && !(order == '|' && code[1] == '1')) return false;
  for (const auto& known : kCodes) {
    if (code == known.code) {
      type = known.type;
      return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<NpyHead> ReadNpyHead(const SourceFile& file) {
  const auto bad = [&](const std::string& what) {
    return plan::Invalid(absl::StrCat(file.path(), ": ", what));
  };
  unsigned char start[12] = {};
  if (file.bytes() < sizeof(start)) return bad("it is too short for a .npy file");
  absl::Status status = file.Read(0, sizeof(start), reinterpret_cast<std::byte*>(start));
  if (!status.ok()) return status;
  if (std::memcmp(start, "\x93NUMPY", 6) != 0) return bad("it is not a .npy file");
  const bool old = start[6] == 1;
  const size_t at = old ? 10 : 12;
  const size_t length = old ? start[8] + start[9] * size_t{256}
                            : start[8] + start[9] * size_t{256} + start[10] * size_t{65536} +
                                  start[11] * size_t{16777216};
  if (length > kNpyHeadBytesMax || at + length > file.bytes()) return bad("its head is cut off");
  std::string head(length, '\0');
  status = file.Read(at, length, reinterpret_cast<std::byte*>(head.data()));
  if (!status.ok()) return status;

  NpyHead npy = {.data_at = at + length};
  const absl::string_view descr = ValueOf(head, "descr");
  if (!NpyType(descr, npy.type)) {
    return bad(absl::StrCat("arrays of type ", descr, " are not read; numbers are, little-endian"));
  }
  if (ValueOf(head, "fortran_order") != "False") {
    return bad("it is in Fortran order; save numpy.ascontiguousarray(...) of it");
  }
  absl::string_view shape = ValueOf(head, "shape");
  if (!absl::ConsumePrefix(&shape, "(")) return bad("its shape cannot be read");
  uint64_t expected = BytesOf(npy.type);
  for (const absl::string_view part : absl::StrSplit(shape, ',')) {
    const std::string trimmed(absl::StripAsciiWhitespace(part));
    if (trimmed.empty()) continue;
    int64_t dim = 0;
    if (!absl::SimpleAtoi(trimmed, &dim) || dim < 0 || npy.shape.size() >= plan::kRankMax ||
        (dim != 0 && expected > (uint64_t{1} << 62) / static_cast<uint64_t>(dim))) {
      return bad("its shape cannot be read");
    }
    npy.shape.push_back(dim);
    expected *= static_cast<uint64_t>(dim);
  }
  if (npy.shape.empty()) return bad("it is a single number, and has no rows");
  if (expected > file.bytes() - npy.data_at) return bad("it is shorter than its shape says");
  return npy;
}

}  // namespace lockstep::engine
