#include "lockstep/server/fan_out_book.h"

#include <algorithm>
#include <utility>

#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/stock_call_messages.h"

namespace lockstep::server {

using link::LinkId;
using wire::native::StockCallReply;

FanOutTree::FanOutTree(Secret secret, const Bytes& answer, std::vector<Host> hosts, FanOutPlan plan)
    : secret_(std::move(secret)),
      size_(answer->size()),
      hosts_(std::move(hosts)),
      plan_(std::move(plan)) {
  StockCallReply reply;
  reply.fan_out = {.ticket = {secret_.ticket},
                   .key = {secret_.key},
                   .size = static_cast<int64_t>(size_),
                   .from = {},
                   .answer = {answer}};
  whole_ = std::make_shared<const std::string>(wire::native::Encode(reply));
}

FanOutTree::Bytes FanOutTree::MessageFor(size_t host) const {
  const size_t parent = plan_.ParentOf(host);
  if (parent == FanOutPlan::kServer) return whole_;
  StockCallReply reply;
  reply.fan_out = {.ticket = {secret_.ticket},
                   .key = {secret_.key},
                   .size = static_cast<int64_t>(size_),
                   .from = hosts_[parent].at,
                   .answer = {}};
  return std::make_shared<const std::string>(wire::native::Encode(reply));
}

LinkId FanOutTree::ParentOf(LinkId child) const {
  const auto found = std::find_if(hosts_.begin(), hosts_.end(),
                                  [child](const Host& host) { return host.link == child; });
  if (found == hosts_.end()) return LinkId();
  const size_t parent = plan_.ParentOf(static_cast<size_t>(found - hosts_.begin()));
  return parent == FanOutPlan::kServer ? LinkId() : hosts_[parent].link;
}

void FanOutBook::Joined(LinkId link, const void* job, std::string at) {
  agents_[link] = {.job = job, .at = std::move(at), .direct_until = {}, .idle_until = {}};
}

void FanOutBook::JobDeleted(const void* job) {
  absl::erase_if(agents_, [job](const auto& agent) { return agent.second.job == job; });
  std::erase_if(kept_, [this, job](const Kept& kept) {
    if (kept.job != job) return false;
    bytes_ -= kept.tree->bytes();
    return true;
  });
}

std::shared_ptr<const FanOutTree> FanOutBook::Begin(Time now, FanOutTree::Secret secret,
                                                    const FanOutTree::Bytes& answer,
                                                    const std::vector<LinkId>& links) {
  Expire(now);
  std::vector<FanOutTree::Host> hosts;
  std::vector<FanOutPlan::Host> roles;
  hosts.reserve(links.size());
  roles.reserve(links.size());
  const void* job = nullptr;
  for (const LinkId link : links) {
    const auto found = agents_.find(link);
    if (found == agents_.end()) {
      hosts.push_back({.link = link, .at = {}});
      roles.push_back({.direct = true, .serves = false});
      continue;
    }
    const Agent& agent = found->second;
    job = agent.job;
    hosts.push_back({.link = link, .at = agent.at});
    roles.push_back({.direct = now < agent.direct_until, .serves = now >= agent.idle_until});
  }
  auto tree = std::make_shared<const FanOutTree>(std::move(secret), answer, std::move(hosts),
                                                 FanOutPlan(roles, options_.shape));
  while (!kept_.empty() &&
         (kept_.size() >= options_.kept_max || bytes_ + tree->bytes() > options_.kept_bytes_max)) {
    ForgetOldest();
  }
  const size_t told = links.size() - tree->plan().roots();
  counts_.answers += told;
  counts_.bytes += told * answer->size();
  bytes_ += tree->bytes();
  kept_.push_back({.tree = tree, .job = job, .until = now + options_.kept_for});
  return tree;
}

FanOutTree::Bytes FanOutBook::Fetch(Time now, LinkId link, std::string_view ticket) {
  Expire(now);
  const auto agent = agents_.find(link);
  if (agent == agents_.end()) return nullptr;
  ++counts_.fallbacks;
  // Also when the answer is gone, so that the calls that follow are answered by the server.
  agent->second.direct_until = now + options_.distrust;
  const auto kept = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& each) {
    return each.job == agent->second.job && each.tree->ticket() == ticket;
  });
  if (kept == kept_.end()) return nullptr;
  const auto parent = agents_.find(kept->tree->ParentOf(link));
  if (parent != agents_.end()) parent->second.idle_until = now + options_.distrust;
  return kept->tree->whole();
}

void FanOutBook::Expire(Time now) {
  while (!kept_.empty() && kept_.front().until <= now) ForgetOldest();
}

void FanOutBook::ForgetOldest() {
  bytes_ -= kept_.front().tree->bytes();
  kept_.pop_front();
}

}  // namespace lockstep::server
