// The side of the link that calls, for programs that may block: one call after the other.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/platform/link/kinds.h"
#include "lockstep/platform/link/options.h"
#include "lockstep/wire/native/codec.h"

namespace lockstep::link {

// One link to a server, used from one thread, which does the link's work only inside `Connect` and
// `Call`: a client that is left alone for LinkOptions::silence_timeout loses its link.
//
// Errors that did not come from the server's handler: UNAVAILABLE (nobody listens, none of the
// servers leads, the link broke; the request may or may not have taken effect), DEADLINE_EXCEEDED,
// FAILED_PRECONDITION (refused).
class Client {
 public:
  struct Options {
    std::string who = "lockstep client";  // pid and host are added
    LinkOptions link = {};
  };

  // Connects and is welcomed within `timeout`, by the one of the servers that leads. `address`: as
  // Servers::Read takes it.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& address,
                                                         absl::Duration timeout, Options options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // HOST:PORT of the server at the other end.
  const std::string& server() const;

  // Sends a request of this kind and waits for its answer, no longer than `timeout`.
  absl::StatusOr<std::string> CallRaw(RequestKind kind, std::string payload,
                                      absl::Duration timeout);

  // As `CallRaw`; or why the bytes of the answer are not the reply to this message.
  template <class RequestMessage>
  absl::StatusOr<typename KindOf<RequestMessage>::Reply> Call(const RequestMessage& request,
                                                              absl::Duration timeout) {
    auto answer = CallRaw(KindOf<RequestMessage>::kKind, wire::native::Encode(request), timeout);
    if (!answer.ok()) return answer.status();
    return wire::native::Decode<typename KindOf<RequestMessage>::Reply>(*answer);
  }

 private:
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::link
