// What a request that travels over a link is, besides its message: which kind, who answers it, and
// with what. The requests themselves: kinds.h, which is made of proto/lockstep. Pure.
#pragma once

#include <cstdint>

#include "lockstep/wire/native/field.h"

namespace lockstep::wire::native {

// A contract (docs/formats/link.md): a number is never used again.
using RequestKind = uint32_t;

// Who answers a request: proto/lockstep/options.proto says what each means.
enum class Route { kUnspecified, kServer, kLaunchers, kSession, kDispatcher, kWorker, kStock };

// What a caller may be: proto/lockstep/options.proto says what each means.
enum class Role { kUnspecified, kObserve, kTask, kLaunch, kWork, kOperate };

template <RequestKind kNumber, Route kAnsweredBy, class ReplyMessage, class RequestMessage>
struct Kind {
  static constexpr RequestKind kKind = kNumber;
  static constexpr Route kRoute = kAnsweredBy;
  using Reply = ReplyMessage;
};

// The kind of a request.
template <class RequestMessage>
struct KindOf;

// The answer is no message of fields (data_chunk.h).
struct RawReply {};

// A list of requests.
template <class... RequestMessages>
struct Requests {};

}  // namespace lockstep::wire::native
