// Requests of the older stock clients: bytes -> coordination events.
#pragma once

#include <span>
#include <string_view>

#include "google/protobuf/io/zero_copy_stream.h"
#include "lockstep/base/ids.h"
#include "lockstep/coord/events.h"
#include "lockstep/stock/tensorflow/roles.h"
#include "lockstep/stock/wire/family.h"

namespace lockstep::wire::tensorflow {

using stock::CallContext;

// The calls of tensorflow.CoordinationService.
enum class Method {
  kRegisterTask,
  kHeartbeat,
  kWaitForAllTasks,
  kShutdownTask,
  kResetTask,
  kReportErrorToTask,
  kReportErrorToService,
  kGetTaskState,
  kWatchJobState,
  kInsertKeyValue,
  kGetKeyValue,
  kTryGetKeyValue,
  kIncrementKeyValue,
  kGetKeyValueDir,
  kDeleteKeyValue,
  kBarrier,
  kCancelBarrier,
  kGetAliveTasks,
  kPollForError,
};

// As the service calls them, in the order above.
std::span<const std::string_view> MethodNames();

// See stock::Decoded; `asked` is set for every event. Thread-safe.
stock::Decoded DecodeRequest(Method method, const Roles& roles,
                             google::protobuf::io::ZeroCopyInputStream* bytes, CallContext context);

// Fills in which attempt the request is meant for, which these clients do not say.
void SetAttempt(ServiceIncarnation service, coord::Event& event, stock::Asked* asked);

}  // namespace lockstep::wire::tensorflow
