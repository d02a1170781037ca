// What the two ends of a link say to each other about the link itself. Contract:
// proto/lockstep/v1/link.proto. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/wire/native/bounds.h"
#include "lockstep/wire/native/field.h"

namespace lockstep::wire::native {

// The first frame of a client.
struct Hello {
  uint32_t version_min = 0;  // the versions of the link that the client speaks, both included
  uint32_t version_max = 0;
  uint64_t features = 0;  // bits, none defined yet; those that the server does not know are ignored
  std::string who;        // "lockstep status, pid 17 on host7": for the server's log

  friend bool operator==(const Hello&, const Hello&) = default;
  static constexpr std::string_view kName = "lockstep.v1.Hello";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "version_min", &Hello::version_min, kCheckedNumber),
                           Field(2, "version_max", &Hello::version_max, kCheckedNumber),
                           Field(3, "features", &Hello::features, kAnyNumber),
                           Field(4, "who", &Hello::who, kNameBytes));
  }
};

// The server's answer to a hello that it accepts.
struct Welcome {
  uint32_t version = 0;           // spoken from here on
  uint64_t service_instance = 0;  // one life of the server process
  uint64_t features = 0;          // those of the hello that are in use
  uint64_t message_bytes_max = 0;
  uint32_t requests_in_flight_max = 0;

  friend bool operator==(const Welcome&, const Welcome&) = default;
  static constexpr std::string_view kName = "lockstep.v1.Welcome";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "version", &Welcome::version),
                           Field(2, "service_instance", &Welcome::service_instance),
                           Field(3, "features", &Welcome::features),
                           Field(4, "message_bytes_max", &Welcome::message_bytes_max),
                           Field(5, "requests_in_flight_max", &Welcome::requests_in_flight_max));
  }
};

// The server's answer to a hello that it does not accept; the link closes after it.
struct Refused {
  std::string reason;  // stable: "version", "connection_limit", "shutting_down"
  std::string message;

  friend bool operator==(const Refused&, const Refused&) = default;
  static constexpr std::string_view kName = "lockstep.v1.Refused";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "reason", &Refused::reason),
                           Field(2, "message", &Refused::message));
  }
};

// The last frame of an end that closes the link on purpose.
struct Farewell {
  std::string reason;  // stable: "done", "shutting_down", "protocol", "silence", "slow_reader"
  std::string message;

  friend bool operator==(const Farewell&, const Farewell&) = default;
  static constexpr std::string_view kName = "lockstep.v1.Farewell";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "reason", &Farewell::reason, kNameBytes),
                           Field(2, "message", &Farewell::message, kSentenceBytes));
  }
};

// A fact about an error, for programs.
struct ErrorDetail {
  std::string name;
  std::string value;

  friend bool operator==(const ErrorDetail&, const ErrorDetail&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ErrorDetail";
  static constexpr auto Fields() {
    return std::make_tuple(Field(1, "name", &ErrorDetail::name),
                           Field(2, "value", &ErrorDetail::value));
  }
};

// The answer to a request that failed.
struct ErrorReply {
  int32_t code = 0;    // as in google.rpc.Code and absl::StatusCode; never 0
  std::string reason;  // stable (docs/errors.md); programs test it
  std::string message;
  std::vector<ErrorDetail> details;

  friend bool operator==(const ErrorReply&, const ErrorReply&) = default;
  static constexpr std::string_view kName = "lockstep.v1.ErrorReply";
  static constexpr bool kFromOurServer = true;
  static constexpr auto Fields() {
    return std::make_tuple(
        Field(1, "code", &ErrorReply::code), Field(2, "reason", &ErrorReply::reason),
        Field(3, "message", &ErrorReply::message), Field(4, "details", &ErrorReply::details));
  }
};

}  // namespace lockstep::wire::native
