#include "lockstep/platform/link/native_service.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/unknown_request.h"

namespace lockstep::link {
namespace {

using wire::native::CreateJob;
using wire::native::CreateTaskToken;
using wire::native::DeleteJob;
using wire::native::DeleteJobReply;
using wire::native::OpenStore;
using wire::native::ProcessReport;
using wire::native::ProcessReportReply;
using wire::native::StatusRequest;

// Decodes the request, calls `function` and encodes what it returns.
template <class RequestMessage, class Function>
void Serve(const Request& request, Responder responder, const Function& function) {
  auto message = wire::native::Decode<RequestMessage>(request.payload);
  if (!message.ok()) {
    return responder.Fail(wire::native::WithReason(message.status(), "invalid_argument"));
  }
  auto reply = function(*message);
  if (!reply.ok()) return responder.Fail(reply.status());
  responder.Answer(wire::native::Encode(*reply));
}

}  // namespace

Server::Handler MakeHandler(NativeService service) {
  return [service = std::move(service)](const Request& request, Responder responder) {
    switch (request.kind) {
      case KindOf<StatusRequest>::kKind:
        if (service.status == nullptr) break;
        return Serve<StatusRequest>(request, std::move(responder), service.status);
      case KindOf<ProcessReport>::kKind:
        return Serve<ProcessReport>(
            request, std::move(responder),
            [&](const ProcessReport& message) -> absl::StatusOr<ProcessReportReply> {
              if (absl::Status status = service.report(message, request.rights); !status.ok()) {
                return status;
              }
              return ProcessReportReply{};
            });
      case KindOf<CreateJob>::kKind:
        if (service.create_job == nullptr) break;
        return Serve<CreateJob>(request, std::move(responder), service.create_job);
      case KindOf<DeleteJob>::kKind:
        if (service.delete_job == nullptr) break;
        return Serve<DeleteJob>(request, std::move(responder),
                                [&](const DeleteJob& message) -> absl::StatusOr<DeleteJobReply> {
                                  if (absl::Status status = service.delete_job(message);
                                      !status.ok()) {
                                    return status;
                                  }
                                  return DeleteJobReply{};
                                });
      case KindOf<OpenStore>::kKind:
        if (service.open_store == nullptr) break;
        return Serve<OpenStore>(request, std::move(responder), service.open_store);
      case KindOf<CreateTaskToken>::kKind:
        if (service.create_task_token == nullptr) break;
        return Serve<CreateTaskToken>(request, std::move(responder),
                                      [&](const CreateTaskToken& message) {
                                        return service.create_task_token(message, request.rights);
                                      });
      default:
        break;
    }
    responder.Fail(wire::native::UnknownRequest(request.kind));
  };
}

}  // namespace lockstep::link
