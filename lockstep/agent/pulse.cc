#include "lockstep/agent/pulse.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "asio/io_context.hpp"
#include "asio/ip/udp.hpp"
#include "lockstep/client/typed.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::agent {
namespace {

using hosts::HostId;
using wire::native::JoinHosts;
using wire::native::JoinHostsReply;

// All addresses that the name has.
std::vector<asio::ip::address> Resolve(const std::string& host) {
  asio::io_context io;
  asio::ip::udp::resolver resolver(io);
  asio::error_code error;
  std::vector<asio::ip::address> addresses;
  for (const auto& each : resolver.resolve(host, "", error)) {
    addresses.push_back(each.endpoint().address());
  }
  return addresses;
}

hosts::HostContact::Table TableOf(const JoinHostsReply& reply) {
  hosts::HostContact::Table table{.version = reply.version, .peers = {}};
  for (const wire::native::HostPeer& peer : reply.peers) {
    if (table.peers.size() < hosts::kPeersMax) table.peers.emplace_back(peer.host);
  }
  return table;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Pulse>> Pulse::Start(std::shared_ptr<client::Engine> engine,
                                                    PulseOptions options, Events events) {
  auto socket = hosts::DatagramSocket::Open(asio::ip::address_v6::any(), 0);
  // A machine may have no IPv6.
  if (!socket.ok()) socket = hosts::DatagramSocket::Open(asio::ip::address_v4::any(), 0);
  if (!socket.ok()) return socket.status();
  std::unique_ptr<Pulse> pulse(
      new Pulse(std::move(engine), std::move(options), std::move(events), *std::move(socket)));
  pulse->Ask();
  pulse->thread_ = std::make_unique<hosts::SteadyThread>([pulse = pulse.get()] { pulse->Turn(); });
  return pulse;
}

Pulse::Pulse(std::shared_ptr<client::Engine> engine, PulseOptions options, Events events,
             hosts::DatagramSocket socket)
    : engine_(std::move(engine)),
      options_(std::move(options)),
      events_(std::move(events)),
      self_(runtime::RandomNumber() | 1),
      socket_(std::move(socket)) {}

void Pulse::Turn() {
  Time now = hosts::BootNow();
  if (now < turns_.next_tick) socket_.Wait(turns_.next_tick - now);
  bool ask = false;
  std::optional<std::string> stops;
  bool silent = false;  // the server, ever since
  uint16_t port = 0;
  {
    const MutexLock lock(mutex_);
    now = hosts::BootNow();
    // First: what is here for long says nothing of now.
    if (now >= turns_.next_tick) {
      turns_.next_tick = now + hosts::kTickEvery;
      ask = Tick(now);
    }
    for (int i = 0; i < kDatagramsATurn; ++i) {
      const auto received = socket_.Receive();
      if (!received) break;
      Take(now, received->first, received->second);
    }
    if (contact_) stops = contact_->stops();
    silent = asking_.first_table && now - *asking_.first_table >= kComplainAfter &&
             !contact_->Look(now).server_heard;
    if (silent) port = ways_.at(hosts::kServer).at.port();
  }
  if (silent && !std::exchange(turns_.told_silent, true)) {
    Complain(absl::StrCat("the server does not answer datagrams on UDP port ", port));
  }
  if (stops && !std::exchange(turns_.told_cut_off, true)) events_.cut_off(*stops);
  if (ask) Ask();
}

bool Pulse::Tick(Time now) {
  hosts::HostContact::Round round;
  if (contact_) {
    round = contact_->Tick(now);
  } else {
    round.ask = now - asking_.asked >= kAskAgain;
  }
  for (hosts::Ping& ping : round.pings) {
    const auto way = ways_.find(ping.to);
    if (ping.to == hosts::kServer) {
      ping.clock_us = static_cast<uint64_t>(absl::ToUnixMicros(absl::Now()));
    }
    if (way == ways_.end()) continue;
    const auto& [at, key, proven] = way->second;
    Send(ping, key, at);
    if (proven && *proven != key) Send(ping, *proven, at);
  }
  // A server that is away answers when it is back.
  if (!round.ask || asking_.under_way) return false;
  asking_.under_way = true;
  asking_.asked = now;
  return true;
}

void Pulse::Send(const hosts::Packet& packet, uint32_t key, const Endpoint& to) {
  if (const hosts::Secret* const secret = Find(key)) socket_.Send(Seal(*secret, packet), to);
}

const hosts::Secret* Pulse::Find(uint32_t key) const {
  const auto found = std::find_if(secrets_.begin(), secrets_.end(),
                                  [key](const auto& each) { return each.key == key; });
  return found == secrets_.end() ? nullptr : &*found;
}

void Pulse::Take(Time now, const std::string& datagram, const Endpoint& from) {
  const auto key = hosts::KeyOf(datagram);
  const hosts::Secret* const secret = key ? Find(*key) : nullptr;
  if (secret == nullptr || !contact_) return;
  const auto packet = hosts::Unseal(*secret, datagram);
  if (!packet) return;
  if (const auto* ack = std::get_if<hosts::Ack>(&*packet)) {
    if (const auto way = ways_.find(ack->from); way != ways_.end()) way->second.proven = *key;
    return contact_->Handle(now, *ack);
  }
  const std::optional<hosts::Ack> ack = contact_->Handle(now, std::get<hosts::Ping>(*packet));
  // By the secret that the other has.
  if (ack) Send(*ack, *key, from);
}

void Pulse::Ask() {
  const JoinHosts asked = {.host = self_.value(),
                           .name = options_.host,
                           .version = options_.version,
                           .waits = options_.policy == hosts::OnPartition::kWait,
                           .node = options_.node};
  engine_->CallAsync({.kind = wire::native::KindOf<JoinHosts>::kKind,
                      .type = client::CallType::kRead,
                      .payload = wire::native::Encode(asked),
                      .what = "the table of hosts"},
                     [this](client::Engine::Answer answer) { Answered(std::move(answer)); });
}

void Pulse::Answered(absl::StatusOr<std::string> answer) {
  auto reply = answer.ok() ? wire::native::Decode<JoinHostsReply>(*std::move(answer))
                           : absl::StatusOr<JoinHostsReply>(answer.status());
  if (reply.ok()) {
    return resolver_.Push([this, reply = *std::move(reply)] { FindServer(reply); });
  }
  {
    const MutexLock lock(mutex_);
    asking_.under_way = false;
    if (wire::native::ReasonOf(reply.status()) == "host_lost" && contact_) {
      return contact_->GivenUp();
    }
  }
  if (reply.status().code() == absl::StatusCode::kCancelled) return;
  Complain(std::string(reply.status().message()));
}

void Pulse::FindServer(const JoinHostsReply& reply) {
  const std::string host = engine_->leader().host;
  const std::vector<asio::ip::address> addresses = Resolve(host);
  {
    const MutexLock lock(mutex_);
    asking_.under_way = false;
    if (!addresses.empty() && reply.port > 0) {
      // The link may have come by another of them than datagrams can.
      if (asking_.first_table && !HearsServer(hosts::BootNow())) ++asking_.tries;
      return TakeTable(
          reply, {addresses[asking_.tries % addresses.size()], static_cast<uint16_t>(reply.port)});
    }
  }
  Complain(absl::StrCat("the name ", host, " does not resolve to an address"));
}

bool Pulse::HearsServer(Time now) const {
  const auto heard = contact_ ? contact_->Look(now).server_heard : std::nullopt;
  return heard && now - *heard < kComplainAfter;
}

void Pulse::Complain(std::string why) {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(asking_.complained, true)) return;
  }
  events_.say(absl::StrCat(
      "the server does not watch this host, so it will detect a loss of it more slowly: ", why));
}

