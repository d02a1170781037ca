// A family of stock clients: what their service is called, how their requests become coordination
// events, and answers and errors become bytes again. The listener serves every family at one
// address.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "google/protobuf/io/zero_copy_stream.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/events.h"
#include "lockstep/stock/wire/answers.h"
#include "lockstep/stock/wire/errors.h"

namespace lockstep::wire::stock {

// What an event needs that is not in the message.
struct CallContext {
  CallId call;
  // Only the registration looks at these.
  Time deadline = Time::Infinite();
  std::string peer;
};

// What the answer to a call takes over from its request, beyond what the event carries.
struct Asked {
  std::string role;               // what the caller calls the role that has no name of its own
  std::string directory;          // of a listing
  bool first_generation = false;  // see WaitForAllTasksRequest
  std::string peer;               // the caller's connection
  ServiceIncarnation service;     // the attempt that the caller acts on
};

struct Decoded {
  // The event that the request means, or why it means none: the bytes are not such a message
  // (INVALID_ARGUMENT) or hold a list longer than any job (RESOURCE_EXHAUSTED, `members_max`).
  std::variant<coord::Event, coord::ErrorPtr> event;
  // Null where the family's answers take nothing over.
  std::unique_ptr<Asked> asked;
};

// Thread-safe: it holds nothing that changes.
class Family {
 public:
  virtual ~Family() = default;

  // "xla.coordination.CoordinationService". Lives as long as the program, as do the names below.
  virtual std::string_view service() const = 0;
  // The calls of the service: "RegisterTask". A call is meant by its place in this list.
  virtual std::span<const std::string_view> methods() const = 0;

  // Whether the values make sense (members that exist, keys that are allowed, counters) is decided
  // by the machine; nothing a client can send is undefined here.
  virtual Decoded Decode(size_t method, google::protobuf::io::ZeroCopyInputStream* bytes,
                         CallContext context) const = 0;

  // Whether requests say which attempt they mean. Where not, the listener knows it by the
  // connection and fills it in by `SetAttempt` before the machine sees the event.
  virtual bool requests_name_the_attempt() const = 0;
  // Into the event, and into `asked` (may be null). Where requests name the attempt: does nothing.
  virtual void SetAttempt(ServiceIncarnation, coord::Event&, Asked*) const {}

  // The reply message of that call.
  virtual EncodedAnswer EncodeAnswer(size_t method, const coord::Answer& answer,
                                     const Asked* asked) const = 0;
  // Code and text for the client, with the payload that its agent looks for.
  virtual EncodedError EncodeError(const coord::Error& error, const Asked* asked) const = 0;
};

}  // namespace lockstep::wire::stock
