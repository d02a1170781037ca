// The file in which a server says that it is ready, and where.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "asio/posix/stream_descriptor.hpp"
#include "lockstep/launch/environment.h"
#include "lockstep/platform/runtime/loop.h"

namespace lockstep::launch {

// What the ready file says about `job`. INTERNAL: its text is not what a lockstep-server of this
// version writes, or has no such job.
absl::StatusOr<JobAddress> ParseReadyFile(const std::string& text, const std::string& job);

// Waits for the ready file in a folder that the server moves it to.
//
// Threads: loop-confined. Destroy it when the loop has stopped. Ownership: the loop outlives it.
class ReadyFileWatch {
 public:
  // Watches the folder from now on. Calls `written` on the loop, once, with the text of the file.
  // RESOURCE_EXHAUSTED: the system has no inotify watch left.
  static absl::StatusOr<std::unique_ptr<ReadyFileWatch>> Start(
      runtime::Loop& loop, const std::string& folder, std::function<void(std::string)> written);
  ReadyFileWatch(const ReadyFileWatch&) = delete;
  ReadyFileWatch& operator=(const ReadyFileWatch&) = delete;

  // Of the ready file in this folder.
  static std::string PathIn(const std::string& folder);

 private:
  ReadyFileWatch(runtime::Loop& loop, int inotify, std::string path,
                 std::function<void(std::string)> written);
  void Wait();

  asio::posix::stream_descriptor changes_;  // inotify
  const std::string path_;
  const std::function<void(std::string)> written_;
};

}  // namespace lockstep::launch
