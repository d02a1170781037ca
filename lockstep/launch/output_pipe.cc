#include "lockstep/launch/output_pipe.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::launch {

OutputPipe::OutputPipe(runtime::Loop& loop, runtime::UniqueFd fd, LinePrefixer prefixer,
                       absl::AnyInvocable<bool(std::string)> push,
                       absl::AnyInvocable<bool(std::string_view)> tap,
                       absl::AnyInvocable<void()> on_end)
    : fd_(loop.io(), fd.release()),
      prefixer_(std::move(prefixer)),
      push_(std::move(push)),
      tap_(std::move(tap)),
      on_end_(std::move(on_end)) {
  Wait();
}

void OutputPipe::Resume() {
  room_ = true;
  if (!ended_ && !waiting_) Wait();
}

void OutputPipe::Drain() {
  size_t bytes = 0;
  while (!ended_ && bytes < kOutputDrainBytesMax) {
    switch (ReadOnce(bytes)) {
      case ReadResult::kData:
        break;
      case ReadResult::kNothing:
        return;
      case ReadResult::kEnd:
        End();
        on_end_();
        return;
    }
  }
}

void OutputPipe::Close() {
  size_t bytes = 0;
  while (!ended_ && bytes < kOutputDrainBytesMax && ReadOnce(bytes) == ReadResult::kData) {
  }
  if (!ended_) End();
}

void OutputPipe::Wait() {
  waiting_ = true;
  fd_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
    // Cancelled means that this object is being destroyed.
    if (error == asio::error::operation_aborted) return;
    waiting_ = false;
    OnReadable();
  });
}

void OutputPipe::OnReadable() {
  if (ended_) return;
  size_t bytes = 0;
  if (ReadOnce(bytes) == ReadResult::kEnd) {
    End();
    on_end_();
    return;
  }
  if (room_) Wait();
}

OutputPipe::ReadResult OutputPipe::ReadOnce(size_t& bytes) {
  std::array<char, 64 << 10> buffer;
  static_assert(sizeof(buffer) <= kOutputDrainBytesMax);  // what a pipe holds is drained
  ssize_t n = 0;
  do {
    n = ::read(fd_.native_handle(), buffer.data(), buffer.size());
  } while (n < 0 && errno == EINTR);
  if (n < 0 && errno == EAGAIN) return ReadResult::kNothing;
  if (n <= 0) return ReadResult::kEnd;
  bytes += static_cast<size_t>(n);
  if (tap_ && !tap_({buffer.data(), static_cast<size_t>(n)})) room_ = false;
  std::string lines;
  prefixer_.Feed({buffer.data(), static_cast<size_t>(n)}, lines);
  if (!lines.empty() && !push_(std::move(lines))) room_ = false;
  return ReadResult::kData;
}

void OutputPipe::End() {
  LOCKSTEP_DCHECK(!ended_);
  ended_ = true;
  std::string lines;
  prefixer_.Finish(lines);
  if (!lines.empty()) push_(std::move(lines));
  asio::error_code ignored;
  fd_.close(ignored);
}

}  // namespace lockstep::launch
