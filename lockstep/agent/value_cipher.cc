#include "lockstep/agent/value_cipher.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::agent {
namespace {

constexpr size_t kNonceBytes = 12;

using Context = std::unique_ptr<EVP_CIPHER_CTX, decltype(&::EVP_CIPHER_CTX_free)>;

unsigned char* Bytes(char* text) { return reinterpret_cast<unsigned char*>(text); }
const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

void AppendNumber(uint64_t number, std::string& out) {
  for (size_t i = 0; i < sizeof(number); ++i) {
    out.push_back(static_cast<char>(number & 0xff));
    number >>= 8;
  }
}

// OpenSSL fails at these for want of memory only.
void Must(int done) { LOCKSTEP_CHECK(done == 1); }

Context Begin(const std::string& key, size_t chunk, std::string_view proven, bool seals) {
  std::string nonce;
  AppendNumber(chunk, nonce);
  nonce.resize(kNonceBytes, '\0');
  Context context(::EVP_CIPHER_CTX_new(), &::EVP_CIPHER_CTX_free);
  LOCKSTEP_CHECK(context != nullptr);
  Must(::EVP_CipherInit_ex(context.get(), ::EVP_aes_256_gcm(), nullptr, Bytes(key), Bytes(nonce),
                           seals ? 1 : 0));
  int length = 0;
  Must(::EVP_CipherUpdate(context.get(), nullptr, &length, Bytes(proven),
                          static_cast<int>(proven.size())));
  return context;
}

}  // namespace

ValueCipher::ValueCipher(std::string key, std::string_view ticket, size_t size)
    : key_(std::move(key)), size_(size), proven_([&] {
        std::string proven(ticket);
        AppendNumber(size, proven);
        return proven;
      }()) {
  LOCKSTEP_CHECK(key_.size() == kKeyBytes);
}

size_t ValueCipher::ChunkBytes(size_t chunk) const {
  LOCKSTEP_DCHECK(chunk < chunks());
  return std::min(kChunkBytes, size_ - chunk * kChunkBytes);
}

std::string ValueCipher::Seal(size_t chunk, std::string_view bytes) const {
  LOCKSTEP_DCHECK(bytes.size() == ChunkBytes(chunk));
  const Context context = Begin(key_, chunk, proven_, /*seals=*/true);
  std::string sealed(bytes.size() + kTagBytes, '\0');
  int length = 0;
  Must(::EVP_CipherUpdate(context.get(), Bytes(sealed.data()), &length, Bytes(bytes),
                          static_cast<int>(bytes.size())));
  Must(::EVP_CipherFinal_ex(context.get(), Bytes(sealed.data() + bytes.size()), &length));
  Must(::EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, static_cast<int>(kTagBytes),
                             sealed.data() + bytes.size()));
  return sealed;
}

std::optional<std::string> ValueCipher::Open(size_t chunk, std::string_view sealed) const {
  if (chunk >= chunks() || sealed.size() != ChunkBytes(chunk) + kTagBytes) return std::nullopt;
  const Context context = Begin(key_, chunk, proven_, /*seals=*/false);
  const size_t size = sealed.size() - kTagBytes;
  std::string bytes(size, '\0');
  std::array<char, kTagBytes> tag;
  std::copy(sealed.begin() + static_cast<ptrdiff_t>(size), sealed.end(), tag.begin());
  int length = 0;
  Must(::EVP_CipherUpdate(context.get(), Bytes(bytes.data()), &length, Bytes(sealed),
                          static_cast<int>(size)));
  Must(::EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, static_cast<int>(kTagBytes),
                             tag.data()));
  unsigned char none = 0;
  if (::EVP_CipherFinal_ex(context.get(), &none, &length) != 1) return std::nullopt;
  return bytes;
}

}  // namespace lockstep::agent
