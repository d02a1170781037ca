// One end of a TLS connection, by OpenSSL over memory: no socket, no thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/platform/runtime/secure_layer.h"
#include "lockstep/platform/tls/openssl.h"

namespace lockstep::tls {

// What is spoken above TLS, as both ends name it in the handshake (ALPN), so that no other
// protocol's server or client is taken for ours.
struct Protocol {
  const unsigned char* name;  // its length, and its letters
  unsigned int bytes;         // of both
  bool may_be_unnamed;        // by an end that knows nothing of ALPN
};
inline constexpr unsigned char kLinkName[] = "\x0alockstep/1";
inline constexpr Protocol kLinkProtocol = {kLinkName, sizeof(kLinkName) - 1, false};
inline constexpr unsigned char kHttpName[] = "\x08http/1.1";
inline constexpr Protocol kHttpProtocol = {kHttpName, sizeof(kHttpName) - 1, true};
static_assert(kLinkName[0] == kLinkProtocol.bytes - 1 && kHttpName[0] == kHttpProtocol.bytes - 1);

// Threads: thread-compatible. Bounds: as SecureLayer; what is written before the handshake is done
// is bounded by its owner, who has only a hello to say then.
class TlsLayer final : public runtime::SecureLayer {
 public:
  enum class Side { kClient, kServer };

  // `protocol` outlives it. `keeps`: lives as long as this; may be null.
  TlsLayer(const OpenSsl& openssl, SSL_CTX* context, Side side, const Protocol& protocol,
           std::shared_ptr<const void> keeps);
  ~TlsLayer() override;
  TlsLayer(const TlsLayer&) = delete;
  TlsLayer& operator=(const TlsLayer&) = delete;

  absl::Status Receive(std::string_view encrypted) override;
  absl::StatusOr<size_t> Read(absl::Span<char> room) override;
  absl::Status Write(std::string_view clear) override;
  void TakeOutput(std::string& to) override;

  bool established() const override { return established_; }
  bool ended() const override { return ended_; }
  bool certified() const override;
  std::vector<std::string> peer_uris() const override;

 private:
  absl::Status Shake();
  // Whether the ends agree on what they speak.
  bool Agrees() const;
  absl::Status Encrypt(std::string_view clear);
  // What the call that returned `result` failed with; OK: it needs more bytes.
  absl::Status Outcome(int result);

  const OpenSsl& openssl_;
  const Protocol& protocol_;
  const std::shared_ptr<const void> keeps_;
  SSL* ssl_;           // null: there was no memory
  BIO* in_ = nullptr;  // owned by ssl_, as out_
  BIO* out_ = nullptr;
  std::string early_;  // clear, until the handshake is done
  bool established_ = false;
  bool ended_ = false;
  absl::Status failed_;
};

}  // namespace lockstep::tls
