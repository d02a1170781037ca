// Answers to calls of stock clients that agents passed on.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "lockstep/platform/link/server.h"
#include "lockstep/server/fan_out.h"
#include "lockstep/wire/native/stock_call_messages.h"

namespace lockstep::server {

// Encodes once what many wait for, such as the end of a barrier or a value, and sends it once over
// each link whose session takes one answer to several requests: a host gets one copy for all of its
// processes. Where very many hosts wait for a long value, most have it from each other (FanOut).
//
// Threads: loop-confined. Bounds: the calls that were added. Whoever adds sends soon.
class SharedAnswers {
 public:
  // Requests that one answer answers, so that the list of them fits into a frame.
  static constexpr size_t kRequestsMax = 1024;

  struct Takes {
    bool shared = false;   // the link's session takes one answer to several requests
    bool fan_out = false;  // and this one may come from another agent
  };

  // `fan_out`: outlives it; null: each host is sent all itself.
  explicit SharedAnswers(FanOut* fan_out) : fan_out_(fan_out) {}

  // Sent now, or later with others.
  void Add(link::Responder responder, wire::native::StockCallReply reply, Takes takes);
  // Sends so many of the answers that were held back, at most. False: there were none.
  bool SendSome(size_t answers_max);
  void SendAll();

 private:
  // Several requests of one link with the same answer.
  struct Group {
    std::shared_ptr<const std::string> bytes;
    std::vector<link::Responder> calls;
    bool fan_out = true;  // all of them take it so
    // Then, once it is planned; null: `bytes` is sent.
    std::shared_ptr<const FanOutTree> tree = nullptr;
    size_t host = 0;  // of the tree
  };

  // Encoded; the same pointer as before if it is the same answer.
  std::shared_ptr<const std::string> Encoded(wire::native::StockCallReply reply);
  // Replaces long answers to many by what their agents are told instead.
  void Plan();
  void FanOutTo(const std::vector<size_t>& groups);
  static void Send(Group group);

  FanOut* const fan_out_;
  wire::native::StockCallReply last_;
  std::shared_ptr<const std::string> last_bytes_;       // of `last_`; null: there is none
  std::vector<Group> groups_;                           // in the order of their first calls
  size_t sent_ = 0;                                     // of `groups_`
  absl::flat_hash_map<link::LinkId, size_t> group_of_;  // the last of a link
};

}  // namespace lockstep::server
