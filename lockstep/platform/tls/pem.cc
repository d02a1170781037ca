#include "lockstep/platform/tls/pem.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "lockstep/platform/tls/errors.h"

namespace lockstep::tls {
namespace {

struct FreeBio {
  const OpenSsl* openssl = nullptr;
  void operator()(BIO* bio) const { openssl->BIO_free(bio); }
};
using BioPtr = std::unique_ptr<BIO, FreeBio>;

absl::StatusOr<BioPtr> Open(const OpenSsl& openssl, const std::string& pem) {
  if (pem.size() > kPemBytesMax) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "a PEM text of %d bytes; at most %d are read (pem_bytes_max)", pem.size(), kPemBytesMax));
  }
  BioPtr bio(openssl.BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), FreeBio{&openssl});
  if (bio == nullptr) return absl::ResourceExhaustedError("no memory for a PEM text");
  return bio;
}

// For OpenSSL, which would ask at the terminal.
int NoPassphrase(char*, int, int, void*) { return -1; }

}  // namespace

absl::StatusOr<std::vector<CertificatePtr>> ReadCertificates(const OpenSsl& openssl,
                                                             const std::string& pem) {
  auto bio = Open(openssl, pem);
  if (!bio.ok()) return bio.status();
  std::vector<CertificatePtr> certificates;
  openssl.ERR_clear_error();
  while (X509* const certificate =
             openssl.PEM_read_bio_X509(bio->get(), nullptr, &NoPassphrase, nullptr)) {
    certificates.emplace_back(certificate, FreeCertificate{&openssl});
    if (certificates.size() > kCertificatesMax) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "more than %d certificates in one PEM text (certificates_max)", kCertificatesMax));
    }
  }
  if (certificates.empty()) {
    return absl::InvalidArgumentError(TakeErrors(openssl, "no certificate in the PEM text"));
  }
  openssl.ERR_clear_error();  // the end of the text is an error to OpenSSL
  return certificates;
}

absl::StatusOr<KeyPtr> ReadKey(const OpenSsl& openssl, const std::string& pem) {
  auto bio = Open(openssl, pem);
  if (!bio.ok()) return bio.status();
  openssl.ERR_clear_error();
  KeyPtr key(openssl.PEM_read_bio_PrivateKey(bio->get(), nullptr, &NoPassphrase, nullptr),
             FreeKey{&openssl});
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        TakeErrors(openssl, "no private key without a passphrase in the PEM text"));
  }
  return key;
}

}  // namespace lockstep::tls
