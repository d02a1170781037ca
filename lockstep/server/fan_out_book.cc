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

std::string FanOutTree::ParentOf(LinkId child) const {
  const auto found = std::find_if(hosts_.begin(), hosts_.end(),
                                  [child](const Host& host) { return host.link == child; });
  if (found == hosts_.end()) return "";
  const size_t parent = plan_.ParentOf(static_cast<size_t>(found - hosts_.begin()));
  return parent == FanOutPlan::kServer ? "" : hosts_[parent].at;
}

void FanOutBook::Joined(LinkId link, const void* job, std::string at) {
  agents_[link] = {.job = job, .at = std::move(at)};
}

FanOutBook::Distrust* FanOutBook::DistrustOf(const void* job, const std::string& at) {
  if (at.empty()) return nullptr;
  if (distrusted_.size() >= options_.distrusted_max && !distrusted_.contains({job, at})) {
    return nullptr;
  }
  return &distrusted_[{job, at}];
}

void FanOutBook::JobDeleted(const void* job) {
  absl::erase_if(distrusted_, [job](const auto& each) { return each.first.first == job; });
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
    const auto distrust =
        distrusted_.empty() ? distrusted_.end() : distrusted_.find({agent.job, agent.at});
    const bool trusted = distrust == distrusted_.end();
    roles.push_back({.direct = !trusted && now < distrust->second.direct_until,
                     .serves = trusted || now >= distrust->second.idle_until});
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
  const void* const job = agent->second.job;
  if (Distrust* const own = DistrustOf(job, agent->second.at)) {
    own->direct_until = now + options_.distrust;
  }
  const auto kept = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& each) {
    return each.job == job && each.tree->ticket() == ticket;
  });
  if (kept == kept_.end()) return nullptr;
  if (Distrust* const parent = DistrustOf(job, kept->tree->ParentOf(link))) {
    parent->idle_until = now + options_.distrust;
  }
  return kept->tree->whole();
}

void FanOutBook::Expire(Time now) {
  while (!kept_.empty() && kept_.front().until <= now) ForgetOldest();
  if (distrusted_.empty() || now < distrust_swept_ + options_.distrust) return;
  distrust_swept_ = now;
  absl::erase_if(distrusted_, [now](const auto& each) {
    return each.second.direct_until <= now && each.second.idle_until <= now;
  });
}

void FanOutBook::ForgetOldest() {
  bytes_ -= kept_.front().tree->bytes();
  kept_.pop_front();
}

}  // namespace lockstep::server
