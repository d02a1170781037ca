// A call of a session, from the caller's request to its answer.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "lockstep/base/time.h"
#include "lockstep/platform/link/kinds.h"

namespace lockstep::client {

// Names a call for its caller; later calls have greater tickets.
using Ticket = uint64_t;

// Names a request for the server, over all links of its session; later ones are greater. 0: none.
using RequestNumber = uint64_t;

// How a request behaves, which says what becomes of it when the link breaks.
enum class CallType {
  kOpen,    // no request: answered as soon as the session is open
  kEffect,  // changes something; the server keeps its answer until it hears that we have it
  kRead,    // is answered without waiting for others, and changes nothing
  kWait,    // parks at the server, and parks again when it is sent again
  kWatch,   // the same, but the failure of the attempt does not end it
};

// Whether the server may keep the request for as long as the caller waits.
inline bool Parks(CallType type) { return type == CallType::kWait || type == CallType::kWatch; }

struct Call {
  Ticket ticket = 0;
  link::RequestKind kind = 0;
  CallType type = CallType::kRead;
  std::string payload;
  // The number of the message's field `timeout_us`, which `payload` leaves out: the time that is
  // left is put in when it is sent. 0: it has none.
  uint32_t timeout_field = 0;
  // The server gets less time than the caller, since its text knows more. Not for requests that the
  // server answers early by itself.
  bool leave_server_a_margin = true;
  Time deadline = Time::Infinite();  // then the client completes it by itself
  std::string what;                  // "barrier 'loaded'": what a time-out says that it waited for
};

struct CompletedCall {
  Ticket ticket = 0;
  absl::StatusOr<std::string> answer;
};

}  // namespace lockstep::client
