#include "lockstep/hosts/net/seal.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <cstring>

#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/host.h"

namespace lockstep::hosts {
namespace {

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::array<char, kProofBytes> ProofOf(const Secret& secret, std::string_view signed_bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  const unsigned char* const made =
      ::HMAC(::EVP_sha256(), secret.bytes.data(), static_cast<int>(secret.bytes.size()),
             Bytes(signed_bytes), signed_bytes.size(), digest.data(), &size);
  LOCKSTEP_CHECK(made != nullptr && size >= kProofBytes);
  std::array<char, kProofBytes> proof;
  std::memcpy(proof.data(), digest.data(), proof.size());
  return proof;
}

}  // namespace

Secret Secret::Draw() {
  return {.key = static_cast<uint32_t>(runtime::RandomNumber()),
          .bytes = runtime::RandomBytes(kBytes)};
}

std::string Seal(const Secret& secret, const Packet& packet) {
  std::string datagram;
  for (size_t i = 0; i < kKeyBytes; ++i) {
    datagram.push_back(static_cast<char>(secret.key >> (8 * i)));
  }
  datagram += Encode(packet);
  const auto proof = ProofOf(secret, datagram);
  datagram.append(proof.data(), proof.size());
  LOCKSTEP_DCHECK(datagram.size() <= kDatagramBytesMax);
  return datagram;
}

std::optional<uint32_t> KeyOf(std::string_view datagram) {
  if (datagram.size() <= kKeyBytes + kProofBytes || datagram.size() > kDatagramBytesMax) {
    return std::nullopt;
  }
  uint32_t key = 0;
  for (size_t i = 0; i < kKeyBytes; ++i) {
    key |= uint32_t{static_cast<uint8_t>(datagram[i])} << (8 * i);
  }
  return key;
}

std::optional<Packet> Unseal(const Secret& secret, std::string_view datagram) {
  const auto key = KeyOf(datagram);
  if (!key || *key != secret.key) return std::nullopt;
  const std::string_view proof = datagram.substr(datagram.size() - kProofBytes);
  datagram.remove_suffix(kProofBytes);
  const auto right = ProofOf(secret, datagram);
  if (::CRYPTO_memcmp(right.data(), proof.data(), proof.size()) != 0) return std::nullopt;
  return Decode(datagram.substr(kKeyBytes));
}

}  // namespace lockstep::hosts
