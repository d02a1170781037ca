// What two members say on a new connection before anything else, whichever way they prove that they
// know the secret of the card.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "lockstep/platform/runtime/secure_layer.h"

namespace lockstep::transport {

// One end of one connection. Has no socket: takes the bytes that came, gives those that are to go.
//
// Threads: thread-compatible. Bounds: `wants()`, and what SecureLayer holds.
class Handshake {
 public:
  virtual ~Handshake() = default;

  // What to send first; perhaps nothing.
  virtual std::string Begin() = 0;
  // So many bytes may be read now, and no more: the next ones are for others. Never 0 before it is
  // done.
  virtual size_t wants() const = 0;
  // Some of them came; returns what to send. An error: the other end does not know the secret, or
  // this one cannot tell.
  virtual absl::StatusOr<std::string> Take(std::string_view bytes) = 0;
  // Both ends know that both have the secret.
  virtual bool done() const = 0;
  // Through which all further bytes go; null: they go as they are.
  virtual std::unique_ptr<runtime::SecureLayer> TakeLayer() { return nullptr; }
};

// By ProofTaker and ProofGiver: what follows goes in clear.
std::unique_ptr<Handshake> TakeProof(const std::string& secret);
std::unique_ptr<Handshake> GiveProof(const std::string& secret);
// By TLS of that end of runtime::SharedSecrets: what follows is encrypted.
std::unique_ptr<Handshake> Encrypt(std::unique_ptr<runtime::SecureLayer> layer);

}  // namespace lockstep::transport
