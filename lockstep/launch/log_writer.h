// Writes what processes say into files, without ever holding up the loop.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/runtime/unique_fd.h"

namespace lockstep::launch {

// What waits for the disk before its sources are no longer read: `log_queue_bytes_max`.
inline constexpr size_t kLogQueueBytesMax = 4 << 20;

// What a run writes into its log folder at its end, beside the folders attempt_N.
inline constexpr char kResultFile[] = "result.json";

// So many runs share one log folder; more are refused.
inline constexpr int kLogRunsMax = 10000;

// One thread for all files, since a file system may hang, and neither a signal nor the end of a
// process may go unnoticed for that. What a file does not take any more is dropped: a training does
// not die of its log.
//
// Threads: thread-safe.
class LogWriter {
 public:
  // Open files stay so as long as somebody holds one of these.
  using File = std::shared_ptr<const runtime::UniqueFd>;

  // Both on the writer's thread and not under a lock: `on_room` when there is room again after
  // `Push` returned false, `on_error` once, with the errno, when text begins to be dropped.
  LogWriter(absl::AnyInvocable<void()> on_room, absl::AnyInvocable<void(int)> on_error);
  // Drops what waits: flush before it.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Opens `folder`/`name` to be added to; makes the folders on the way to it.
  static absl::StatusOr<File> Open(const std::string& folder, const std::string& name);

  // Makes `folder`, and finds out whether anything can be made in it; leaves nothing else behind.
  // INVALID_ARGUMENT says why not.
  static absl::Status Prepare(const std::string& folder);

  // Where a run writes that shares no file with another: `folder`, which is there, or, where an
  // earlier run left its files, a new `folder`/run_2 (3, ..., kLogRunsMax). RESOURCE_EXHAUSTED when
  // all of them are taken, INVALID_ARGUMENT when none can be made.
  static absl::StatusOr<std::string> FolderOfRun(const std::string& folder);

  // Takes the text in any case; false: wait for room before there is more.
  bool Push(const File& file, std::string_view text);

  // Calls `done` on the writer's thread when all that was pushed so far is written or dropped.
  void Flush(absl::AnyInvocable<void()> done);

 private:
  struct Part {
    File file;
    std::string text;
  };
  // What is to be done next, all that waits at once.
  struct Work {
    std::deque<Part> parts;
    bool wants_room = false;
    absl::AnyInvocable<void()> flushed;
  };
  void Run();
  // Nothing: it ends.
  std::optional<Work> Take();

  absl::AnyInvocable<void()> on_room_;      // the thread's alone
  absl::AnyInvocable<void(int)> on_error_;  // the thread's alone

  Mutex mutex_;
  CondVar changed_;
  std::deque<Part> queue_ ABSL_GUARDED_BY(mutex_);
  size_t queued_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes
  bool wants_room_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::AnyInvocable<void()> flushed_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace lockstep::launch
