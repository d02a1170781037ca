#include "lockstep/server/shared_answers.h"

#include <algorithm>
#include <utility>

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
  link::Responder first = std::move(group.calls.front());
  std::vector<link::Responder> others;
  others.reserve(group.calls.size() - 1);
  for (size_t i = 1; i < group.calls.size(); ++i) others.push_back(std::move(group.calls[i]));
  first.SendForAll({.failed = false, .bytes = "", .shared = std::move(group.bytes)},
                   std::move(others));
}

void SharedAnswers::Add(link::Responder responder, StockCallReply reply, bool shares) {
  if (!shares) {
    // An agent of the time before shared answers knows no `answer_rest` either.
    reply.answer.data.append(std::exchange(reply.answer_rest, {}).view());
    return responder.Answer(wire::native::Encode(reply));
  }
  std::shared_ptr<const std::string> bytes = Encoded(std::move(reply));
  const auto [at, is_new] = group_of_.try_emplace(responder.link(), groups_.size());
  if (is_new) {
    groups_.emplace_back().bytes = std::move(bytes);
  } else if (Group& group = groups_[at->second];
             group.bytes != bytes || group.calls.size() == kRequestsMax) {
    Send(std::exchange(group, Group{.bytes = std::move(bytes), .calls = {}}));
  }
  groups_[at->second].calls.push_back(std::move(responder));
}

bool SharedAnswers::SendSome(size_t links_max) {
  // No more calls join what is sent.
  group_of_.clear();
  last_ = {};
  last_bytes_ = nullptr;
  if (groups_.empty()) return false;
  const size_t end = std::min(groups_.size(), sent_ + links_max);
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
