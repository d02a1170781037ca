#include "fuzz/handshake_fuzzer.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "fuzz/input_reader.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/shared_secret.h"
#include "lockstep/platform/tls/openssl.h"
#include "lockstep/platform/tls/secrets.h"
#include "lockstep/rendezvous/transport/handshake.h"
#include "lockstep/rendezvous/transport/proof.h"

namespace lockstep::fuzz {
namespace {

using transport::kChallengeBytes;
using transport::kCounterproofBytes;
using transport::kProofBytes;
using transport::kProofMagic;
using transport::kProofNumberBytes;

enum class Side { kTakes, kGives };

// What the protocol says that a hash is, made by OpenSSL alone.
std::string Hash(const std::string& secret, std::string_view who, std::string_view listens,
                 std::string_view dials) {
  const std::string text = std::string(who).append(listens).append(dials);
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash;
  unsigned int size = 0;
  LOCKSTEP_CHECK(::HMAC(::EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                        reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                        hash.data(), &size) != nullptr);
  return {reinterpret_cast<const char*>(hash.data()), size};
}
std::string HashOfDials(const std::string& secret, std::string_view a, std::string_view b) {
  return Hash(secret, "lockstep proof 1 dials", a, b);
}
std::string HashOfListens(const std::string& secret, std::string_view a, std::string_view b) {
  return Hash(secret, "lockstep proof 1 listens", a, b);
}

std::unique_ptr<transport::Handshake> MakeHandshake(Side side, const std::string& secret) {
  [[maybe_unused]] static const bool once = [] {
    runtime::SetSharedSecrets(tls::MakeSharedSecrets([] { return &tls::LinkedOpenSsl(); }));
    return true;
  }();
  return side == Side::kTakes ? transport::TakeProof(secret) : transport::GiveProof(secret);
}

// An end, and whether it does what the protocol says with each message that it has whole.
class End {
 public:
  End(Side side, std::string secret)
      : side_(side), secret_(std::move(secret)), handshake_(MakeHandshake(side, secret_)) {
    Say(handshake_->Begin());
    LOCKSTEP_CHECK(said_.size() == (side == Side::kTakes ? kChallengeBytes : 0));
    LOCKSTEP_CHECK(said_.starts_with(side == Side::kTakes ? kProofMagic : ""));
    LOCKSTEP_CHECK(!done());
  }

  Side side() const { return side_; }
  const std::string& secret() const { return secret_; }
  bool done() const { return handshake_->done(); }
  const std::string& said() const { return said_; }
  const std::string& heard() const { return heard_; }

  // As who reads from a socket does; 0: pieces as large as it wants them. Returns how many it took.
  size_t Receive(std::string_view bytes, size_t piece) {
    size_t taken = 0;
    while (!done() && !failed_ && taken < bytes.size()) {
      const std::string_view next = bytes.substr(taken, piece > 0 ? piece : bytes.size());
      taken += TakeSome(next);
    }
    return taken;
  }

 private:
  size_t TakeSome(std::string_view bytes) {
    const size_t wants = handshake_->wants();
    LOCKSTEP_CHECK(wants > 0 && message_.size() + wants == Due());
    bytes = bytes.substr(0, wants);
    const auto answer = handshake_->Take(bytes);
    heard_.append(bytes);
    message_.append(bytes);
    if (bytes.size() < wants) {
      LOCKSTEP_CHECK(answer.ok() && answer->empty() && !done());
      LOCKSTEP_CHECK(handshake_->wants() == wants - bytes.size());
      return bytes.size();
    }
    failed_ = !answer.ok();
    if (side_ == Side::kTakes) {
      CheckTaken(answer);
    } else if (said_.empty()) {
      CheckGiven(answer);
    } else {
      CheckCounterproof(answer);
    }
    if (answer.ok()) Say(*answer);
    message_.clear();
    if (done()) LOCKSTEP_CHECK(handshake_->TakeLayer() == nullptr);
    return bytes.size();
  }

  size_t Due() const {
    if (side_ == Side::kTakes) return kProofBytes;
    return said_.empty() ? kChallengeBytes : kCounterproofBytes;
  }

  void CheckTaken(const absl::StatusOr<std::string>& answer) const {
    const std::string a = said_.substr(kProofMagic.size());
    const std::string b = message_.substr(0, kProofNumberBytes);
    const bool real = message_.substr(kProofNumberBytes) == HashOfDials(secret_, a, b);
    LOCKSTEP_CHECK(answer.ok() == real && done() == real);
    if (real) LOCKSTEP_CHECK(*answer == HashOfListens(secret_, a, b));
    if (!real) LOCKSTEP_CHECK(absl::IsPermissionDenied(answer.status()));
  }
  void CheckGiven(const absl::StatusOr<std::string>& answer) const {
    const bool real = message_.starts_with(kProofMagic);
    LOCKSTEP_CHECK(answer.ok() == real && !done());
    if (!real) {
      LOCKSTEP_CHECK(absl::IsInvalidArgument(answer.status()));
      return;
    }
    LOCKSTEP_CHECK(answer->size() == kProofBytes);
    const std::string a = message_.substr(kProofMagic.size());
    const std::string b = answer->substr(0, kProofNumberBytes);
    LOCKSTEP_CHECK(answer->substr(kProofNumberBytes) == HashOfDials(secret_, a, b));
  }
  void CheckCounterproof(const absl::StatusOr<std::string>& answer) const {
    const std::string a = heard_.substr(kProofMagic.size(), kProofNumberBytes);
    const std::string b = said_.substr(0, kProofNumberBytes);
    const bool real = message_ == HashOfListens(secret_, a, b);
    LOCKSTEP_CHECK(answer.ok() == real && done() == real);
    if (real) LOCKSTEP_CHECK(answer->empty());
    if (!real) LOCKSTEP_CHECK(absl::IsPermissionDenied(answer.status()));
  }

