#include "lockstep/cli/standard_output.h"

#include <poll.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace lockstep::cli {
namespace {

// The errno of what failed; 0: all is written.
int WriteAll(int fd, const char* at, const char* end) {
  while (at != end) {
    const ssize_t written = ::write(fd, at, static_cast<size_t>(end - at));
    if (written >= 0) {
      at += written;
    } else if (errno == EAGAIN) {
      // Somebody who shares the file has made it so that writes do not wait.
      ::pollfd room = {.fd = fd, .events = POLLOUT, .revents = 0};
      ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

StandardOutput::StandardOutput(std::ostream& stream, int fd)
    : stream_(stream), before_(stream.rdbuf(this)), fd_(fd) {
  setp(buffer_.data(), buffer_.data() + buffer_.size());
}

StandardOutput::~StandardOutput() {
  sync();
  stream_.rdbuf(before_);
}

absl::Status StandardOutput::Finish() {
  stream_.flush();
  // Of what C wrote itself nobody may remember why it failed.
  errno = 0;
  const bool c_failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (error_ == 0 && c_failed) error_ = errno != 0 ? errno : EIO;
  if (error_ == 0 || error_ == EPIPE) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot write to standard output: ", std::string(std::strerror(error_)),
                   "; the output is incomplete: free space there, or write elsewhere"));
}

int StandardOutput::overflow(int character) {
  if (sync() != 0) return traits_type::eof();
  if (!traits_type::eq_int_type(character, traits_type::eof())) {
    *pptr() = traits_type::to_char_type(character);
    pbump(1);
  }
  return traits_type::not_eof(character);
}

int StandardOutput::sync() {
  if (error_ == 0) error_ = WriteAll(fd_, pbase(), pptr());
  setp(buffer_.data(), buffer_.data() + buffer_.size());
  return error_ == 0 ? 0 : -1;
}

}  // namespace lockstep::cli
