// Certificates and private keys from their text form.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/platform/tls/openssl.h"

namespace lockstep::tls {

struct FreeCertificate {
  const OpenSsl* openssl = nullptr;
  void operator()(X509* certificate) const { openssl->X509_free(certificate); }
};
using CertificatePtr = std::unique_ptr<X509, FreeCertificate>;

struct FreeKey {
  const OpenSsl* openssl = nullptr;
  void operator()(EVP_PKEY* key) const { openssl->EVP_PKEY_free(key); }
};
using KeyPtr = std::unique_ptr<EVP_PKEY, FreeKey>;

inline constexpr size_t kPemBytesMax = size_t{1} << 20;
inline constexpr size_t kCertificatesMax = 100;

// All certificates of the text, of which there is at least one: INVALID_ARGUMENT otherwise.
absl::StatusOr<std::vector<CertificatePtr>> ReadCertificates(const OpenSsl& openssl,
                                                             const std::string& pem);
// INVALID_ARGUMENT: there is no private key in the text, or it has a passphrase. Nothing of the
// text stands in the error.
absl::StatusOr<KeyPtr> ReadKey(const OpenSsl& openssl, const std::string& pem);

}  // namespace lockstep::tls