  void Say(const std::string& bytes) {
    said_ += bytes;
    LOCKSTEP_CHECK(said_.find(secret_) == std::string::npos);
  }

  const Side side_;
  const std::string secret_;
  const std::unique_ptr<transport::Handshake> handshake_;
  std::string said_;
  std::string heard_;
  std::string message_;  // the part of the next one that came
  bool failed_ = false;
};

// What no bytes bring about without who knows the secret: a taker believes a giver that has
// answered its very challenge, and a giver the taker that has believed it.
void CheckBelief(const End& end, const std::array<End, 6>& ends) {
  if (!end.done()) return;
  LOCKSTEP_CHECK(std::any_of(ends.begin(), ends.end(), [&](const End& other) {
    if (other.side() == end.side() || other.secret() != end.secret()) return false;
    const End& taker = end.side() == Side::kTakes ? end : other;
    const End& giver = end.side() == Side::kTakes ? other : end;
    // Of a giver that does not believe it, what it heard last may be anything.
    const size_t heard = end.side() == Side::kTakes ? kChallengeBytes : std::string::npos;
    return taker.done() && taker.heard() == giver.said() &&
           taker.said().substr(0, heard) == giver.heard().substr(0, heard);
  }));
}

enum Act : size_t {
  kCarry,   // what one has said to another, as far as it was not carried yet
  kChange,  // the same with a bit of it flipped
  kRepeat,  // a part of all that one has said
  kInvent,  // bytes of the input
  kActs,
};

constexpr size_t kTaker = 0;
constexpr size_t kGiver = 1;

void Meddle(InputReader& acts, size_t piece, std::array<End, 6>& ends) {
  std::array<std::array<size_t, 6>, 6> carried = {};
  while (!acts.done()) {
    const size_t first = acts.Byte();
    const size_t to = first / kActs % ends.size();
    const size_t act = first % kActs;
    if (act == kInvent) {
      ends[to].Receive(acts.Take(acts.Byte()), piece);
      continue;
    }
    const size_t from = acts.Byte() % ends.size();
    std::string bytes = ends[from].said();
    if (act == kRepeat) {
      bytes.erase(0, acts.Byte());
      const size_t count = acts.Byte();
      if (count > 0) bytes.resize(std::min(bytes.size(), count));
    } else {
      bytes.erase(0, std::exchange(carried[from][to], bytes.size()));
    }
    if (act == kChange) {
      const size_t at = acts.Byte();
      const size_t bit = acts.Byte() % 8;
      if (!bytes.empty()) bytes[at % bytes.size()] ^= static_cast<char>(1 << bit);
    }
    ends[to].Receive(bytes, piece);
  }
}

// Whatever the pieces are, and what follows stays where it is.
void CheckTwoMembersAgree(const std::string& secret, size_t piece) {
  const std::string rest = "what follows";
  End taker(Side::kTakes, secret);
  End giver(Side::kGives, secret);
  LOCKSTEP_CHECK(giver.Receive(taker.said(), piece) == kChallengeBytes);
  LOCKSTEP_CHECK(taker.Receive(giver.said() + rest, piece) == kProofBytes);
  LOCKSTEP_CHECK(giver.Receive(taker.said().substr(kChallengeBytes) + rest, piece) ==
                 kCounterproofBytes);
  LOCKSTEP_CHECK(taker.done() && giver.done());
}

}  // namespace

HandshakeOutcome DriveHandshake(std::string_view bytes) {
  static const std::string secret = "the secret of the card, 32 bytes";
  static const std::string another = "the secret of a card of another.";
  InputReader acts(bytes);
  const size_t piece = acts.Byte();
  CheckTwoMembersAgree(secret, piece);
  // Two connections of one attempt at the same time, and one of strangers.
  std::array<End, 6> ends = {End(Side::kTakes, secret),  End(Side::kGives, secret),
                             End(Side::kTakes, secret),  End(Side::kGives, secret),
                             End(Side::kTakes, another), End(Side::kGives, another)};
  Meddle(acts, piece, ends);
  for (const End& end : ends) CheckBelief(end, ends);
  return {.taker_done = ends[kTaker].done(), .giver_done = ends[kGiver].done()};
}

std::string RealHandshake() {
  const auto carry = [](size_t from, size_t to) {
    return std::string({static_cast<char>(to * kActs + kCarry), static_cast<char>(from)});
  };
  return std::string(1, '\0') + carry(kTaker, kGiver) + carry(kGiver, kTaker) +
         carry(kTaker, kGiver);
}

}  // namespace lockstep::fuzz
