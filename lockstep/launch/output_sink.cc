#include "lockstep/launch/output_sink.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "lockstep/base/mutex.h"
#include "lockstep/launch/line_prefixer.h"

namespace lockstep::launch {

OutputSink::OutputSink(int fd, absl::AnyInvocable<void()> on_room,
                       absl::AnyInvocable<void(int)> on_error)
    : fd_(fd), on_room_(std::move(on_room)), on_error_(std::move(on_error)) {
  thread_ = std::thread([this] { Run(); });
}

OutputSink::~OutputSink() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyOne();
  }
  thread_.join();
}

bool OutputSink::Push(std::string text) {
  const MutexLock lock(mutex_);
  queue_ += text;
  changed_.NotifyOne();
  static_assert(kOutputLineBytesMax < kOutputQueueBytesMax);  // a line alone does not fill it
  wants_room_ = queue_.size() >= kOutputQueueBytesMax;
  return !wants_room_;
}

void OutputSink::Flush(absl::AnyInvocable<void()> done) {
  const MutexLock lock(mutex_);
  flushed_ = std::move(done);
  changed_.NotifyOne();
}

std::optional<OutputSink::Work> OutputSink::Take() {
  const MutexLock lock(mutex_);
  while (!stopping_ && queue_.empty() && !flushed_) changed_.Wait(mutex_);
  if (stopping_) return std::nullopt;
  return Work{.batch = std::exchange(queue_, {}),
              .wants_room = std::exchange(wants_room_, false),
              .flushed = std::exchange(flushed_, nullptr)};
}

void OutputSink::Run() {
  bool broken = false;
  while (std::optional<Work> work = Take()) {
    if (work->wants_room) on_room_();
    const int error = broken ? 0 : Write(work->batch);
    if (error != 0) {
      broken = true;
      on_error_(error);
    }
    if (work->flushed) work->flushed();
  }
}

int OutputSink::Write(const std::string& batch) const {
  for (size_t at = 0; at < batch.size();) {
    const ssize_t n = ::write(fd_, batch.data() + at, batch.size() - at);
    if (n >= 0) {
      at += static_cast<size_t>(n);
    } else if (errno == EAGAIN) {  // whoever gave us the stream made it non-blocking
      pollfd writable = {.fd = fd_, .events = POLLOUT, .revents = 0};
      ::poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace lockstep::launch
