#include "lockstep/agent/value_exchange.h"

#include <unistd.h>

#include <utility>

#include "asio/ip/tcp.hpp"

namespace lockstep::agent {

using runtime::MonotonicNow;

runtime::AcceptorOptions ValueExchange::Accepting() {
  runtime::AcceptorOptions options;
  options.connections_max = 0;  // PeerValues counts them
  options.descriptors_left_min = kDescriptorsLeft;
  // A ticket is what counts here.
  options.allowed = {.everybody = true};
  return options;
}

ValueExchange::ValueExchange(runtime::Loop& loop, PeerValues::Options options, Events events)
    : loop_(loop),
      events_(std::move(events)),
      patience_(options.patience),
      values_(options),
      timer_(loop),
      acceptor_(
          loop, Accepting(), [this](int fd) { TakeSocket(fd); },
          [this](std::string text) {
            if (events_.complain) events_.complain(std::move(text));
          }) {}

absl::Status ValueExchange::Listen(const runtime::Address& at) { return acceptor_.Listen(at); }

void ValueExchange::Stop() {
  stopped_ = true;
  acceptor_.Stop();
  timer_.Cancel();
  fetches_.clear();
  peers_.clear();
}

void ValueExchange::Told(const PeerValues::Ticket& ticket, PeerValues::Source source,
                         PeerValues::CallNumber call, Time deadline) {
  PeerValues::Effects effects;
  values_.Told(MonotonicNow(), ticket, std::move(source), call, deadline, effects);
  Carry(std::move(effects));
}

void ValueExchange::Given(const PeerValues::Ticket& ticket, PeerValues::Source source,
                          PeerValues::Value value) {
  PeerValues::Effects effects;
  values_.Given(MonotonicNow(), ticket, std::move(source), std::move(value), effects);
  Carry(std::move(effects));
}

void ValueExchange::ServerFailed(const PeerValues::Ticket& ticket) {
  PeerValues::Effects effects;
  values_.ServerFailed(MonotonicNow(), ticket, effects);
  Carry(std::move(effects));
}

void ValueExchange::TakeSocket(int fd) {
  asio::ip::tcp::socket socket(loop_.io());
  asio::error_code error;
  socket.assign(acceptor_.address().protocol(), fd, error);
  if (error) {
    ::close(fd);
    return;
  }
  const PeerValues::PeerNumber number = ++last_peer_;
  if (!values_.PeerCame(MonotonicNow(), number)) return;  // the socket closes
  peers_[number] = std::make_unique<ValuePeer>(
      std::move(socket),
      ValuePeer::Events{.asked =
                            [this, number](const PeerValues::Ticket& ticket) {
                              PeerValues::Effects effects;
                              values_.PeerAsked(MonotonicNow(), number, ticket, effects);
                              Carry(std::move(effects));
                            },
                        .took = [this, number] { values_.PeerTook(MonotonicNow(), number); },
                        .ended = [this, number] { PeerEnded(number); }});
  Carry({});
}

void ValueExchange::PeerEnded(PeerValues::PeerNumber number) {
  values_.PeerLeft(MonotonicNow(), number);
  peers_.erase(number);
  Carry({});
}

void ValueExchange::Fetch(const PeerValues::Effects::Fetch& fetch) {
  const auto done = [this, ticket = fetch.ticket](PeerValues::Value value) {
    PeerValues::Effects effects;
    // Its own end: it may be destroyed while it calls.
    fetches_.erase(ticket);
    value == nullptr ? values_.FetchFailed(MonotonicNow(), ticket, effects)
                     : values_.Fetched(MonotonicNow(), ticket, std::move(value), effects);
    Carry(std::move(effects));
  };
  fetches_[fetch.ticket] = std::make_unique<ValueFetch>(
      loop_, fetch, patience_,
      ValueFetch::Events{
          .progressed = [this,
                         ticket = fetch.ticket] { values_.Progressed(MonotonicNow(), ticket); },
          .done = done});
}

void ValueExchange::Carry(PeerValues::Effects&& effects) {
  if (stopped_) return;
  for (const PeerValues::Ticket& ticket : effects.stop) fetches_.erase(ticket);
  for (const PeerValues::PeerNumber peer : effects.close) peers_.erase(peer);
  for (const auto& fetch : effects.fetch) Fetch(fetch);
  for (const PeerValues::PeerNumber peer : effects.hint) {
    if (const auto found = peers_.find(peer); found != peers_.end()) found->second->Hint();
  }
  for (const auto& serving : effects.serve) {
    if (const auto found = peers_.find(serving.peer); found != peers_.end()) {
      found->second->Serve(serving);
    }
  }
  for (const PeerValues::Ticket& ticket : effects.ask_server) events_.ask_server(ticket);
  for (auto& ended : effects.ended) events_.ended(std::move(ended));
  timer_.Arm(values_.NextDeadline(), [this] {
    PeerValues::Effects rung;
    values_.ReachDeadline(MonotonicNow(), rung);
    Carry(std::move(rung));
  });
}

}  // namespace lockstep::agent
