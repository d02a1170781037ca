#include "lockstep/launch/exception_pipe.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <array>
#include <utility>

namespace lockstep::launch {

ExceptionPipe::ExceptionPipe(runtime::Loop& loop, const std::string& folder, Raised raised)
    : raised_(std::move(raised)), pipe_(loop.io()) {
  // Open for writing too: without a writer it would always be readable.
  const int fd = ::open(ExceptionPipePath(folder).c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  pipe_.assign(fd);
  Wait();
}

void ExceptionPipe::Wait() {
  pipe_.async_wait(asio::posix::stream_descriptor::wait_read,
                   [this](const asio::error_code& error) {
                     if (error) return;
                     Read();
                     Wait();
                   });
}

void ExceptionPipe::Read() {
  std::array<char, PIPE_BUF> bytes;
  const ssize_t count = ::read(pipe_.native_handle(), bytes.data(), bytes.size());
  for (ssize_t i = 0; i < count; ++i) {
    if (bytes[static_cast<size_t>(i)] != '\n') {
      if (line_.size() <= PIPE_BUF) line_ += bytes[static_cast<size_t>(i)];
      continue;
    }
    const std::string line = std::exchange(line_, "");
    if (const auto told = ParseException(line)) raised_(*told);
  }
}

}  // namespace lockstep::launch
