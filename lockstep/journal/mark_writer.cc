#include "lockstep/journal/mark_writer.h"

#include <utility>

#include "absl/time/clock.h"

namespace lockstep::journal {

MarkWriter::MarkWriter(std::unique_ptr<MarkFile> file, absl::Duration delay,
                       std::function<void(absl::Status)> failed)
    : file_(std::move(file)), delay_(delay), failed_(std::move(failed)) {
  thread_ = std::thread([this] { Run(); });
}

MarkWriter::~MarkWriter() { Stop().IgnoreError(); }

void MarkWriter::Durable(const Mark& mark) {
  const std::lock_guard lock(mutex_);
  newest_ = mark;
  // Only the first one wakes it; the others come along when it writes.
  if (!std::exchange(unwritten_, true)) changed_.notify_one();
}

absl::Status MarkWriter::Stop() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      changed_.notify_one();
    }
    thread_.join();
  }
  return failure_;
}

void MarkWriter::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return unwritten_ || stopping_; });
    if (!unwritten_) return;
    const auto until = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(delay_);
    changed_.wait_until(lock, until, [this] { return stopping_; });
    unwritten_ = false;
    const Mark mark = newest_;
    lock.unlock();
    absl::Status status = file_->Write(mark);
    if (!status.ok()) failed_(status);
    lock.lock();
    if (status.ok()) continue;
    failure_ = std::move(status);
    return;
  }
}

}  // namespace lockstep::journal
