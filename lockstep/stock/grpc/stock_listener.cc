#include "lockstep/stock/grpc/stock_listener.h"

#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/stock/grpc/stock_calls.h"

namespace lockstep::net {
namespace {

// A connection of gRPC with nothing under way, about.
constexpr size_t kConnectionBytes = size_t{48} << 10;

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

StockListener::StockListener(runtime::Loop& loop, StockListenerOptions options, Handler handler,
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
          loop, options_.calls_max, [this] { Drain(); }, &call_share_, options_.member_of_uris)),
      calls_(options_.connections.connections_max),
      server_(options_) {}

StockListener::~StockListener() { inbox_->Close(); }

size_t StockListener::CountConnections() {
  const size_t count = acceptor_.CountOpenConnections();
  connection_share_.Set(count * kConnectionBytes);
  return count;
}

absl::Status StockListener::Listen(const runtime::Address& at) { return acceptor_.Listen(at); }

asio::ip::tcp::endpoint StockListener::address() const { return acceptor_.address(); }

void StockListener::TakeConnection(int fd) {
  if (!server_.Start(inbox_)) {
    close(fd);
    return complain_("gRPC did not start a server; the connection is refused");
  }
  connection_share_.Set(connection_share_.bytes() + kConnectionBytes);
  calls_.Connected(PeerOf(fd));  // before gRPC, from which calls may come at once
  server_.Take(fd);
}

void StockListener::Drain() {
  runtime::TurnBudget budget;
  while (std::optional<StockInbox::Item> item = inbox_->Next()) {
    if (item->call != nullptr) {
      calls_.Began(item->id, *item->call, current_(), item->event);
    } else {
      // Where the answer was faster, the machine may still have to know that nobody got it.
      calls_.Left(item->id);
    }
    handler_(std::move(item->event));
    if (budget.Spent()) return inbox_->DrainAgain();
  }
}

void StockListener::Answer(const std::vector<coord::Reply>& replies) {
  for (const coord::Reply& reply : replies) calls_.Answer(reply);
}

void StockListener::StopAccepting() { acceptor_.Stop(); }

void StockListener::Shutdown() {
  LOCKSTEP_CHECK(!server_.serves() || !loop_.InLoop());
  server_.Shutdown();
}

}  // namespace lockstep::net
