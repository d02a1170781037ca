// Turns requests of the link into calls of plain functions on messages, and what they return into
// answers. So that whoever composes a server parses nothing.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/platform/link/server.h"

namespace lockstep::link {

// What a server answers; called on the loop. An error goes to the client as it is (give it a reason
// with wire::native::WithReason).
struct NativeService {
  // Absent, as may be the others below: not known here. A server whose answer takes several turns
  // of the loop takes the request itself.
  std::function<absl::StatusOr<wire::native::StatusReply>(const wire::native::StatusRequest&)>
      status = nullptr;
  std::function<absl::Status(const wire::native::ProcessReport&, const Rights&)> report;
  std::function<absl::StatusOr<wire::native::CreateJobReply>(const wire::native::CreateJob&)>
      create_job = nullptr;
  std::function<absl::Status(const wire::native::DeleteJob&)> delete_job = nullptr;
  std::function<absl::StatusOr<wire::native::OpenStoreReply>(const wire::native::OpenStore&)>
      open_store = nullptr;
  std::function<absl::StatusOr<wire::native::CreateTaskTokenReply>(
      const wire::native::CreateTaskToken&, const Rights&)>
      create_task_token = nullptr;
};

// For `Server::Listen`. A kind that it does not know is answered UNIMPLEMENTED, bytes that are not
// the message INVALID_ARGUMENT.
Server::Handler MakeHandler(NativeService service);

}  // namespace lockstep::link
