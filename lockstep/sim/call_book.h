// All requests of a run and what became of them. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/events.h"

namespace lockstep::sim {

// A request that the server has taken and not yet answered.
struct OpenCall {
  CallId call;
  Time since;
  int64_t step = 0;  // in which it arrived
  coord::Event event;
};

// A call and the answer that it got in this step. The reply outlives the step only as a copy.
struct AnsweredCall {
  OpenCall asked;
  const coord::Reply* reply = nullptr;
};

// Counts every request against its one answer, and shows the checkers what is parked.
//
// Bounds: open calls by what the clients send; one number for each call that was ever answered.
class CallBook {
 public:
  // An event comes, and these are its effects. Returns what is wrong with the answers, if anything:
  // to no call, to one answered before, to one whose caller had left, not of the kind asked for, or
  // late where nothing is to be waited for.
  std::string Record(int64_t step, Time now, const coord::Event& event,
                     const coord::Effects& effects);

  const std::map<CallId, OpenCall>& open() const { return open_; }
  // Whose caller left in the last step, unless it was answered before.
  const std::optional<OpenCall>& left() const { return left_; }
  // Answered in the last step, in the order of the replies.
  const std::vector<AnsweredCall>& answered() const { return answered_; }

 private:
  std::string RecordAnswer(const coord::Reply& reply);

  std::map<CallId, OpenCall> open_;
  std::unordered_set<uint64_t> answered_ever_;  // looked up only, as is the next
  std::unordered_set<uint64_t> left_ever_;
  std::vector<AnsweredCall> answered_;
  std::optional<OpenCall> left_;
};

}  // namespace lockstep::sim