// The oldest, unless a peer knows us by it.
void Pulse::ForgetSecrets() {
  for (size_t at = secrets_.size(); at-- > kKeysKept;) {
    const bool in_use =
        std::any_of(ways_.begin(), ways_.end(),
                    [key = secrets_[at].key](const auto& way) { return way.second.proven == key; });
    if (!in_use) secrets_.erase(secrets_.begin() + static_cast<ptrdiff_t>(at));
  }
}

void Pulse::TakeTable(const JoinHostsReply& reply, const Endpoint& server) {
  if (Find(reply.key) == nullptr) {
    secrets_.push_front({.key = reply.key, .bytes = reply.secret.data});
    ForgetSecrets();
  }
  if (!contact_) {
    contact_.emplace(self_,
                     hosts::Terms{.interval = absl::Microseconds(reply.interval_us),
                                  .timeout = absl::Microseconds(reply.timeout_us)},
                     options_.policy);
  }
  if (!asking_.first_table) asking_.first_table = hosts::BootNow();
  hosts::HostContact::Table table = TableOf(reply);
  // Those of older tables may have a voice still, but not of many.
  if (ways_.size() > 4 * hosts::kPeersMax) ways_.clear();
  ways_[hosts::kServer] = {.at = server, .key = reply.key};
  for (const wire::native::HostPeer& peer : reply.peers) {
    auto at = hosts::ToEndpoint(peer.address);
    if (!at) continue;
    // It is on the server's own host, and called it there.
    if (at->address().is_loopback() && !server.address().is_loopback()) {
      at->address(server.address());
    }
    Way& way = ways_[HostId(peer.host)];
    way = {.at = *at, .key = reply.key, .proven = way.proven};
  }
  contact_->SetTable(std::move(table));
}

}  // namespace lockstep::agent
