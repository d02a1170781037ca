#include "lockstep/server/host_pulse.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {
namespace {

using hosts::HostId;
using hosts::HostWatch;
using wire::native::JoinHosts;
using wire::native::JoinHostsReply;
using wire::native::WithReason;

absl::Status Refusal(HostWatch::Joined joined, const JoinHosts& asked) {
  switch (joined) {
    case HostWatch::Joined::kYes:
      return absl::OkStatus();
    case HostWatch::Joined::kLost:
      return WithReason(
          absl::FailedPreconditionError(absl::StrCat(
              "host ", asked.name,
              " was given up, since it was not heard: end its processes, and start a new agent")),
          "host_lost");
    case HostWatch::Joined::kTooMany:
      break;
  }
  return WithReason(absl::ResourceExhaustedError(absl::StrCat("the job has ", hosts::kHostsMax,
                                                              " hosts with an agent (hosts_max)")),
                    "limit_exceeded");
}

// Of a sender whose pings are answered, so that it knows how long they take.
std::optional<absl::Duration> ClockAhead(const hosts::Ping& ping) {
  constexpr uint64_t kMax = uint64_t{1} << 62;
  const bool told = ping.clock_us > 0 && ping.clock_us <= kMax;
  if (!told || ping.round_trip <= absl::ZeroDuration()) return std::nullopt;
  const absl::Time sent = absl::FromUnixMicros(static_cast<int64_t>(ping.clock_us));
  return sent + ping.round_trip / 2 - absl::Now();
}

}  // namespace

HostPulse::Job::Job(hosts::Terms terms)
    : secret(hosts::Secret::Draw()), watch(runtime::RandomNumber() >> 1, terms) {}

HostPulse::HostPulse(asio::ip::address host, uint16_t port, hosts::Terms terms,
                     std::function<void(News)> tell)
    : host_(std::move(host)), port_(port), terms_(terms), tell_(std::move(tell)) {}

HostPulse::~HostPulse() { thread_.reset(); }

absl::Status HostPulse::Open() {
  if (thread_ != nullptr) return absl::OkStatus();
  auto socket = hosts::DatagramSocket::Open(host_, port_);
  // Agents are told which port it is.
  if (!socket.ok()) socket = hosts::DatagramSocket::Open(host_, 0);
  // A machine may have no IPv6.
  if (!socket.ok() && host_.is_unspecified()) {
    socket = hosts::DatagramSocket::Open(asio::ip::address_v4::any(), port_);
  }
  if (!socket.ok()) return socket.status();
  socket_ = std::make_unique<hosts::DatagramSocket>(*std::move(socket));
  thread_ = std::make_unique<hosts::SteadyThread>([this] { Turn(); });
  return absl::OkStatus();
}

absl::StatusOr<JoinHostsReply> HostPulse::Join(const std::string& name, const JoinHosts& asked) {
  const HostId host(asked.host);
  if (host == hosts::kServer) {
    return WithReason(absl::InvalidArgumentError("a host's number is not 0"), "invalid_argument");
  }
  const MutexLock lock(mutex_);
  if (absl::Status opened = Open(); !opened.ok()) return opened;
  const auto [entry, is_new] = jobs_.try_emplace(name, terms_);
  Job& job = entry->second;
  if (is_new) {
    // Keys are short.
    while (!job_of_key_.try_emplace(job.secret.key, name).second)
      job.secret = hosts::Secret::Draw();
  }
  const HostWatch::Info info{
      .name = asked.name,
      .version = asked.version,
      .policy = asked.waits ? hosts::OnPartition::kWait : hosts::OnPartition::kStop};
  if (absl::Status refusal = Refusal(job.watch.Join(hosts::BootNow(), host, info), asked);
      !refusal.ok()) {
    return refusal;
  }
  const hosts::HostContact::Table table = job.watch.TableOf(host);
  JoinHostsReply reply = {.port = socket_->port(),
                          .key = job.secret.key,
                          .version = table.version,
                          .interval_us = absl::ToInt64Microseconds(terms_.interval),
                          .timeout_us = absl::ToInt64Microseconds(terms_.timeout)};
  reply.secret.data = job.secret.bytes;
  for (const HostId peer : table.peers) {
    const auto reached = job.reached.find(peer);
    reply.peers.push_back(
        {.host = peer.value(),
         .address = reached == job.reached.end() ? "" : hosts::ToText(reached->second.at)});
  }
  return reply;
}

