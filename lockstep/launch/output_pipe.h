// Reads what a process writes, line by line, into one of our own streams.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "asio/posix/stream_descriptor.hpp"
#include "lockstep/launch/line_prefixer.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/unique_fd.h"

namespace lockstep::launch {

// What is read of a pipe that somebody holds open although its process was released:
// `output_drain_bytes_max`, the most that Linux lets a pipe hold.
inline constexpr size_t kOutputDrainBytesMax = 1 << 20;

// One reading end. Calls `push` with whole prefixed lines; when that returns false, it reads no
// further until `Resume`, so that a process which writes faster than we can is slowed down as if it
// wrote there itself. `tap` gets all bytes as they are, first, and holds up the reading likewise.
//
// Threads: loop-confined. Destroy it when the loop has stopped, not before: `on_end` may be on its
// way.
class OutputPipe {
 public:
  OutputPipe(runtime::Loop& loop, runtime::UniqueFd fd, LinePrefixer prefixer,
             absl::AnyInvocable<bool(std::string)> push,
             absl::AnyInvocable<bool(std::string_view)> tap, absl::AnyInvocable<void()> on_end);

  // `push` said false before, and there is room again. Does nothing otherwise, or after the end.
  void Resume();

  // Passes on what is in the pipe now, room or not: its process has ended, so it is not much.
  void Drain();

  // `Drain`, and ends as if the pipe had ended, without calling `on_end`.
  void Close();

  bool ended() const { return ended_; }

 private:
  enum class ReadResult { kData, kNothing, kEnd };
  void Wait();
  void OnReadable();
  ReadResult ReadOnce(size_t& bytes);
  void End();

  asio::posix::stream_descriptor fd_;
  LinePrefixer prefixer_;
  absl::AnyInvocable<bool(std::string)> push_;
  absl::AnyInvocable<bool(std::string_view)> tap_;  // may be null
  absl::AnyInvocable<void()> on_end_;
  bool room_ = true;
  bool waiting_ = false;
  bool ended_ = false;
};

}  // namespace lockstep::launch
