// The mark beside the database: through which row it was durable. Small, with a checksum of its
// own.
//
// It is what tells a damaged file from a torn tail: what is missing at or below the mark had been
// durable, so it was lost since; what is missing above it was being written when the writer died.
//
// The file has two slots, written in turns and in place: so the older mark is whole while the newer
// one is written, and a write costs one sync of one block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::journal {

struct Mark {
  uint64_t through = 0;   // 0: no row yet
  uint32_t checksum = 0;  // of that row
  friend bool operator==(const Mark&, const Mark&) = default;
};

inline constexpr std::string_view kMarkFile = "mark";
// A block of the disk each, so that what goes wrong with one does not touch the other.
inline constexpr size_t kMarkSlotBytes = 4096;

std::string MarkText(const Mark& mark);
// DATA_LOSS: not a mark, not one byte of it otherwise.
absl::StatusOr<Mark> ParseMark(std::string_view text);

// The newest mark of a file and the slot that it is in. DATA_LOSS: neither slot is whole.
struct NewestMark {
  Mark mark;
  size_t slot = 0;
};
absl::StatusOr<NewestMark> ParseMarkFile(std::string_view bytes);

// The file, open. Threads: one at a time.
class MarkFile {
 public:
  // In the directory that `directory_fd` is open on, which has to stay so. DATA_LOSS: there is one
  // that is none.
  static absl::StatusOr<std::unique_ptr<MarkFile>> Open(int directory_fd);
  ~MarkFile();
  MarkFile(const MarkFile&) = delete;
  MarkFile& operator=(const MarkFile&) = delete;

  // What was read; absent: there was no file.
  const std::optional<Mark>& found() const { return found_; }

  // Durable when it returns; makes the file, with its name, if there is none.
  absl::Status Write(const Mark& mark);

 private:
  explicit MarkFile(int directory_fd) : directory_fd_(directory_fd) {}
  absl::Status Read();
  absl::Status Make(const Mark& mark);

  const int directory_fd_;
  int fd_ = -1;
  size_t slot_ = 0;  // of the newest
  std::optional<Mark> found_;
};

}  // namespace lockstep::journal
