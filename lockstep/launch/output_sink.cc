#include "lockstep/launch/output_sink.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace lockstep::launch {

OutputSink::OutputSink(int fd, absl::AnyInvocable<void()> on_room,
                       absl::AnyInvocable<void(int)> on_error)
    : fd_(fd), on_room_(std::move(on_room)), on_error_(std::move(on_error)) {
  thread_ = std::thread([this] { Run(); });
}

OutputSink::~OutputSink() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

bool OutputSink::Push(std::string text) {
  const std::lock_guard lock(mutex_);
  queue_ += text;
  changed_.notify_one();
  wants_room_ = queue_.size() >= kOutputQueueBytesMax;
  return !wants_room_;
}

void OutputSink::Flush(absl::AnyInvocable<void()> done) {
  const std::lock_guard lock(mutex_);
  flushed_ = std::move(done);
  changed_.notify_one();
}

void OutputSink::Run() {
  std::unique_lock lock(mutex_);
  bool broken = false;
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty() || flushed_; });
    if (stopping_) return;
    const std::string batch = std::exchange(queue_, {});
    const bool wants_room = std::exchange(wants_room_, false);
    absl::AnyInvocable<void()> flushed = std::exchange(flushed_, nullptr);
    lock.unlock();

    if (wants_room) on_room_();
    const int error = broken ? 0 : Write(batch);
    if (error != 0) {
      broken = true;
      on_error_(error);
    }
    if (flushed) flushed();
    lock.lock();
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
