// Answers to calls of stock clients that agents passed on.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "lockstep/platform/link/server.h"
#include "lockstep/wire/native/stock_call_messages.h"

namespace lockstep::server {

// Encodes once what many wait for, such as the end of a barrier or a value, and sends it once over
// each link whose session takes one answer to several requests: a host gets one copy for all of its
// processes.
//
// Threads: loop-confined. Bounds: the calls that were added. Whoever adds sends soon.
class SharedAnswers {
 public:
  // Requests that one answer answers, so that the list of them fits into a frame.
  static constexpr size_t kRequestsMax = 1024;

  // `shares`: the link's session takes such answers. Sent now, or later with others.
  void Add(link::Responder responder, wire::native::StockCallReply reply, bool shares);
  // Sends what was held back, over at most so many links. False: nothing was.
  bool SendSome(size_t links_max);
  void SendAll();

 private:
  // Several requests of one link with the same answer.
  struct Group {
    std::shared_ptr<const std::string> bytes;
    std::vector<link::Responder> calls;
  };

  // Encoded; the same pointer as before if it is the same answer.
  std::shared_ptr<const std::string> Encoded(wire::native::StockCallReply reply);
  static void Send(Group group);

  wire::native::StockCallReply last_;
  std::shared_ptr<const std::string> last_bytes_;  // of `last_`; null: there is none
  std::vector<Group> groups_;                      // in the order of their first calls
  size_t sent_ = 0;                                // of `groups_`
  absl::flat_hash_map<link::LinkId, size_t> group_of_;
};

}  // namespace lockstep::server
