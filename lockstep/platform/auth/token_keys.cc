#include "lockstep/platform/auth/token_keys.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <array>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::auth {
namespace {

constexpr size_t kPublicBytes = 32;
constexpr size_t kSignatureBytes = 64;
constexpr size_t kDigestBytes = 32;
constexpr size_t kKeyNameBytes = 4;  // as hexadecimal digits, twice as many

template <auto kFree>
struct Free {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using PkeyPtr = std::unique_ptr<EVP_PKEY, Free<&::EVP_PKEY_free>>;
using BioPtr = std::unique_ptr<BIO, Free<&::BIO_free>>;
using DigestPtr = std::unique_ptr<EVP_MD_CTX, Free<&::EVP_MD_CTX_free>>;

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// The first bytes of the SHA-256 of its public half.
absl::StatusOr<std::string> NameOf(EVP_PKEY* key) {
  std::array<unsigned char, kPublicBytes> half;
  size_t bytes = half.size();
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int digest_bytes = 0;
  if (::EVP_PKEY_get_raw_public_key(key, half.data(), &bytes) != 1 ||
      ::EVP_Digest(half.data(), bytes, digest.data(), &digest_bytes, ::EVP_sha256(), nullptr) !=
          1) {
    return absl::InvalidArgumentError("a key without a public half");
  }
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), kKeyNameBytes});
}

absl::StatusOr<std::string> ToPem(EVP_PKEY* key) {
  const BioPtr bio(::BIO_new(::BIO_s_mem()));
  if (key == nullptr || bio == nullptr ||
      ::PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return absl::InternalError("no key can be made");
  }
  const char* data = nullptr;
  const long bytes = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(bytes));
}

// For OpenSSL, which would ask at the terminal.
int NoPassphrase(char*, int, int, void*) { return -1; }

}  // namespace

std::string DigestOf(std::string_view token) {
  std::string digest(kDigestBytes, '\0');
  unsigned int bytes = 0;
  LOCKSTEP_CHECK(::EVP_Digest(token.data(), token.size(),
                              reinterpret_cast<unsigned char*>(digest.data()), &bytes,
                              ::EVP_sha256(), nullptr) == 1 &&
                 bytes == kDigestBytes);
  return digest;
}

struct TokenKeys::Key {
  PkeyPtr key;
  std::string name;
};

TokenKeys::TokenKeys(std::vector<std::unique_ptr<Key>> keys) : keys_(std::move(keys)) {}
TokenKeys::TokenKeys(TokenKeys&&) noexcept = default;
TokenKeys& TokenKeys::operator=(TokenKeys&&) noexcept = default;
TokenKeys::~TokenKeys() = default;

absl::StatusOr<std::string> TokenKeys::NewKey() {
  const PkeyPtr key(::EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  return ToPem(key.get());
}

absl::StatusOr<std::string> TokenKeys::FirstOf(const std::string& pem) {
  const auto keys = Read(pem);
  if (!keys.ok()) return keys.status();
  return ToPem(keys->keys_.front()->key.get());
}

absl::StatusOr<TokenKeys> TokenKeys::Read(const std::string& pem) {
  const BioPtr bio(::BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  if (bio == nullptr) return absl::ResourceExhaustedError("no memory for keys");
  std::vector<std::unique_ptr<Key>> keys;
  while (EVP_PKEY* const read =
             ::PEM_read_bio_PrivateKey(bio.get(), nullptr, &NoPassphrase, nullptr)) {
    auto key = std::make_unique<Key>(Key{.key = PkeyPtr(read), .name = {}});
    if (::EVP_PKEY_get_id(read) != EVP_PKEY_ED25519) {
      return absl::InvalidArgumentError("a key for tokens must be an Ed25519 key");
    }
    auto name = NameOf(read);
    if (!name.ok()) return name.status();
    key->name = *std::move(name);
    keys.push_back(std::move(key));
    if (keys.size() > kKeysMax) {
      return absl::InvalidArgumentError(
          absl::StrFormat("more than %d keys for tokens (keys_max)", kKeysMax));
    }
  }
  ::ERR_clear_error();  // the end of the text is an error to OpenSSL
  if (keys.empty()) return absl::InvalidArgumentError("there is no private key");
  return TokenKeys(std::move(keys));
}

absl::StatusOr<std::string> TokenKeys::Sign(Claims claims) const {
  const Key& key = *keys_.front();
  claims.key = key.name;
  const auto text = TextToSign(claims);
  if (!text.ok()) return text.status();
  std::string signature(kSignatureBytes, '\0');
  size_t bytes = signature.size();
  const DigestPtr context(::EVP_MD_CTX_new());
  if (context == nullptr ||
      ::EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.key.get()) != 1 ||
      ::EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &bytes,
                       Bytes(*text), text->size()) != 1 ||
      bytes != signature.size()) {
    return absl::InternalError("the token cannot be signed");
  }
  std::string token = TokenText(*text, signature);
  if (token.size() > kTokenBytesMax) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "a token of %d bytes; it may have %d (token_bytes_max): the job's name is too long",
        token.size(), kTokenBytesMax));
  }
  return token;
}

absl::StatusOr<Claims> TokenKeys::Verify(std::string_view token, absl::Time now) const {
  auto parsed = ParseToken(token);
  if (!parsed.ok()) return parsed.status();
  const Key* by = nullptr;
  for (const auto& key : keys_) {
    if (key->name == parsed->claims.key) by = key.get();
  }
  if (by == nullptr) {
    return wire::native::WithReason(
        absl::UnauthenticatedError(
            "the token was signed with a key that this server does not have: the key is another "
            "server's or was rotated out; create a new token with `lockstep token create`"),
        "token_unknown_key");
  }
  const DigestPtr context(::EVP_MD_CTX_new());
  const bool right =
      context != nullptr && parsed->signature.size() == kSignatureBytes &&
      ::EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, by->key.get()) == 1 &&
      ::EVP_DigestVerify(context.get(), Bytes(parsed->signature), parsed->signature.size(),
                         Bytes(parsed->signed_text), parsed->signed_text.size()) == 1;
  ::ERR_clear_error();
  if (!right) {
    return wire::native::WithReason(
        absl::UnauthenticatedError(
            "the token's signature is invalid: create a new token with `lockstep token create`"),
        "token_invalid");
  }
  if (now > parsed->claims.until + kClockTolerance) {
    return wire::native::WithReason(
        absl::UnauthenticatedError(absl::StrCat(
            "the token was valid until ",
            absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", parsed->claims.until, absl::UTCTimeZone()),
            "; create a new one with `lockstep token create`")),
        "token_expired");
  }
  return std::move(parsed->claims);
}

}  // namespace lockstep::auth
