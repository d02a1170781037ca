// Errors to stock clients: a coordination error -> status and trailing metadata.
//
// A stock agent decides between "the service says no" and "the connection failed" by one key in the
// payloads, takes its next barrier counter from a second one and learns from a third that it talks
// to another service than it registered with.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "lockstep/coord/error.h"

namespace lockstep::wire::stock {

// Trailing metadata under which programs find the stable name of the reason.
inline constexpr std::string_view kReasonMetadata = "lockstep-reason";

// Payload names. They stay in the package `tensorflow` in both families of clients.
inline constexpr std::string_view kServiceErrorUrl =
    "type.googleapis.com/tensorflow.CoordinationServiceError";
inline constexpr std::string_view kBarrierErrorUrl = "type.googleapis.com/tensorflow.BarrierError";
inline constexpr std::string_view kServiceMismatchUrl =
    "type.googleapis.com/tensorflow.ServiceMismatchError";

// What goes out instead of an answer.
struct EncodedError {
  absl::StatusCode code = absl::StatusCode::kUnknown;
  std::string message;  // at most kErrorTextBytesMax
  std::string details;  // of `grpc-status-details-bin`; empty: no payloads
  std::string reason;   // of kReasonMetadata
};

// `service_error`: the family's CoordinationServiceError of this error, for errors `from_service`;
// the other payloads are the same in both families. The same error gives the same bytes.
// Thread-safe.
EncodedError EncodeError(const coord::Error& error, std::string service_error);

// Text cut to kErrorTextBytesMax, the end replaced by a mark that says so.
std::string CutErrorText(std::string text);

}  // namespace lockstep::wire::stock
