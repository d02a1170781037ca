#include "lockstep/launch/port_forwarder.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "asio/ip/address.hpp"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/dial.h"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/platform/runtime/server_list.h"
#include "lockstep/wire/native/codec.h"

namespace lockstep::launch {
namespace {

using wire::native::OpenTunnel;
using wire::native::StockService;

constexpr absl::Duration kDialTimeout = absl::Seconds(5);
// For the run itself: pipes of processes, files, questions to the server.
constexpr size_t kDescriptorsLeftMin = 256;
constexpr absl::Duration kRedialPause = absl::Milliseconds(250);

bool IsLoopback(const std::string& host) {
  if (host == "localhost") return true;
  asio::error_code error;
  const asio::ip::address address = asio::ip::make_address(host, error);
  return !error && address.is_loopback();
}

// A server that is away comes back; one that refuses us goes on doing so.
bool MayPass(const absl::Status& why) {
  return absl::IsUnavailable(why) || absl::IsDeadlineExceeded(why);
}

}  // namespace

bool NeedsForwarding(const std::string& service, const std::string& coordinator) {
  const auto listens = runtime::ParseAddress(service);
  const auto called = runtime::ReadServerList(coordinator);
  return listens.ok() && called.ok() && IsLoopback(listens->host) &&
         std::any_of(called->addresses.begin(), called->addresses.end(),
                     [](const auto& each) { return !IsLoopback(each.host); });
}

absl::StatusOr<std::unique_ptr<PortForwarder>> PortForwarder::WhereNeeded(
    runtime::Loop& loop, JobAddress& address, std::function<void(std::string)> say) {
  if (!NeedsForwarding(address.grpc, address.link)) return nullptr;
  auto self = std::make_unique<PortForwarder>(loop, address.link, address.job, std::move(say));
  auto local = self->Forward(StockService::kCoordination, /*attempt=*/0);
  if (!local.ok()) return local.status();
  address.grpc = *std::move(local);
  return self;
}

PortForwarder::PortForwarder(runtime::Loop& loop, std::string coordinator, std::string job,
                             std::function<void(std::string)> say)
    : loop_(loop),
      coordinator_(std::move(coordinator)),
      job_(std::move(job)),
      say_(std::move(say)),
      redial_(loop) {}

PortForwarder::~PortForwarder() {
  if (link_ != nullptr) link_->Abandon();
  for (auto& [id, tunnel] : tunnels_) tunnel->Abandon();
  for (const OpeningPtr& opening : waiting_) runtime::ResetSocket(opening->socket);
}

absl::StatusOr<std::string> PortForwarder::Forward(StockService service, int64_t attempt) {
  OpenTunnel asked = {.job = job_, .service = service, .attempt = attempt};
  auto acceptor = std::make_unique<runtime::Acceptor>(
      loop_,
      runtime::AcceptorOptions{.connections_max = 0, .descriptors_left_min = kDescriptorsLeftMin},
      [this, asked = std::move(asked)](int fd) { Accepted(asked, fd); },
      [this](std::string text) { say_("connections of stock clients: " + std::move(text)); });
  if (absl::Status status = acceptor->Listen({.host = "127.0.0.1", .port = 0}); !status.ok()) {
    return status;
  }
  acceptor->Start();
  std::string address = runtime::ToString(acceptor->address());
  acceptors_[service] = std::move(acceptor);
  return address;
}

void PortForwarder::Accepted(const OpenTunnel& asked, int fd) {
  auto opening = std::make_shared<Opening>(Opening{.asked = asked,
                                                   .socket = asio::ip::tcp::socket(loop_.io()),
                                                   .give_up = runtime::MonotonicNow() + kPatience});
  asio::error_code error;
  opening->socket.assign(asio::ip::tcp::v4(), fd, error);
  if (error) {
    ::close(fd);
    return;
  }
  if (tunnels_.size() + opening_ + waiting_.size() >= kConnectionsMax) {
    return Opened(*opening,
                  absl::ResourceExhaustedError(absl::StrFormat(
                      "%d connections are open (forwarded_connections_max)", kConnectionsMax)));
  }
  if (ready_) return Open(opening);
  waiting_.push_back(std::move(opening));
  if (link_ == nullptr) Dial();
}

void PortForwarder::Dial() {
  if (servers_ == nullptr) {
    auto servers = link::Servers::Read(coordinator_);
    if (!servers.ok()) return LinkClosed(servers.status());
    servers_ = *std::move(servers);
  }
  link_ = link::ClientLink::Dial(
      loop_.io(), servers_, kDialTimeout, "lockstep run, for stock clients", link::LinkOptions(),
      {.ready = [this](const wire::native::Welcome&) { LinkReady(); },
       .closed = [this](const absl::Status& why) { LinkClosed(why); },
       .tunnel = [this](link::Message frame) { Take(std::move(frame)); }});
}

void PortForwarder::LinkReady() {
  ready_ = true;
  if (std::exchange(said_.trouble, false)) say_("connections of stock clients go through again");
  for (const OpeningPtr& opening : std::exchange(waiting_, {})) Open(opening);
}

void PortForwarder::LinkClosed(const absl::Status& why) {
  ready_ = false;
  link_ = nullptr;
  const size_t broken = tunnels_.size();
  for (auto& [id, tunnel] : std::exchange(tunnels_, {})) tunnel->Abandon();
  if ((broken > 0 || !waiting_.empty()) && !std::exchange(said_.trouble, true)) {
    say_(absl::StrFormat("%d connections of stock clients broke, and %d wait for the server: %s",
                         broken, waiting_.size(), std::string(why.message())));
  }
  DropWaiting(why, MayPass(why) ? runtime::MonotonicNow() : Time::Infinite());
  if (waiting_.empty()) return;
  redial_.Arm(runtime::MonotonicNow() + kRedialPause, [this] {
    if (link_ == nullptr && !waiting_.empty()) Dial();
  });
}

void PortForwarder::DropWaiting(const absl::Status& why, Time due_by) {
  std::deque<OpeningPtr> stay;
  for (OpeningPtr& opening : std::exchange(waiting_, {})) {
    if (opening->give_up > due_by) {
      stay.push_back(std::move(opening));
    } else {
      Opened(*opening, why);
    }
  }
  waiting_ = std::move(stay);
}

void PortForwarder::Open(const OpeningPtr& opening) {
  LOCKSTEP_DCHECK(ready_);
  ++opening_;
  opening->id = link_->Call(link::KindOf<OpenTunnel>::kKind, wire::native::Encode(opening->asked),
                            [this, opening](const absl::StatusOr<std::string>& answer) {
                              --opening_;
                              // The link has closed: as one that came just now. LinkClosed follows.
                              if (link_->closed() && MayPass(answer.status())) {
                                return waiting_.push_back(opening);
                              }
                              Opened(*opening, answer.status());
                            });
}

void PortForwarder::Opened(Opening& opening, const absl::Status& status) {
  if (!status.ok()) {
    runtime::ResetSocket(opening.socket);
    // A client that tries again and again is told of now and then.
    const Time now = runtime::MonotonicNow();
    if (now < said_.next_complaint) return;
    said_.next_complaint = now + runtime::kComplaintInterval;
    return say_(absl::StrCat("a connection of a stock client could not be forwarded: ",
                             std::string(status.message())));
  }
  const uint64_t id = opening.id;
  tunnels_[id] = link::Tunnel::Start(std::move(opening.socket), id,
                                     {.send =
                                          [this](link::Message frame) {
                                            if (link_ != nullptr) link_->Send(std::move(frame));
                                          },
                                      .over = [this, id] { tunnels_.erase(id); }});
}

void PortForwarder::Take(link::Message frame) {
  const auto found = tunnels_.find(frame.id);
  if (found == tunnels_.end()) return;  // it is over, and this was on its way
  const std::shared_ptr<link::Tunnel> tunnel = found->second;
  if (absl::Status status = tunnel->Take(std::move(frame)); !status.ok()) {
    link_->BreakRules(std::move(status));
  }
}

}  // namespace lockstep::launch
