#include "lockstep/preempt/tls_exchange.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/preempt/host.h"

namespace lockstep::preempt {
namespace {

struct FreeContext {
  void operator()(SSL_CTX* context) const { ::SSL_CTX_free(context); }
};
struct FreeSession {
  void operator()(SSL* session) const { ::SSL_free(session); }
};
using Context = std::unique_ptr<SSL_CTX, FreeContext>;
using Session = std::unique_ptr<SSL, FreeSession>;

bool IsNumber(const std::string& host) {
  return host.find(':') != std::string::npos ||
         host.find_first_not_of("0123456789.") == std::string::npos;
}

// TLS over memory: OpenSSL makes and reads the bytes, and the stream below moves them with its own
// deadline, so no handshake can last longer than the request may.
class TlsStream final : public Stream {
 public:
  static absl::StatusOr<std::unique_ptr<TlsStream>> Open(const BaseUrl& base,
                                                         const TlsOptions& options,
                                                         std::unique_ptr<Stream> below) {
    Context context(::SSL_CTX_new(::TLS_client_method()));
    if (!context) return absl::InternalError("OpenSSL cannot start");
    ::SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
    ::SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
    // Many servers end without saying so; what was read is checked by HTTP's own lengths.
    ::SSL_CTX_set_options(context.get(), SSL_OP_IGNORE_UNEXPECTED_EOF);
    if (::SSL_CTX_load_verify_locations(context.get(), options.ca_file.c_str(), nullptr) != 1) {
      ::ERR_clear_error();
      return absl::FailedPreconditionError(
          absl::StrCat("no certificates can be read from ", options.ca_file));
    }
    Session session(::SSL_new(context.get()));
    X509_VERIFY_PARAM* expected = ::SSL_get0_param(session.get());
    if (IsNumber(base.host)) {
      ::X509_VERIFY_PARAM_set1_ip_asc(expected, base.host.c_str());
    } else {
      // What SSL_set_tlsext_host_name stands for, without its cast.
      ::SSL_ctrl(session.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                 const_cast<char*>(base.host.c_str()));
      ::X509_VERIFY_PARAM_set1_host(expected, base.host.c_str(), base.host.size());
    }
    ::SSL_set_connect_state(session.get());
    ::SSL_set_bio(session.get(), ::BIO_new(::BIO_s_mem()), ::BIO_new(::BIO_s_mem()));
    auto stream = std::unique_ptr<TlsStream>(
        new TlsStream(std::move(context), std::move(session), std::move(below)));
    if (absl::Status status = stream->Handshake(); !status.ok()) return status;
    return stream;
  }

  absl::Status Write(absl::string_view bytes) override {
    size_t written = 0;
    // Memory takes everything at once.
    if (::SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &written) != 1) return Broken();
    return Flush();
  }

  absl::StatusOr<std::string> Read() override {
    for (;;) {
      std::string bytes(16 << 10, '\0');
      size_t size = 0;
      const int result = ::SSL_read_ex(session_.get(), bytes.data(), bytes.size(), &size);
      if (result == 1) {
        bytes.resize(size);
        return bytes;
      }
      const int error = ::SSL_get_error(session_.get(), result);
      if (error == SSL_ERROR_ZERO_RETURN || ended_) return std::string();
      if (error != SSL_ERROR_WANT_READ) return Broken();
      if (absl::Status status = Feed(); !status.ok()) return status;
    }
  }

 private:
  TlsStream(Context context, Session session, std::unique_ptr<Stream> below)
      : context_(std::move(context)), session_(std::move(session)), below_(std::move(below)) {}

  absl::Status Handshake() {
    for (;;) {
      const int result = ::SSL_do_handshake(session_.get());
      const int error = ::SSL_get_error(session_.get(), result);
      // An alert goes out too.
      if (absl::Status status = Flush(); !status.ok()) return status;
      if (result == 1) return absl::OkStatus();
      if (error != SSL_ERROR_WANT_READ || ended_) return Refused();
      if (absl::Status status = Feed(); !status.ok()) return status;
    }
  }

  absl::Status Refused() {
    const long verdict = ::SSL_get_verify_result(session_.get());
    ::ERR_clear_error();
    if (verdict == X509_V_OK) return absl::UnavailableError("who answers there speaks no TLS");
    return absl::UnauthenticatedError(absl::StrCat("the server's certificate is not right: ",
                                                   ::X509_verify_cert_error_string(verdict)));
  }

  static absl::Status Broken() {
    ::ERR_clear_error();
    return absl::UnavailableError("the TLS connection broke");
  }

  // What OpenSSL has for the other end.
  absl::Status Flush() {
    char bytes[16 << 10];
    BIO* out = ::SSL_get_wbio(session_.get());
    for (int n = 0; (n = ::BIO_read(out, bytes, sizeof bytes)) > 0;) {
      const absl::Status status = below_->Write({bytes, static_cast<size_t>(n)});
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // What the other end has for OpenSSL.
  absl::Status Feed() {
    if (absl::Status status = Flush(); !status.ok()) return status;
    const absl::StatusOr<std::string> bytes = below_->Read();
    if (!bytes.ok()) return bytes.status();
    BIO* in = ::SSL_get_rbio(session_.get());
    if (bytes->empty()) {
      ended_ = true;
      ::BIO_set_mem_eof_return(in, 0);
      return absl::OkStatus();
    }
    ::BIO_write(in, bytes->data(), static_cast<int>(bytes->size()));
    return absl::OkStatus();
  }

  const Context context_;
  const Session session_;
  const std::unique_ptr<Stream> below_;
  bool ended_ = false;
};

}  // namespace

HttpExchange TlsExchange(BaseUrl base, TlsOptions options) {
  return [base = std::move(base), options = std::move(options)](
             const HttpRequest& request, int interrupt) -> absl::StatusOr<HttpMessage> {
    HttpRequest with_token = request;
    if (!options.token_file.empty()) {
      const std::string token = ReadSmallFile(options.token_file);
      if (token.empty()) {
        return absl::FailedPreconditionError(
            absl::StrCat("no token can be read from ", options.token_file));
      }
      with_token.headers.emplace_back("Authorization", absl::StrCat("Bearer ", token));
    }
    absl::StatusOr<std::unique_ptr<TcpStream>> below = DialFor(base, request, interrupt);
    if (!below.ok()) return below.status();
    absl::StatusOr<std::unique_ptr<TlsStream>> stream =
        TlsStream::Open(base, options, *std::move(below));
    if (!stream.ok()) return stream.status();
    return Converse(**stream, base, with_token);
  };
}

}  // namespace lockstep::preempt
