// The side of the link that accepts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/link/kinds.h"
#include "lockstep/link/options.h"
#include "lockstep/runtime/loop.h"

namespace lockstep::link {

// What a client asks. `payload` is the encoded message that `kind` names.
struct Request {
  RequestKind kind = 0;
  std::string payload;
  std::string who;   // as the client calls itself in its hello
  std::string peer;  // HOST:PORT it calls from
};

// The duty to answer one request, exactly once. Loop-confined; may be kept for as long as the
// answer takes. After its link has gone it swallows the answer. Destroyed without an answer it
// answers INTERNAL, so that no client waits for ever.
class Responder {
 public:
  using Send = absl::AnyInvocable<void(absl::StatusOr<std::string> answer)>;

  explicit Responder(Send send) : send_(std::move(send)) {}
  Responder(Responder&& other) noexcept : send_(std::exchange(other.send_, nullptr)) {}
  Responder& operator=(Responder&&) = delete;
  ~Responder();

  // An encoded message.
  void Answer(std::string payload);
  // `status` must not be OK; give it a reason with wire::native::WithReason.
  void Fail(absl::Status status);

 private:
  Send send_;
};

// Listens, accepts links and hands their requests to a handler on the loop.
//
// Threads: loop-confined: make, use and destroy it on the loop's thread (or while the loop does not
// run). Ownership: the loop must outlive it. What the handler captured is gone after the
// destructor. Bounds: `connections_max` (one more is refused with a word why), LinkOptions.
class Server {
 public:
  using Handler = std::function<void(Request, Responder)>;

  struct Options {
    std::string listen = "127.0.0.1:7070";  // HOST:PORT; port 0 lets the system choose
    size_t connections_max = 4096;
    uint64_t service_instance = 0;  // one life of this server; told in the welcome
    LinkOptions link = {};
    // Out of descriptors or memory for a new connection: tried again after this.
    absl::Duration accept_retry = absl::Milliseconds(100);
    // Told in a sentence what an operator should know; null: not told.
    std::function<void(std::string)> notice = nullptr;
  };

  // Binds and listens; an error names the address and what to do.
  static absl::StatusOr<std::unique_ptr<Server>> Listen(runtime::Loop& loop, Options options,
                                                        Handler handler);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // The address that is bound, with the port that the system chose: "127.0.0.1:27001".
  const std::string& address() const;
  // Links that have been welcomed and are still there.
  size_t connections() const;

  // Accepts nothing more, says farewell to every link and closes it when that is written, at the
  // latest after a second; then calls `done` on the loop. Responders may still be used before that.
  void Drain(std::function<void()> done);

 private:
  class Impl;
  explicit Server(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep::link
