#include "lockstep/net/xla_door.h"

#include <limits>
#include <utility>
#include <variant>

#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "lockstep/base/check.h"
#include "lockstep/base/limits.h"
#include "lockstep/net/xla_calls.h"

namespace lockstep::net {
namespace {

constexpr int kMetadataBytesMax = 16 << 10;
constexpr int kHpackTableBytesMax = 4 << 10;
constexpr int kStreamWindowBytes = 4 << 20;

// A stock process dies with its connection. So nothing here may end one that is merely idle, old,
// busy or cut off for a while; and what a stranger can hold open is bounded by time or size.
void SetChannelArguments(const XlaDoorOptions& options, grpc::ServerBuilder& builder) {
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
  // XlaCall does it within the limit, and knows gzip only.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  // Pings that measure the bandwidth cost each small call more than they bring; instead a fixed
  // window that is big enough for big values.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamWindowBytes);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMessageBytesMax));
  builder.SetMaxSendMessageSize(-1);  // a directory may be longer than any one message sent to us
}

}  // namespace

XlaDoor::XlaDoor(runtime::Loop& loop, XlaDoorOptions options, Handler handler,
                 runtime::Complain complain)
    : loop_(loop),
      options_(options),
      handler_(std::move(handler)),
      acceptor_(
          loop, options.connections, [this](int fd) { TakeConnection(fd); }, std::move(complain)),
      inbox_(std::make_shared<XlaInbox>(loop, options.calls_max, [this] { Drain(); })) {}

XlaDoor::~XlaDoor() {
  LOCKSTEP_CHECK(server_ == nullptr || shut_down_);
  inbox_->Close();
}

absl::Status XlaDoor::Listen(const runtime::Address& at) { return acceptor_.Listen(at); }

asio::ip::tcp::endpoint XlaDoor::address() const { return acceptor_.address(); }

absl::Status XlaDoor::Start() {
  service_ = MakeXlaService(inbox_);
  grpc::ServerBuilder builder;
  SetChannelArguments(options_, builder);
  builder.RegisterService(service_.get());
  connections_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return absl::InternalError("gRPC did not start a server.");
  acceptor_.Start();
  return absl::OkStatus();
}

void XlaDoor::TakeConnection(int fd) {
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.fd = fd;
  connections_->HandleNewConnection(&connection);
}

void XlaDoor::Drain() {
  for (XlaInbox::Item& item : inbox_->Take()) {
    if (item.call != nullptr) {
      open_.emplace(item.id, item.call);
    } else {
      auto left = open_.find(item.id);
      // Where the answer was faster, the machine may still have to know that nobody got it.
      if (left != open_.end()) {
        XlaCall* call = left->second;
        open_.erase(left);
        call->FinishLeft();
      }
    }
    handler_(std::move(item.event));
  }
}

void XlaDoor::Answer(const std::vector<coord::Reply>& replies) {
  // One failure answers many calls with the same error: it is encoded once.
  const coord::Error* error = nullptr;
  wire::xla::EncodedError encoded;
  for (const coord::Reply& reply : replies) {
    auto found = open_.find(reply.call);
    if (found == open_.end()) continue;
    XlaCall* call = found->second;
    open_.erase(found);
    if (!reply.error) {
      call->FinishWith(answers_.Encode(reply.answer));
      continue;
    }
    if (reply.error.get() != error) {
      error = reply.error.get();
      encoded = wire::xla::EncodeError(*error);
    }
    call->FinishWith(encoded);
  }
}

void XlaDoor::StopAccepting() { acceptor_.Stop(); }

void XlaDoor::Shutdown() {
  if (shut_down_) return;
  LOCKSTEP_CHECK(!loop_.InLoop());
  if (server_) {
    server_->Shutdown(std::chrono::system_clock::now() +
                      absl::ToChronoMilliseconds(options_.drain_time));
  }
  shut_down_ = true;
}

}  // namespace lockstep::net
