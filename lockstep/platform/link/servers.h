// The servers that a client may call, of which one leads, and what it has learnt of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/server_list.h"

namespace lockstep::link {

// Shared by all searches of one client, so that each begins where the last one ended, and none
// believes a server that an earlier one knew to be replaced.
//
// Threads: thread-safe. Bounds: runtime::kServersMax addresses.
class Servers {
 public:
  // As people write them. Errors as runtime::ReadServerList.
  static absl::StatusOr<std::shared_ptr<Servers>> Read(const std::string& given);
  // One.
  static std::shared_ptr<Servers> Of(const runtime::Address& address);

  // For people: "h:1", "h:1, i:2", "file:///etc/servers".
  const std::string& text() const { return text_; }
  // The job that their join strings name; empty: none does.
  const std::string& job() const { return job_; }

  // In the order in which to call them: the one that led last comes first. A file is read again,
  // which blocks as that does: UNAVAILABLE, which names it, when it cannot be read or is wrong.
  absl::StatusOr<std::vector<runtime::Address>> Order();
  // All of them, as they were read last.
  std::vector<runtime::Address> addresses() const;
  // The one that led last; the first before any has. What is derived from the server's address,
  // such as that of another of its ports, is derived from this one.
  runtime::Address leader() const;
  // The greatest epoch in which one of them has led.
  uint64_t epoch() const;
  // That one leads, in that epoch.
  void Led(const runtime::Address& address, uint64_t epoch);

 private:
  Servers(std::string file, std::string text, runtime::ServerList list);

  const std::string file_;  // empty: the list does not change
  const std::string text_;
  const std::string job_;
  mutable Mutex mutex_;
  std::vector<runtime::Address> addresses_ ABSL_GUARDED_BY(mutex_);  // not empty
  runtime::Address leader_ ABSL_GUARDED_BY(mutex_);
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep::link
