// The functions of OpenSSL that connections use, as a table: a program of ours fills it with those
// it is linked with, Python's extension with those of the OpenSSL that the interpreter has loaded
// anyway, or, where that has none as a shared library, of the system's. So one process never holds
// two shared ones.
//
// Only functions that OpenSSL 1.1.1 and 3 have under the same name and with the same arguments.
#pragma once

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include "absl/status/statusor.h"

// Of libssl, and of libcrypto. Macros of OpenSSL's headers (BIO_pending, SSL_CTX_set_mode, ...) are
// written as the functions that they stand for.
#define LOCKSTEP_LIBSSL_FUNCTIONS(X)  \
  X(SSL_CTX_check_private_key)        \
  X(SSL_CTX_ctrl)                     \
  X(SSL_CTX_free)                     \
  X(SSL_CTX_get_cert_store)           \
  X(SSL_CTX_get_ex_data)              \
  X(SSL_CTX_new)                      \
  X(SSL_CTX_set_alpn_protos)          \
  X(SSL_CTX_set_alpn_select_cb)       \
  X(SSL_CTX_set_cert_verify_callback) \
  X(SSL_CTX_set_ciphersuites)         \
  X(SSL_CTX_set_ex_data)              \
  X(SSL_CTX_set_num_tickets)          \
  X(SSL_CTX_set_options)              \
  X(SSL_CTX_set_verify)               \
  X(SSL_CTX_use_PrivateKey)           \
  X(SSL_CTX_use_certificate)          \
  X(SSL_do_handshake)                 \
  X(SSL_get0_alpn_selected)           \
  X(SSL_get_SSL_CTX)                  \
  X(SSL_get0_verified_chain)          \
  X(SSL_free)                         \
  X(SSL_get_error)                    \
  X(SSL_is_init_finished)             \
  X(SSL_new)                          \
  X(SSL_read)                         \
  X(SSL_set_accept_state)             \
  X(SSL_set_bio)                      \
  X(SSL_set_connect_state)            \
  X(SSL_write)                        \
  X(TLS_client_method)                \
  X(TLS_server_method)

// Of libssl; null in a library that was built without them.
#define LOCKSTEP_LIBSSL_PSK_FUNCTIONS(X) \
  X(SSL_CTX_set_psk_client_callback)     \
  X(SSL_CTX_set_psk_server_callback)

#define LOCKSTEP_LIBCRYPTO_FUNCTIONS(X) \
  X(ASN1_STRING_get0_data)              \
  X(ASN1_STRING_length)                 \
  X(BIO_ctrl)                           \
  X(BIO_free)                           \
  X(BIO_new)                            \
  X(BIO_new_mem_buf)                    \
  X(BIO_read)                           \
  X(BIO_s_mem)                          \
  X(BIO_write)                          \
  X(CRYPTO_memcmp)                      \
  X(ERR_clear_error)                    \
  X(ERR_error_string_n)                 \
  X(ERR_get_error)                      \
  X(EVP_PKEY_free)                      \
  X(EVP_sha256)                         \
  X(GENERAL_NAMES_free)                 \
  X(HMAC)                               \
  X(OPENSSL_sk_free)                    \
  X(OPENSSL_sk_new_null)                \
  X(OPENSSL_sk_num)                     \
  X(OPENSSL_sk_push)                    \
  X(OPENSSL_sk_value)                   \
  X(PEM_read_bio_PrivateKey)            \
  X(PEM_read_bio_X509)                  \
  X(X509_STORE_CTX_get0_cert)           \
  X(X509_STORE_CTX_get0_untrusted)      \
  X(X509_STORE_CTX_get0_param)          \
  X(X509_STORE_CTX_get_error)           \
  X(X509_STORE_CTX_set0_trusted_stack)  \
  X(X509_STORE_CTX_set_error)           \
  X(X509_STORE_add_cert)                \
  X(X509_VERIFY_PARAM_set1_host)        \
  X(X509_VERIFY_PARAM_set1_ip_asc)      \
  X(X509_digest)                        \
  X(X509_free)                          \
  X(X509_get_ext_d2i)                   \
  X(X509_verify_cert)                   \
  X(X509_verify_cert_error_string)

namespace lockstep::tls {

// Fields have the names of what they point to.
struct OpenSsl {
#define LOCKSTEP_DECLARE(name) decltype(&::name) name = nullptr;
  LOCKSTEP_LIBSSL_FUNCTIONS(LOCKSTEP_DECLARE)
  LOCKSTEP_LIBSSL_PSK_FUNCTIONS(LOCKSTEP_DECLARE)
  LOCKSTEP_LIBCRYPTO_FUNCTIONS(LOCKSTEP_DECLARE)
#undef LOCKSTEP_DECLARE
};

// Those this program is linked with. In a library of its own: lockstep_tls_linked.
const OpenSsl& LinkedOpenSsl();

// Those of the OpenSSL that this process has loaded, as `import ssl` does in Python. If it has
// none, as where `ssl` is linked statically, the system's is loaded, apart from all else in the
// process. FAILED_PRECONDITION: there is none either, or only one that is older than 1.1.1.
absl::StatusOr<const OpenSsl*> LoadedOpenSsl();

}  // namespace lockstep::tls
