#include "lockstep/rendezvous/transport/handshake.h"

#include <utility>

#include "absl/status/status.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/shared_secret.h"
#include "lockstep/rendezvous/transport/proof.h"

namespace lockstep::transport {
namespace {

// Of TLS, at a time: what comes behind the handshake stays in the layer.
constexpr size_t kReadBytes = 4096;

// Waits for a message of a known length.
class Proving : public Handshake {
 public:
  size_t wants() const override { return Due() - come_.size(); }
  absl::StatusOr<std::string> Take(std::string_view bytes) override {
    LOCKSTEP_CHECK(bytes.size() <= wants());
    come_.append(bytes);
    if (wants() > 0) return std::string();
    return TakeMessage(std::exchange(come_, {}));
  }

 protected:
  // Of the next message.
  virtual size_t Due() const = 0;
  virtual absl::StatusOr<std::string> TakeMessage(const std::string& message) = 0;

 private:
  std::string come_;
};

class TakesProof final : public Proving {
 public:
  explicit TakesProof(const std::string& secret)
      : secret_(secret),
        taker_(runtime::Secrets(), secret_, runtime::RandomBytes(kProofNumberBytes)) {}

  std::string Begin() override { return taker_.Challenge(); }
  bool done() const override { return done_; }

 protected:
  size_t Due() const override { return kProofBytes; }
  absl::StatusOr<std::string> TakeMessage(const std::string& message) override {
    auto counterproof = taker_.Take(message);
    done_ = counterproof.ok();
    return counterproof;
  }

 private:
  const std::string secret_;
  const ProofTaker taker_;
  bool done_ = false;
};

class GivesProof final : public Proving {
 public:
  explicit GivesProof(const std::string& secret)
      : secret_(secret),
        giver_(runtime::Secrets(), secret_, runtime::RandomBytes(kProofNumberBytes)) {}

  std::string Begin() override { return {}; }
  bool done() const override { return done_; }

 protected:
  size_t Due() const override { return answered_ ? kCounterproofBytes : kChallengeBytes; }
  absl::StatusOr<std::string> TakeMessage(const std::string& message) override {
    if (!std::exchange(answered_, true)) return giver_.Take(message);
    if (absl::Status proven = giver_.TakeCounterproof(message); !proven.ok()) return proven;
    done_ = true;
    return std::string();
  }

 private:
  const std::string secret_;
  ProofGiver giver_;
  bool answered_ = false;
  bool done_ = false;
};

class Encrypting final : public Handshake {
 public:
  explicit Encrypting(std::unique_ptr<runtime::SecureLayer> layer) : layer_(std::move(layer)) {}

  std::string Begin() override { return Output(); }
  size_t wants() const override { return kReadBytes; }
  absl::StatusOr<std::string> Take(std::string_view bytes) override {
    absl::Status received = layer_->Receive(bytes);
    if (!received.ok()) return received;
    return Output();
  }
  bool done() const override { return layer_->established(); }
  std::unique_ptr<runtime::SecureLayer> TakeLayer() override { return std::move(layer_); }

 private:
  std::string Output() {
    std::string output;
    layer_->TakeOutput(output);
    return output;
  }

  std::unique_ptr<runtime::SecureLayer> layer_;
};

}  // namespace

std::unique_ptr<Handshake> TakeProof(const std::string& secret) {
  return std::make_unique<TakesProof>(secret);
}

std::unique_ptr<Handshake> GiveProof(const std::string& secret) {
  return std::make_unique<GivesProof>(secret);
}

std::unique_ptr<Handshake> Encrypt(std::unique_ptr<runtime::SecureLayer> layer) {
  return std::make_unique<Encrypting>(std::move(layer));
}

}  // namespace lockstep::transport
