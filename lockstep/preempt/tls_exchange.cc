#include "lockstep/preempt/tls_exchange.h"

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "asio/ssl.hpp"
#include "lockstep/preempt/host.h"
#include "lockstep/preempt/http_converse.h"

namespace lockstep::preempt {
namespace {

using Tls = asio::ssl::stream<asio::ip::tcp::socket&>;

// Nobody is trusted but whom the file names.
absl::Status Trust(asio::ssl::context& context, const std::string& ca_file) {
  ::SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
  asio::error_code error;
  context.load_verify_file(ca_file, error);
  if (!error) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("no certificates can be read from ", ca_file));
}

absl::Status NoSuchHost(const std::string& host) {
  return absl::FailedPreconditionError(absl::StrCat("no certificate can name the host '", host,
                                                    "': use its name, or an address "
                                                    "without a scope"));
}

// The certificate must be for `host`. By OpenSSL's own check, which leaves its verdict behind for
// `Refusal`; Asio's only fails. FAILED_PRECONDITION: OpenSSL cannot look for such a host.
absl::Status Expect(Tls& tls, const std::string& host) {
  tls.set_verify_mode(asio::ssl::verify_peer);
  X509_VERIFY_PARAM* expected = ::SSL_get0_param(tls.native_handle());
  asio::error_code is_name;
  asio::ip::make_address(host, is_name);
  if (!is_name) {
    if (::X509_VERIFY_PARAM_set1_ip_asc(expected, host.c_str()) == 1) return absl::OkStatus();
    return NoSuchHost(host);
  }
  if (::X509_VERIFY_PARAM_set1_host(expected, host.c_str(), host.size()) != 1) {
    return NoSuchHost(host);
  }
  // What SSL_set_tlsext_host_name stands for, without its cast.
  ::SSL_ctrl(tls.native_handle(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
             const_cast<char*>(host.c_str()));
  return absl::OkStatus();
}

absl::Status Refusal(Tls& tls) {
  const long verdict = ::SSL_get_verify_result(tls.native_handle());
  if (verdict == X509_V_OK) return absl::UnavailableError("who answers there speaks no TLS");
  return absl::UnauthenticatedError(absl::StrCat("the server's certificate is not right: ",
                                                 ::X509_verify_cert_error_string(verdict)));
}

absl::StatusOr<HttpMessage> Exchange(const BaseUrl& base, const TlsOptions& options,
                                     const HttpRequest& request, int interrupt) {
  asio::ssl::context context(asio::ssl::context::tls_client);
  if (absl::Status status = Trust(context, options.ca_file); !status.ok()) return status;
  Connection connection(PatienceOf(request, interrupt));
  if (absl::Status status = DialFor(connection, base, request); !status.ok()) return status;

  Tls tls(connection.socket(), context);
  if (absl::Status status = Expect(tls, base.host); !status.ok()) return status;
  const auto shaken =
      connection.Run([&](auto ended) { tls.async_handshake(Tls::client, std::move(ended)); });
  if (!shaken.ok()) return shaken.status();
  if (shaken->error) return Refusal(tls);

  // Many servers end without saying so; what was read is checked by HTTP's own lengths.
  LayerStream stream(connection, tls, asio::ssl::error::stream_truncated);
  return Converse(stream, base, request);
}

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
    return Guarded([&] { return Exchange(base, options, with_token, interrupt); });
  };
}

}  // namespace lockstep::preempt
