// One process that runs one Python function, and the conversation with it.
//
// Over a socket pair, in turn; each message is a head of 16 bytes (kind, count, bytes) and its
// body:
//
//   define   reference, spec of what comes, spec of what it returns, "name" or "module" as it is
//            allowed (FunctionGrant), with '\n' between them
//   ready    (empty)
//   refused  why: the function cannot be found or imported
//   call     `count` frames
//   busy     (empty) an element was done, and the call goes on
//   results  length of the errors as 8 bytes; for each error index and length as 4 bytes each and
//   the
//            text; up to a multiple of 64; the frames of the others
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/base/time.h"
#include "lockstep/data/engine/function_allowance.h"
#include "lockstep/data/engine/functions.h"
#include "lockstep/platform/runtime/unique_fd.h"

namespace lockstep::engine {

// A spawned `python -m lockstep.data._function_host`, which ends when this process does. Killed and
// reaped at the end. Threads: thread-compatible; `Call` waits.
class FunctionHost {
 public:
  // Python is started without the working directory on its path (PYTHONSAFEPATH). UNAVAILABLE: no
  // process is to be had, or it ended before it was ready; INVALID_ARGUMENT with kFunctionFailed:
  // the function cannot be imported, with the traceback, or is not one that the grant covers.
  // `stop`: when this descriptor is readable nobody waits any more, here and in `Call`: CANCELLED;
  // -1: none.
  static absl::StatusOr<std::unique_ptr<FunctionHost>> Start(const std::string& python,
                                                             const Function& function,
                                                             FunctionGrant grant, int stop = -1);
  ~FunctionHost();
  FunctionHost(const FunctionHost&) = delete;
  FunctionHost& operator=(const FunctionHost&) = delete;

  // After an error the host is of no use any more. DEADLINE_EXCEEDED: an element took longer than
  // `timeout`; UNAVAILABLE: the process has died, and how.
  absl::StatusOr<std::vector<FunctionResult>> Call(std::span<const Element> elements,
                                                   absl::Duration timeout,
                                                   const Allocator& allocator);

  pid_t pid() const { return pid_; }  // good for as long as the host

 private:
  enum class Kind : uint32_t { kDefine = 1, kReady, kRefused, kCall, kBusy, kResults };
  struct Head {
    Kind kind;
    uint32_t count;
    uint64_t bytes;
  };

  FunctionHost(pid_t pid, runtime::UniqueFd socket, int stop)
      : pid_(pid), socket_(std::move(socket)), stop_(stop) {}
  absl::Status Send(Kind kind, std::span<const Element> elements, std::string_view text,
                    absl::Duration timeout);
  absl::Status Read(std::byte* to, uint64_t bytes, absl::Duration timeout);
  // Until the socket is ready, the deadline, or the stop. `late`: what to say at the deadline.
  absl::Status Await(short events, Time deadline, std::string_view late);
  absl::StatusOr<Head> ReadHead(absl::Duration timeout);
  absl::Status Died();

  const pid_t pid_;
  const runtime::UniqueFd socket_;
  const int stop_;
  bool reaped_ = false;
};

}  // namespace lockstep::engine
