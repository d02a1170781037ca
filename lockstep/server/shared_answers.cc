#include "lockstep/server/shared_answers.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "lockstep/wire/native/codec.h"

namespace lockstep::server {

using wire::native::StockCallReply;

std::shared_ptr<const std::string> SharedAnswers::Encoded(StockCallReply reply) {
  if (last_bytes_ == nullptr || reply != last_) {
    last_bytes_ = std::make_shared<const std::string>(wire::native::Encode(reply));
    last_ = std::move(reply);
  }
  return last_bytes_;
}

void SharedAnswers::Send(Group group) {
  if (group.tree != nullptr) group.bytes = group.tree->MessageFor(group.host);
  link::Responder first = std::move(group.calls.front());
  std::vector<link::Responder> others;
  others.reserve(group.calls.size() - 1);
  for (size_t i = 1; i < group.calls.size(); ++i) others.push_back(std::move(group.calls[i]));
  first.SendForAll({.failed = false, .bytes = "", .shared = std::move(group.bytes)},
                   std::move(others));
}

void SharedAnswers::Add(link::Responder responder, StockCallReply reply, Takes takes) {
  if (!takes.shared) {
    // An agent of the time before shared answers knows no `answer_rest` either.
    reply.answer.data.append(std::exchange(reply.answer_rest, {}).view());
    return responder.Answer(wire::native::Encode(reply));
  }
  std::shared_ptr<const std::string> bytes = Encoded(std::move(reply));
  const auto [at, is_new] = group_of_.try_emplace(responder.link(), groups_.size());
  const bool joins = !is_new && groups_[at->second].bytes == bytes &&
                     groups_[at->second].calls.size() < kRequestsMax;
  if (!joins) {
    at->second = groups_.size();
    groups_.emplace_back().bytes = std::move(bytes);
  }
  Group& group = groups_[at->second];
  group.fan_out = group.fan_out && takes.fan_out;
  group.calls.push_back(std::move(responder));
}

void SharedAnswers::Plan() {
  if (fan_out_ == nullptr) return;
  // The groups of each answer, in the order of the first; there are few answers.
  std::vector<std::pair<const std::string*, std::vector<size_t>>> answers;
  absl::flat_hash_map<const std::string*, size_t> place_of;
  absl::flat_hash_set<std::pair<const std::string*, link::LinkId>> planned;
  for (size_t i = 0; i < groups_.size(); ++i) {
    const std::string* const bytes = groups_[i].bytes.get();
    // A link with very many calls has several groups, of which one takes part.
    if (!groups_[i].fan_out || !planned.emplace(bytes, groups_[i].calls.front().link()).second) {
      continue;
    }
    const auto [at, is_new] = place_of.try_emplace(bytes, answers.size());
    if (is_new) answers.push_back({bytes, {}});
    answers[at->second].second.push_back(i);
  }
  for (const auto& [bytes, groups] : answers) FanOutTo(groups);
}

void SharedAnswers::FanOutTo(const std::vector<size_t>& groups) {
  std::vector<link::LinkId> links;
  links.reserve(groups.size());
  for (const size_t group : groups) links.push_back(groups_[group].calls.front().link());
  const auto tree = fan_out_->Begin(groups_[groups.front()].bytes, links);
  if (tree == nullptr) return;
  // Whoever is asked by others hears of it first.
  std::vector<Group> ordered;
  ordered.reserve(groups.size());
  for (const size_t host : tree->plan().order()) {
    Group& group = ordered.emplace_back(std::move(groups_[groups[host]]));
    group.tree = tree;
    group.host = host;
  }
  for (size_t i = 0; i < groups.size(); ++i) groups_[groups[i]] = std::move(ordered[i]);
}

bool SharedAnswers::SendSome(size_t answers_max) {
  // No more calls join what is sent.
  group_of_.clear();
  last_ = {};
  last_bytes_ = nullptr;
  if (groups_.empty()) return false;
  if (sent_ == 0) Plan();
  const size_t end = std::min(groups_.size(), sent_ + answers_max);
  for (; sent_ < end; ++sent_) Send(std::move(groups_[sent_]));
  if (sent_ < groups_.size()) return true;
  groups_.clear();
  sent_ = 0;
  return true;
}

void SharedAnswers::SendAll() {
  while (SendSome(groups_.size())) continue;
}

}  // namespace lockstep::server
