#include "lockstep/platform/journal/mark_writer.h"

#include <utility>

#include "absl/time/clock.h"
#include "lockstep/base/check.h"
#include "lockstep/base/mutex.h"

namespace lockstep::journal {

MarkWriter::MarkWriter(std::unique_ptr<MarkFile> file, absl::Duration delay,
                       std::function<void(absl::Status)> failed)
    : file_(std::move(file)), delay_(delay), failed_(std::move(failed)) {
  thread_ = std::thread([this] { Run(); });
}

MarkWriter::~MarkWriter() { Stop().IgnoreError(); }

void MarkWriter::Durable(const Mark& mark) {
  const MutexLock lock(mutex_);
  LOCKSTEP_DCHECK(!stopping_);
  LOCKSTEP_DCHECK(mark.through >= newest_.through);  // what was durable stays so
  newest_ = mark;
  // Only the first one wakes it; the others come along when it writes.
  if (!std::exchange(unwritten_, true)) changed_.NotifyOne();
}

absl::Status MarkWriter::Stop() {
  if (thread_.joinable()) {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
      changed_.NotifyOne();
    }
    thread_.join();
  }
  const MutexLock lock(mutex_);
  return failure_;
}

std::optional<Mark> MarkWriter::Next() {
  const MutexLock lock(mutex_);
  while (!unwritten_ && !stopping_) changed_.Wait(mutex_);
  if (!unwritten_) return std::nullopt;
  // Marks that come meanwhile are written with this one.
  const WaitLimit until = WaitLimitAfter(delay_);
  while (!stopping_ && changed_.WaitUntil(mutex_, until)) {
  }
  unwritten_ = false;
  return newest_;
}

void MarkWriter::Run() {
  while (const std::optional<Mark> mark = Next()) {
    absl::Status status = file_->Write(*mark);
    if (status.ok()) continue;
    failed_(status);
    const MutexLock lock(mutex_);
    failure_ = std::move(status);
    return;
  }
}

}  // namespace lockstep::journal
