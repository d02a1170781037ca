#include "lockstep/stock/grpc/stock_listener.h"

#include <unistd.h>

#include <optional>
#include <string>
#include <utility>

#include "grpcpp/server_builder.h"
#include "lockstep/base/check.h"
#include "lockstep/stock/grpc/families.h"
#include "lockstep/stock/grpc/peer_name.h"
#include "lockstep/stock/grpc/stock_calls.h"

namespace lockstep::net {
namespace {

// A connection of gRPC with nothing under way, about.
constexpr size_t kConnectionBytes = size_t{48} << 10;

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
      server_(options_) {
  for (auto& family : MakeFamilies(options_.roles)) {
    served_.push_back({.family = std::move(family), .service = nullptr});
  }
}

StockListener::~StockListener() { inbox_->Close(); }

size_t StockListener::CountConnections() {
  const size_t count = acceptor_.CountOpenConnections();
  connection_share_.Set(count * kConnectionBytes);
  return count;
}

absl::Status StockListener::Listen(const runtime::Address& at) { return acceptor_.Listen(at); }

asio::ip::tcp::endpoint StockListener::address() const { return acceptor_.address(); }

bool StockListener::StartServer() {
  if (server_.started()) return true;
  std::vector<std::string> names;
  for (const Served& served : served_) names.emplace_back(served.family->service());
  return server_.Start(
      [this](grpc::ServerBuilder& builder) {
        for (Served& served : served_) {
          served.service = std::make_unique<StockService>(inbox_, *served.family);
          builder.RegisterService(served.service.get());
        }
      },
      names);
}

void StockListener::TakeConnection(int fd) {
  if (!StartServer()) {
    close(fd);
    return complain_("gRPC did not start a server; the connection is refused");
  }
  connection_share_.Set(connection_share_.bytes() + kConnectionBytes);
  calls_.Connected(PeerName(fd));  // before gRPC, from which calls may come at once
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
