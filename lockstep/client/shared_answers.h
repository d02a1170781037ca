// Which requests the answer to another one answers as well (AlsoAnswered). Pure.
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "lockstep/client/session_call.h"
#include "lockstep/platform/link/frame.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/coordination_messages.h"

namespace lockstep::client {

// Keeps the lists of one link until the answers come that they belong to. The numbers are the
// server's word: they may be of no request.
//
// Threads: thread-compatible. Bounds: the caller's, in all lists together.
class SharedAnswers {
 public:
  // False: it is no such list, or one that may not be, or there are more than `most` numbers.
  bool Take(const link::Message& message, size_t most) {
    if (message.type != link::FrameType::kAlsoAnswered) return false;
    auto list = wire::native::Decode<wire::native::AlsoAnswered>(message.payload);
    if (!list.ok() || list->requests.empty() || held_ + list->requests.size() > most) return false;
    const size_t count = list->requests.size();
    if (!lists_.try_emplace(message.id, std::move(list->requests)).second) return false;
    held_ += count;
    return true;
  }
  // Of the request whose answer has come.
  std::vector<RequestNumber> OthersOf(RequestNumber answered) {
    auto list = lists_.extract(answered);
    if (list.empty()) return {};
    held_ -= list.mapped().size();
    return std::move(list.mapped());
  }
  // Their answers come no more.
  void LinkLost() {
    lists_.clear();
    held_ = 0;
  }

 private:
  std::map<RequestNumber, std::vector<RequestNumber>> lists_;
  size_t held_ = 0;
};

}  // namespace lockstep::client
