#include "lockstep/stock/grpc/grpc_server.h"

#include <unistd.h>

#include <chrono>
#include <limits>
#include <string>
#include <utility>

#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "lockstep/base/check.h"
#include "lockstep/base/limits.h"

namespace lockstep::net {
namespace {

constexpr int kMetadataBytesMax = 16 << 10;
constexpr int kHpackTableBytesMax = 4 << 10;
static_assert(kHpackTableBytesMax <= kMetadataBytesMax);
constexpr int kStreamWindowBytes = 4 << 20;
// Calls of one connection at a time. A process has a handful; those beyond wait at their client.
constexpr int kStreamsMax = 1024;
// Files of certificates are looked at so often.
constexpr unsigned kCertificateLookSeconds = 10;

// A stock process dies with its connection. So nothing here may end one that is merely idle, old,
// busy or cut off for a while; and what a stranger can hold open is bounded by time or size.
void SetChannelArguments(const StockListenerOptions& options, const grpc::ResourceQuota& quota,
                         grpc::ServerBuilder& builder) {
  // Two servers on one port would share the job between them.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Off. This also keeps gRPC from setting a TCP_USER_TIMEOUT.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, std::numeric_limits<int>::max());
  // A client may ping as often as it likes.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder.AddChannelArgument(
      GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
      static_cast<int>(absl::ToInt64Milliseconds(options.handshake_timeout)));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_HPACK_TABLE_SIZE_DECODER, kHpackTableBytesMax);
  // gRPC inflates a message whole before it looks at its size, so that 64 MiB could become 64 GiB;
  // StockCall does it within the limit, and knows gzip only.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, options.inflates ? 1 : 0);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  // Pings that measure the bandwidth cost each small call more than they bring; instead a fixed
  // window that is big enough for big values.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamWindowBytes);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsMax);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMessageBytesMax));
  builder.SetMaxSendMessageSize(-1);  // a directory may be longer than any one message sent to us
}

// gRPC's own grpc.health.v1.Health. It is switched on for a whole process, so it is switched back
// for whatever else lives in this one.
std::unique_ptr<grpc::Server> BuildWithHealth(grpc::ServerBuilder& builder) {
  const bool before = grpc::DefaultHealthCheckServiceEnabled();
  grpc::EnableDefaultHealthCheckService(true);
  auto server = builder.BuildAndStart();
  grpc::EnableDefaultHealthCheckService(before);
  return server;
}

// Files are read again when they change; connections that are open stay.
std::shared_ptr<grpc::ServerCredentials> CredentialsOf(const StockListenerOptions& options) {
  if (!options.tls) return grpc::InsecureServerCredentials();
  const StockTls& files = *options.tls;
  grpc::experimental::TlsServerCredentialsOptions tls(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          files.key, files.certificates, files.client_authorities, kCertificateLookSeconds));
  tls.watch_identity_key_cert_pairs();
  if (files.client_authorities.empty()) {
    tls.set_cert_request_type(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  } else {
    tls.watch_root_certs();
    tls.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(tls);
}

}  // namespace

GrpcServer::GrpcServer(const StockListenerOptions& options) : options_(options) {}

GrpcServer::~GrpcServer() {
  LOCKSTEP_CHECK(server_ == nullptr || shut_down_);
  if (quota_ && options_.budget) options_.budget->Leave(quota_);
}

bool GrpcServer::Start(const std::function<void(grpc::ServerBuilder&)>& add,
                       const std::vector<std::string>& names) {
  if (server_ != nullptr) return true;
  if (quota_ == nullptr) {
    if (options_.budget) {
      quota_ = options_.budget->Enter(options_.grpc_memory_max);
    } else {
      quota_ = std::make_shared<grpc::ResourceQuota>("lockstep");
      quota_->Resize(options_.grpc_memory_max);
    }
  }
  grpc::ServerBuilder builder;
  SetChannelArguments(options_, *quota_, builder);
  add(builder);
  connections_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      CredentialsOf(options_));
  server_ = BuildWithHealth(builder);
  if (server_ == nullptr) return false;
  for (const std::string& name : names) {
    server_->GetHealthCheckService()->SetServingStatus(name, true);
  }
  return true;
}

void GrpcServer::Take(int fd) {
  LOCKSTEP_DCHECK(server_ != nullptr);
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.fd = fd;
  connections_->HandleNewConnection(&connection);
}

void GrpcServer::Shutdown() {
  if (std::exchange(shut_down_, true) || server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now() +
                    absl::ToChronoMilliseconds(options_.drain_time));
}

}  // namespace lockstep::net
