// Gives the bytes of our values to those who fetch them.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/platform/runtime/secure_layer.h"
#include "lockstep/rendezvous/messages.h"
#include "lockstep/rendezvous/transport/bulk_loop.h"
#include "lockstep/rendezvous/value.h"

namespace lockstep::transport {

// Each connection says who it is, and then asks for bytes by lease; it gets them in the order of
// asking. Of what is not lent to that member, or is beyond the value, nothing is read.
//
// Who can read our memory may ask where bytes lie instead. They are kept for him until he is done
// or his connection ends; then the proof that he looks at is erased first.
//
// Threads: confined to the bulk loop, on which `options` are called. Bounds: `sessions_max`
// connections (one more takes the place of the oldest), of each `answers_max` answers that wait and
// `places_max` values that it knows the place of.
class BulkServer : public std::enable_shared_from_this<BulkServer> {
 public:
  struct Guest {
    MemberIndex member;
    bool may_read_memory = false;  // tries to
  };
  struct Options {
    // Who said this hello, if he may fetch here.
    std::function<absl::StatusOr<Guest>(std::string_view hello)> greet;
    // The value that is lent to him; nothing when there is none.
    std::function<std::optional<rendezvous::Value>(MemberIndex, rendezvous::LeaseId)> lent;
    absl::Duration hello_timeout = absl::Seconds(5);
    size_t sessions_max = 4096;
    size_t answers_max = 64;
    size_t places_max = 64;
  };

  BulkServer(BulkLoop& loop, Options options) : loop_(loop), options_(std::move(options)) {}

  // Takes a connected socket over. `layer`: established; null: bytes go in clear.
  void Accept(int fd, std::unique_ptr<runtime::SecureLayer> layer = nullptr);
  // Ends all connections, erasing the proofs of their places first; takes no more.
  void Close();

 private:
  class Session;

  BulkLoop& loop_;
  const Options options_;
  bool closed_ = false;
  std::list<std::shared_ptr<Session>> sessions_;  // the oldest first
};

}  // namespace lockstep::transport
