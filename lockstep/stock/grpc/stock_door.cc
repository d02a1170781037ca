#include "lockstep/stock/grpc/stock_door.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "lockstep/base/check.h"
#include "lockstep/base/limits.h"
#include "lockstep/stock/grpc/stock_calls.h"
#include "lockstep/stock/tensorflow/family.h"
#include "lockstep/stock/xla/family.h"

namespace lockstep::net {
namespace {

constexpr int kMetadataBytesMax = 16 << 10;
constexpr int kHpackTableBytesMax = 4 << 10;
constexpr int kStreamWindowBytes = 4 << 20;
// Calls of one connection at a time. A process has a handful; those beyond wait at their client.
constexpr int kStreamsMax = 1024;
// A connection of gRPC with nothing under way, about.
constexpr size_t kConnectionBytes = size_t{48} << 10;
// No quota of a budget is smaller because of another one: with less gRPC could not take the
// messages of a few clients.
constexpr size_t kQuotaMin = size_t{32} << 20;

// A stock process dies with its connection. So nothing here may end one that is merely idle, old,
// busy or cut off for a while; and what a stranger can hold open is bounded by time or size.
void SetChannelArguments(const StockDoorOptions& options, const grpc::ResourceQuota& quota,
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
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
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

std::vector<std::unique_ptr<wire::stock::Family>> MakeFamilies(
    const std::vector<coord::RoleOptions>& roles) {
  std::vector<std::unique_ptr<wire::stock::Family>> families;
  families.push_back(wire::xla::MakeFamily());
  families.push_back(wire::tensorflow::MakeFamily(roles));
  return families;
}

// As gRPC names the other end of a connection: "ipv4:127.0.0.1:40000".
std::string PeerOf(int fd) {
  asio::ip::tcp::endpoint peer;
  socklen_t size = static_cast<socklen_t>(peer.capacity());
  if (getpeername(fd, peer.data(), &size) != 0) return {};
  asio::ip::address address = peer.address();
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    address = asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  }
  return absl::StrCat(address.is_v4() ? "ipv4:" : "ipv6:%5B", address.to_string(),
                      address.is_v4() ? ":" : "%5D:", peer.port());
}

}  // namespace

std::shared_ptr<grpc::ResourceQuota> GrpcBudget::Enter(size_t most) {
  if (shared_.empty() || bytes_ / (shared_.size() + 1) >= kQuotaMin) {
    shared_.push_back({.quota = std::make_shared<grpc::ResourceQuota>("lockstep"), .most = most});
  }
  const auto fewest =
      std::min_element(shared_.begin(), shared_.end(),
                       [](const Shared& a, const Shared& b) { return a.doors < b.doors; });
  ++fewest->doors;
  const std::shared_ptr<grpc::ResourceQuota> quota = fewest->quota;
  Divide();
  return quota;
}

void GrpcBudget::Leave(const std::shared_ptr<grpc::ResourceQuota>& quota) {
  for (auto it = shared_.begin(); it != shared_.end(); ++it) {
    if (it->quota != quota) continue;
    if (--it->doors == 0) shared_.erase(it);
    break;
  }
  Divide();
}

void GrpcBudget::Divide() {
  for (const Shared& one : shared_) one.quota->Resize(std::min(quota_bytes(), one.most));
}

StockDoor::StockDoor(runtime::Loop& loop, StockDoorOptions options, Handler handler,
                     CurrentAttempt current, runtime::Complain complain)
    : loop_(loop),
      options_(std::move(options)),
      handler_(std::move(handler)),
      current_(std::move(current)),
      complain_(std::move(complain)),
      acceptor_(
          loop, options_.connections, [this](int fd) { TakeConnection(fd); },
          [this](std::string text) { complain_(std::move(text)); }),
      call_share_(options_.memory, options_.owner, "calls of stock clients"),
      connection_share_(options_.memory, options_.owner, "connections of stock clients"),
      inbox_(std::make_shared<StockInbox>(
          loop, options_.calls_max, [this] { Drain(); }, &call_share_)),
      registered_(options_.connections.connections_max),
      families_(MakeFamilies(options_.roles)) {}

StockDoor::~StockDoor() {
  LOCKSTEP_CHECK(server_ == nullptr || shut_down_);
  inbox_->Close();
  if (quota_ && options_.budget) options_.budget->Leave(quota_);
}

size_t StockDoor::CountConnections() {
  const size_t count = acceptor_.CountOpenConnections();
  connection_share_.Set(count * kConnectionBytes);
  return count;
}

absl::Status StockDoor::Listen(const runtime::Address& at) { return acceptor_.Listen(at); }

asio::ip::tcp::endpoint StockDoor::address() const { return acceptor_.address(); }

bool StockDoor::StartServer() {
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
  for (const auto& family : families_) {
    services_.push_back(std::make_unique<StockService>(inbox_, *family));
    builder.RegisterService(services_.back().get());
  }
  connections_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  server_ = BuildWithHealth(builder);
  if (server_ == nullptr) return false;
  for (const auto& family : families_) {
    server_->GetHealthCheckService()->SetServingStatus(std::string(family->service()), true);
  }
  return true;
}

void StockDoor::TakeConnection(int fd) {
  if (server_ == nullptr && !StartServer()) {
    services_.clear();
    close(fd);
    return complain_("gRPC did not start a server; the connection is refused");
  }
  connection_share_.Set(connection_share_.bytes() + kConnectionBytes);
  registered_.Forget(PeerOf(fd));  // as another connection before it may have been called
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.fd = fd;
  connections_->HandleNewConnection(&connection);
}

void StockDoor::Drain() {
  runtime::TurnBudget budget;
  while (std::optional<StockInbox::Item> item = inbox_->Next()) {
    if (item->call != nullptr) {
      open_.emplace(item->id, item->call);
      SetAttempt(*item->call, item->event);
    } else {
      auto left = open_.find(item->id);
      // Where the answer was faster, the machine may still have to know that nobody got it.
      if (left != open_.end()) {
        StockCall* call = left->second;
        open_.erase(left);
        call->FinishLeft();
      }
    }
    handler_(std::move(item->event));
    if (budget.Spent()) return inbox_->DrainAgain();
  }
}

void StockDoor::SetAttempt(const StockCall& call, coord::Event& event) const {
  if (call.family().requests_name_the_attempt()) return;
  call.family().SetAttempt(registered_.Find(call.asked()->peer, current_()), event, call.asked());
}

void StockDoor::Answer(const std::vector<coord::Reply>& replies) {
  for (const coord::Reply& reply : replies) {
    auto found = open_.find(reply.call);
    if (found == open_.end()) continue;
    StockCall* call = found->second;
    open_.erase(found);
    // One failure, or one list, answers many calls; it is encoded once.
    if (reply.error) {
      call->FinishWith(answers_.Error(call->family(), reply.error, call->asked()));
      continue;
    }
    const auto* registered = std::get_if<coord::Registered>(&reply.answer);
    if (registered && call->asked())
      registered_.Registered(call->asked()->peer, registered->service);
    call->FinishWith(answers_.Answer(call->family(), call->method(), reply.answer, call->asked()));
  }
}

void StockDoor::StopAccepting() { acceptor_.Stop(); }

void StockDoor::Shutdown() {
  if (shut_down_) return;
  if (server_) {
    LOCKSTEP_CHECK(!loop_.InLoop());
    server_->Shutdown(std::chrono::system_clock::now() +
                      absl::ToChronoMilliseconds(options_.drain_time));
  }
  shut_down_ = true;
}

}  // namespace lockstep::net
