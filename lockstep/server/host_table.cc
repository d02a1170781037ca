#include "lockstep/server/host_table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/utf8.h"

namespace lockstep::server {

using hosts::HostId;
using wire::native::WithReason;

namespace {

// Beside a link at a name, or nowhere in the network, any address of this host.
hosts::DatagramSocket::Endpoint Beside(const std::string& link) {
  return hosts::ToEndpoint(link).value_or(
      hosts::DatagramSocket::Endpoint(asio::ip::address_v6::any(), 0));
}

}  // namespace

HostTable::HostTable(runtime::Loop& loop, runtime::MemoryAccount& memory, const std::string& beside,
                     hosts::Terms terms, Callbacks callbacks)
    : callbacks_(std::move(callbacks)),
      memory_(memory),
      share_(&memory, "agents", "hosts that are watched"),
      pulse_(Beside(beside).address(), Beside(beside).port(), terms,
             [this, &loop](HostPulse::News news) {
               loop.Post([this, news = std::move(news)] { Take(news); });
             }) {}

absl::StatusOr<wire::native::JoinHostsReply> HostTable::Join(const std::string& job,
                                                             SessionId agent, link::LinkId link,
                                                             const wire::native::JoinHosts& asked) {
  const HostId id(asked.host);
  const auto known = hosts_.find(id);
  if (known != hosts_.end() && (known->second.job != job || known->second.agent != agent)) {
    return WithReason(absl::InvalidArgumentError("another agent has this host's number"),
                      "invalid_argument");
  }
  if (known == hosts_.end() && !memory_.HasRoom(kHostBytes)) {
    return WithReason(absl::ResourceExhaustedError(memory_.Refusal(kHostBytes)), "memory_max");
  }
  if (const auto speaks = links_.find(link); speaks != links_.end() && speaks->second != id) {
    return WithReason(absl::InvalidArgumentError("this link already speaks for another host"),
                      "invalid_argument");
  }
  auto reply = pulse_.Join(job, asked);
  if (!reply.ok()) return reply;
  Host& host = hosts_[id];
  if (known != hosts_.end()) {
    links_.erase(host.link);
    // An agent may say another one each time.
    nodes_.erase({job, host.node});
  }
  host = {.job = job,
          .agent = agent,
          .node = node_group::NodeId(asked.node),
          .link = link,
          .waits = asked.waits};
  links_[link] = id;
  if (asked.node != 0) nodes_[{job, host.node}] = id;
  share_.Set(hosts_.size() * kHostBytes);
  return reply;
}

void HostTable::Ended(link::LinkId link, bool by_peer) {
  const auto speaks = links_.extract(link);
  if (speaks.empty() || !by_peer) return;
  const HostId id = speaks.mapped();
  const auto host = hosts_.find(id);
  // A host that is given up may still have to be waited for.
  if (host == hosts_.end() || host->second.lost) return;
  pulse_.Leave(host->second.job, id);
  Forget(id);
}

void HostTable::Forget(HostId id) {
  const auto host = hosts_.find(id);
  nodes_.erase({host->second.job, host->second.node});
  hosts_.erase(host);
  share_.Set(hosts_.size() * kHostBytes);
}

void HostTable::JobDeleted(const std::string& job) {
  pulse_.JobDeleted(job);
  std::erase_if(hosts_, [&job](const auto& each) { return each.second.job == job; });
  std::erase_if(nodes_, [&job](const auto& each) { return each.first.first == job; });
  absl::erase_if(links_, [this](const auto& each) { return !hosts_.contains(each.second); });
  share_.Set(hosts_.size() * kHostBytes);
}

void HostTable::Take(const HostPulse::News& news) {
  const auto found = hosts_.find(news.is.host);
  // It may have left meanwhile, and another job's host have come with its number.
  if (found == hosts_.end() || found->second.job != news.job) return;
  Host& host = found->second;
  const Loss loss{.job = host.job,
                  .name = news.is.name,
                  .agent = host.agent,
                  .node = host.node,
                  .unheard = absl::Trunc(news.is.unheard, kShown)};
  switch (news.is.kind) {
    case hosts::HostWatch::News::Kind::kLost:
      host.lost = true;
      return callbacks_.lost(loss);
    case hosts::HostWatch::News::Kind::kStopped:
      break;
    case hosts::HostWatch::News::Kind::kForgotten:
      return Forget(news.is.host);
  }
  callbacks_.stopped(loss);
}

void HostTable::Show(const coord::Coordinator& coordinator, wire::native::JobStatus& job) const {
  HostPulse::Sight sight = pulse_.Look(job.job, kHostsShownMax);
  if (sight.total == 0) return;
  job.hosts_total = static_cast<int64_t>(sight.total);
  for (HostPulse::View& view : sight.hosts) {
    wire::native::HostStatus& status = job.hosts.emplace_back();
    status.name = wire::native::ToUtf8(view.is.info.name);
    status.version = wire::native::ToUtf8(view.is.info.version);
    status.address = std::move(view.address);
    if (view.is.unheard) status.heard_ago_us = absl::ToInt64Microseconds(*view.is.unheard);
    status.round_trip_us = absl::ToInt64Microseconds(view.is.round_trip);
    status.lost = view.is.lost;
    status.electorate = view.is.counted;
    if (view.clock_ahead) status.clock_ahead_us = absl::ToInt64Microseconds(*view.clock_ahead);
    status.waits = view.is.info.policy == hosts::OnPartition::kWait;
    const auto known = hosts_.find(view.is.id);
    if (known == hosts_.end()) continue;
    status.members = static_cast<int64_t>(coordinator.CountConnected(known->second.agent));
  }
}

std::optional<absl::Duration> HostTable::GraceOf(const std::string& job,
                                                 node_group::NodeId node) const {
  const auto named = nodes_.find({job, node});
  const auto found = named == nodes_.end() ? hosts_.end() : hosts_.find(named->second);
  if (found == hosts_.end()) return std::nullopt;
  if (found->second.waits) return kWaitingGrace;
  return pulse_.CanLose(job, found->first) ? std::optional(kWatchedGrace) : std::nullopt;
}

}  // namespace lockstep::server
