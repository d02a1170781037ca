// Writes to one of our own standard streams without ever holding up the loop.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "lockstep/base/mutex.h"

namespace lockstep::launch {

// What is queued for one stream before its sources are no longer read: `output_queue_bytes_max`. As
// much again may be on its way out.
inline constexpr size_t kOutputQueueBytesMax = 1 << 20;

// A thread that writes, since whoever reads our output may stop reading (a pager, Ctrl-S), and
// neither a signal nor the end of a process may go unnoticed for that. Output that cannot be
// written any more (its reader went, the disk is full) is dropped: a training does not die of its
// log.
//
// Threads: thread-safe.
class OutputSink {
 public:
  // Neither function is called under a lock; both on the sink's thread: `on_room` when there is
  // room again after `Push` returned false, `on_error` once, with the errno, when output begins to
  // be dropped. `fd` must stay open as long as the sink.
  OutputSink(int fd, absl::AnyInvocable<void()> on_room, absl::AnyInvocable<void(int)> on_error);
  // Drops what waits, but waits for the write that is under way: flush before it.
  ~OutputSink();
  OutputSink(const OutputSink&) = delete;
  OutputSink& operator=(const OutputSink&) = delete;

  // Takes the text in any case; false says that the caller should wait for room before it comes
  // with more.
  bool Push(std::string text);

  // Calls `done` on the sink's thread when all that was pushed so far has been written or dropped.
  void Flush(absl::AnyInvocable<void()> done);

 private:
  // What is to be done next, all that waits at once.
  struct Work {
    std::string batch;
    bool wants_room = false;
    absl::AnyInvocable<void()> flushed;
  };
  void Run();
  // Nothing: it ends.
  std::optional<Work> Take();
  // Returns 0, or the errno that ended it.
  int Write(const std::string& batch) const;

  const int fd_;
  absl::AnyInvocable<void()> on_room_;      // the thread's alone
  absl::AnyInvocable<void(int)> on_error_;  // the thread's alone

  Mutex mutex_;
  CondVar changed_;
  std::string queue_ ABSL_GUARDED_BY(mutex_);
  bool wants_room_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::AnyInvocable<void()> flushed_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace lockstep::launch
