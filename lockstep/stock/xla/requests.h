// Requests of stock JAX clients: bytes -> coordination events.
#pragma once

#include <span>
#include <string_view>
#include <variant>

#include "google/protobuf/io/zero_copy_stream.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/events.h"
#include "lockstep/stock/wire/family.h"

namespace lockstep::wire::xla {

using stock::CallContext;

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

// As the service calls them, in the order above.
std::span<const std::string_view> MethodNames();

// See stock::Decoded. Thread-safe.
std::variant<coord::Event, coord::ErrorPtr> DecodeRequest(
    Method method, google::protobuf::io::ZeroCopyInputStream* bytes, CallContext context);

}  // namespace lockstep::wire::xla