void HostPulse::Leave(const std::string& name, HostId host) {
  const MutexLock lock(mutex_);
  const auto job = jobs_.find(name);
  if (job == jobs_.end()) return;
  job->second.watch.Leave(host);
  job->second.reached.erase(host);
  ForgetIfEmpty(name);
}

void HostPulse::ForgetIfEmpty(const std::string& name) {
  const auto job = jobs_.find(name);
  if (job == jobs_.end() || !job->second.watch.empty()) return;
  job_of_key_.erase(job->second.secret.key);
  jobs_.erase(job);
}

void HostPulse::JobDeleted(const std::string& name) {
  const MutexLock lock(mutex_);
  const auto job = jobs_.find(name);
  if (job == jobs_.end()) return;
  job_of_key_.erase(job->second.secret.key);
  jobs_.erase(job);
}

bool HostPulse::CanLose(const std::string& name, HostId host) const {
  const MutexLock lock(mutex_);
  const auto job = jobs_.find(name);
  return job != jobs_.end() && job->second.watch.CanLose(host);
}

HostPulse::Sight HostPulse::Look(const std::string& name, size_t most) const {
  const MutexLock lock(mutex_);
  const auto job = jobs_.find(name);
  if (job == jobs_.end()) return {};
  Sight sight{.hosts = {}, .total = job->second.watch.size()};
  for (HostWatch::View& view : job->second.watch.Look(hosts::BootNow(), most)) {
    const auto reached = job->second.reached.find(view.id);
    View& shown = sight.hosts.emplace_back(View{.is = std::move(view)});
    if (reached == job->second.reached.end()) continue;
    shown.address = hosts::ToText(reached->second.at);
    shown.clock_ahead = reached->second.clock_ahead;
  }
  return sight;
}

void HostPulse::Turn() {
  Time now = hosts::BootNow();
  if (now < next_tick_) socket_->Wait(next_tick_ - now);
  std::vector<News> news;
  {
    const MutexLock lock(mutex_);
    // What came while nobody looked is read before anybody is given up for it.
    for (int i = 0; i < kDatagramsATurn; ++i) {
      const auto received = socket_->Receive();
      if (!received) break;
      Take(received->first, received->second);
    }
    now = hosts::BootNow();
    if (now >= next_tick_) {
      next_tick_ = now + hosts::kTickEvery;
      news = Tick(now);
    }
  }
  for (News& each : news) tell_(std::move(each));
}

void HostPulse::Take(const std::string& datagram, const hosts::DatagramSocket::Endpoint& from) {
  const auto key = hosts::KeyOf(datagram);
  if (!key) return;
  const auto named = job_of_key_.find(*key);
  if (named == job_of_key_.end()) return;
  Job& job = jobs_.at(named->second);
  const auto packet = hosts::Unseal(job.secret, datagram);
  const auto* const ping = packet ? std::get_if<hosts::Ping>(&*packet) : nullptr;
  if (ping == nullptr) return;
  const std::optional<hosts::Ack> ack = job.watch.Handle(hosts::BootNow(), *ping);
  if (!ack) return;
  // Its newest address: a host may get another one.
  if (!ack->lost) job.reached.insert_or_assign(ping->from, Job::Reached{from, ClockAhead(*ping)});
  socket_->Send(hosts::Seal(job.secret, *ack), from);
}

std::vector<HostPulse::News> HostPulse::Tick(Time now) {
  std::vector<News> all;
  for (auto& [name, job] : jobs_) {
    for (HostWatch::News& news : job.watch.Tick(now)) {
      if (news.kind == HostWatch::News::Kind::kForgotten) job.reached.erase(news.host);
      all.push_back({.job = name, .is = std::move(news)});
    }
  }
  for (const News& news : all) ForgetIfEmpty(news.job);
  return all;
}

}  // namespace lockstep::server
