// What a command prints: that it could not be written, since the disk is full or so, is not passed
// over in silence.
#pragma once

#include <unistd.h>

#include <array>
#include <ostream>
#include <streambuf>

#include "absl/status/status.h"

namespace lockstep::cli {

// Takes what is written to `stream` as long as it lives, and writes it to the file `fd` when 64 KiB
// have come, when the stream is flushed, and at the end. After a failure the stream is bad, and
// nothing more is written. Threads: thread-compatible.
class StandardOutput : private std::streambuf {
 public:
  explicit StandardOutput(std::ostream& stream, int fd = STDOUT_FILENO);
  ~StandardOutput() override;  // leaves the stream as it was
  StandardOutput(const StandardOutput&) = delete;
  StandardOutput& operator=(const StandardOutput&) = delete;

  // Writes what is left. UNAVAILABLE when that or anything before, through C's stdout as well,
  // could not be written. OK when nobody reads any more: who ends a pipe early (`| head -1`) has
  // all that it wants.
  absl::Status Finish();

 private:
  int overflow(int character) override;
  int sync() override;

  std::ostream& stream_;
  std::streambuf* const before_;
  const int fd_;
  int error_ = 0;  // errno of the first failure
  std::array<char, 64 * 1024> buffer_;
};

}  // namespace lockstep::cli
