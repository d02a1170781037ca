#include "lockstep/platform/tls/certificates.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <array>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "asio/ip/address.hpp"
#include "lockstep/platform/tls/errors.h"
#include "lockstep/platform/tls/pem.h"

namespace lockstep::tls {
namespace {

constexpr size_t kNamesMax = 100;
constexpr size_t kNameBytesMax = 255;
constexpr int kSerialBytes = 16;

template <auto kFree>
struct Free {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using BioPtr = std::unique_ptr<BIO, Free<&::BIO_free>>;
using ExtensionPtr = std::unique_ptr<X509_EXTENSION, Free<&::X509_EXTENSION_free>>;
using BigNumberPtr = std::unique_ptr<BIGNUM, Free<&::BN_free>>;

absl::Status Failed(const std::string& what) {
  return absl::InternalError(TakeErrors(LinkedOpenSsl(), what));
}

std::string TextOf(BIO* bio) {
  const char* data = nullptr;
  const long bytes = BIO_get_mem_data(bio, &data);
  return bytes <= 0 ? std::string() : std::string(data, static_cast<size_t>(bytes));
}

absl::StatusOr<std::string> ToPem(X509* certificate) {
  const BioPtr bio(::BIO_new(::BIO_s_mem()));
  if (bio == nullptr || ::PEM_write_bio_X509(bio.get(), certificate) != 1) {
    return Failed("a certificate cannot be written");
  }
  return TextOf(bio.get());
}

absl::StatusOr<std::string> ToPem(EVP_PKEY* key) {
  const BioPtr bio(::BIO_new(::BIO_s_mem()));
  if (bio == nullptr ||
      ::PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return Failed("a private key cannot be written");
  }
  return TextOf(bio.get());
}

// What it holds for goes into a text of OpenSSL's, with signs of its own.
absl::Status CheckName(const std::string& name) {
  constexpr std::string_view kSigns = "-._:/*";
  for (const char sign : name) {
    const bool letter = (sign >= 'a' && sign <= 'z') || (sign >= 'A' && sign <= 'Z') ||
                        (sign >= '0' && sign <= '9');
    if (letter || kSigns.find(sign) != std::string_view::npos) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("'", absl::CHexEscape(name), "' is not a host name, IP address or URI"));
  }
  if (!name.empty() && name.size() <= kNameBytesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a name must have 1 to ", kNameBytesMax, " bytes"));
}

absl::StatusOr<std::string> AlternativeNames(const std::vector<std::string>& names) {
  if (names.size() > kNamesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("a certificate can have at most ", kNamesMax, " names"));
  }
  std::vector<std::string> parts;
  for (const std::string& name : names) {
    if (absl::Status status = CheckName(name); !status.ok()) return status;
    asio::error_code is_name;
    asio::ip::make_address(name, is_name);
    const char* const kind = absl::StrContains(name, "://") ? "URI:" : is_name ? "DNS:" : "IP:";
    parts.push_back(absl::StrCat(kind, name));
  }
  return absl::StrJoin(parts, ",");
}

// A certificate in the making.
class Draft {
 public:
  Draft() : certificate_(::X509_new()), key_(::EVP_EC_gen("P-256")) {}
  ~Draft() {
    ::X509_free(certificate_);
    ::EVP_PKEY_free(key_);
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  absl::Status Fill(const CertificateOptions& options) {
    if (certificate_ == nullptr || key_ == nullptr) return Failed("no key can be made");
    ::X509_set_version(certificate_, X509_VERSION_3);
    ::X509_set_pubkey(certificate_, key_);
    if (absl::Status status = SetSerial(); !status.ok()) return status;
    ::ASN1_TIME_set(::X509_getm_notBefore(certificate_), absl::ToTimeT(options.from));
    ::ASN1_TIME_set(::X509_getm_notAfter(certificate_), absl::ToTimeT(options.until));
    if (::X509_NAME_add_entry_by_txt(::X509_get_subject_name(certificate_), "CN", MBSTRING_UTF8,
                                     reinterpret_cast<const unsigned char*>(options.name.c_str()),
                                     -1, -1, 0) != 1) {
      return absl::InvalidArgumentError(
          TakeErrors(LinkedOpenSsl(), absl::StrCat("the name '", options.name, "'")));
    }
    auto names = AlternativeNames(options.holds_for);
    if (!names.ok()) return names.status();
    return names->empty() ? absl::OkStatus() : Extend(nullptr, NID_subject_alt_name, *names);
  }

  absl::Status Extend(X509* issuer, int kind, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer == nullptr ? certificate_ : issuer, certificate_, nullptr,
                   nullptr, 0);
    const ExtensionPtr extension(::X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
    if (extension == nullptr || ::X509_add_ext(certificate_, extension.get(), -1) != 1) {
      return Failed(absl::StrCat("the extension '", value, "'"));
    }
    return absl::OkStatus();
  }

  // Null: by itself. Returns what was made.
  absl::StatusOr<Identity> Sign(X509* issuer, EVP_PKEY* issuer_key) {
    ::X509_set_issuer_name(certificate_,
                           ::X509_get_subject_name(issuer == nullptr ? certificate_ : issuer));
    if (::X509_sign(certificate_, issuer_key == nullptr ? key_ : issuer_key, ::EVP_sha256()) == 0) {
      return Failed("a certificate cannot be signed");
    }
    auto certificate = ToPem(certificate_);
    if (!certificate.ok()) return certificate.status();
    auto key = ToPem(key_);
    if (!key.ok()) return key.status();
    return Identity{.certificates = *std::move(certificate), .key = *std::move(key)};
  }

 private:
  absl::Status SetSerial() {
    std::array<unsigned char, kSerialBytes> bytes;
    if (::RAND_bytes(bytes.data(), bytes.size()) != 1) return Failed("no random number");
    bytes[0] = static_cast<unsigned char>((bytes[0] & 0x7f) | 0x40);  // positive, of full length
    const BigNumberPtr number(::BN_bin2bn(bytes.data(), bytes.size(), nullptr));
    if (number == nullptr ||
        ::BN_to_ASN1_INTEGER(number.get(), ::X509_get_serialNumber(certificate_)) == nullptr) {
      return Failed("no serial number");
    }
    return absl::OkStatus();
  }

  X509* certificate_;
  EVP_PKEY* key_;
};

struct Extension {
  int kind;
  const char* value;
};
constexpr std::array kOfAuthority = {Extension{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                                     Extension{NID_key_usage, "critical,keyCertSign,cRLSign"},
                                     Extension{NID_subject_key_identifier, "hash"}};
constexpr std::array kOfEnds = {Extension{NID_basic_constraints, "critical,CA:FALSE"},
                                Extension{NID_key_usage, "critical,digitalSignature"},
                                Extension{NID_subject_key_identifier, "hash"}};

template <size_t kCount>
absl::Status Extend(Draft& draft, const std::array<Extension, kCount>& extensions) {
  for (const Extension& extension : extensions) {
    absl::Status status = draft.Extend(nullptr, extension.kind, extension.value);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FingerprintOf(X509* certificate) {
  std::array<unsigned char, 32> digest;
  unsigned int bytes = 0;
  if (::X509_digest(certificate, ::EVP_sha256(), digest.data(), &bytes) != 1 ||
      bytes != digest.size()) {
    return Failed("no fingerprint");
  }
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

}  // namespace

absl::StatusOr<Identity> MakeSelfSigned(const CertificateOptions& options) {
  Draft draft;
  if (absl::Status status = draft.Fill(options); !status.ok()) return status;
  if (absl::Status status = Extend(draft, kOfEnds); !status.ok()) return status;
  absl::Status status = draft.Extend(nullptr, NID_ext_key_usage, "serverAuth,clientAuth");
  if (!status.ok()) return status;
  return draft.Sign(nullptr, nullptr);
}

absl::StatusOr<Identity> MakeAuthority(const CertificateOptions& options) {
  Draft draft;
  if (absl::Status status = draft.Fill(options); !status.ok()) return status;
  if (absl::Status status = Extend(draft, kOfAuthority); !status.ok()) return status;
  return draft.Sign(nullptr, nullptr);
}

absl::StatusOr<Identity> MakeSigned(const CertificateOptions& options, UsedBy by,
                                    const Identity& authority) {
  auto issuers = ReadCertificates(LinkedOpenSsl(), authority.certificates);
  if (!issuers.ok()) return issuers.status();
  auto issuer_key = ReadKey(LinkedOpenSsl(), authority.key);
  if (!issuer_key.ok()) return issuer_key.status();
  X509* const issuer = issuers->front().get();

  Draft draft;
  if (absl::Status status = draft.Fill(options); !status.ok()) return status;
  if (absl::Status status = Extend(draft, kOfEnds); !status.ok()) return status;
  absl::Status status =
      draft.Extend(nullptr, NID_ext_key_usage, by == UsedBy::kServer ? "serverAuth" : "clientAuth");
  if (!status.ok()) return status;
  status = draft.Extend(issuer, NID_authority_key_identifier, "keyid:always");
  if (!status.ok()) return status;
  auto made = draft.Sign(issuer, issuer_key->get());
  if (made.ok()) made->certificates += authority.certificates;
  return made;
}

absl::StatusOr<std::string> FingerprintOf(const std::string& certificates) {
  auto read = ReadCertificates(LinkedOpenSsl(), certificates);
  return read.ok() ? FingerprintOf(read->front().get()) : read.status();
}

absl::StatusOr<std::string> FingerprintOfLast(const std::string& certificates) {
  auto read = ReadCertificates(LinkedOpenSsl(), certificates);
  return read.ok() ? FingerprintOf(read->back().get()) : read.status();
}

}  // namespace lockstep::tls
