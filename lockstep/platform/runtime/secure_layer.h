// What stands between a connection's bytes and its socket: TLS, in the programs that have it.
//
// An interface, so that the link needs no OpenSSL: lockstep/platform/tls implements it, and
// programs that load no OpenSSL of ours (Python's extension) still make plain connections.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lockstep/platform/runtime/address.h"

namespace lockstep::runtime {

// One end of one connection. Has no socket: takes the bytes that came, gives those that are to go.
//
// Threads: thread-compatible. Bounds: what it holds is what its owner has put in and not yet taken
// out, and about kSecureLayerBytes.
class SecureLayer {
 public:
  virtual ~SecureLayer() = default;

  // Encrypted bytes from the other end. UNAUTHENTICATED: its certificate is not accepted;
  // PERMISSION_DENIED: it does not accept ours, or refuses us otherwise; INVALID_ARGUMENT: it does
  // not speak TLS as it should. After an error only `TakeOutput` is left to do, since the other end
  // is told.
  virtual absl::Status Receive(std::string_view encrypted) = 0;
  // Of what was received, the next clear bytes; 0: there are none, or there is no room for any.
  // Errors as `Receive`.
  virtual absl::StatusOr<size_t> Read(absl::Span<char> room) = 0;
  // Clear bytes for the other end, all of them; before the handshake is done they are kept.
  virtual absl::Status Write(std::string_view clear) = 0;
  // Appends what is to go to the socket now.
  virtual void TakeOutput(std::string& to) = 0;

  virtual bool established() const = 0;  // the handshake is done
  virtual bool ended() const = 0;        // the other end said that nothing more comes
  // Of the accepting end: the other has a certificate of an authority that this one believes.
  virtual bool certified() const = 0;
  // Of a certificate that made the other end `certified`: the URIs that it holds for, as they stand
  // in it, whatever bytes those are; at most kPeerUrisMax.
  virtual std::vector<std::string> peer_uris() const = 0;
};

// Whoever goes by the URI of a certificate wants exactly one, and need not see further than to the
// second.
inline constexpr size_t kPeerUrisMax = 2;

// What one costs beside the bytes it holds, about.
inline constexpr size_t kSecureLayerBytes = size_t{40} << 10;

// The first byte of every TLS connection, a handshake record; of none of our frames.
inline constexpr char kTlsFirstByte = 0x16;

// How this process calls servers whose address has a certificate: set once, before the first call,
// by whoever has an OpenSSL. `SecureCall` fails with FAILED_PRECONDITION where nobody has. Threads:
// any, after it was set.
using MakeSecureCall =
    absl::AnyInvocable<absl::StatusOr<std::unique_ptr<SecureLayer>>(const Address& server) const>;
void SetSecureCalls(MakeSecureCall make);
absl::StatusOr<std::unique_ptr<SecureLayer>> SecureCall(const Address& server);

}  // namespace lockstep::runtime
