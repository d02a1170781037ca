// Requests of stock JAX clients: bytes -> coordination events.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "google/protobuf/io/zero_copy_stream.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/events.h"

namespace lockstep::wire::xla {

// The calls of xla.coordination.CoordinationService.
enum class Method {
  kRegisterTask,
  kHeartbeat,
  kPollForError,
  kReportErrorToService,
  kShutdownTask,
  kWatchTasks,
  kInsertKeyValue,
  kGetKeyValue,
  kTryGetKeyValue,
  kIncrementKeyValue,
  kGetKeyValueDir,
  kDeleteKeyValue,
  kBarrier,
  kCancelBarrier,
  kGetAliveTasks,
};

// As the service calls it: "RegisterTask".
std::string_view MethodName(Method method);

// What an event needs that is not in the message.
struct CallContext {
  CallId call;
  // Only the registration looks at these.
  Time deadline = Time::Infinite();
  std::string peer;
};

// The event that the request means, or why it means none: the bytes are not such a message
// (INVALID_ARGUMENT) or hold a list longer than any job (RESOURCE_EXHAUSTED, `members_max`).
//
// Whether the values make sense (members that exist, keys that are allowed, counters) is decided by
// the machine; nothing a client can send is undefined here. Thread-safe.
std::variant<coord::Event, coord::ErrorPtr> DecodeRequest(
    Method method, google::protobuf::io::ZeroCopyInputStream* bytes, CallContext context);

}  // namespace lockstep::wire::xla
