// The heartbeats of a host's stock clients, answered here while the server is unreachable. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

namespace lockstep::agent {

// A stock client exits when its heartbeats go unanswered, even if the job is healthy. So a
// heartbeat is answered at once with the server's last answer to the same message, and then
// forwarded to refresh that answer. The first heartbeat gets the answer to the registration on its
// connection: the same bytes in every family (call_names_test.cc).
//
// Invariants: (1) of each message one heartbeat at most is under way to the server, once one was
// answered; (2) only a success is given twice.
//
// Threads: thread-compatible. Bounds: `messages_max`; beyond, heartbeats wait for the server.
class HeartbeatAnswers {
 public:
  // Of processes on one host, which send one message each: `heartbeat_messages_max`.
  static constexpr size_t kMessagesMax = 16'384;

  struct Reaction {
    const std::string* answer = nullptr;  // to be given now; null: the server's is awaited
    bool pass_on = true;                  // to the server
  };

  explicit HeartbeatAnswers(size_t messages_max = kMessagesMax) : messages_max_(messages_max) {}

  // A registration over this connection has succeeded.
  void Registered(uint64_t connection, const std::string& answer);
  // One has come. `message`: its method and bytes. The answer is good until the next call.
  Reaction Came(const std::string& message, uint64_t connection);
  // The server has answered one that was passed on; `code` says whether with a success.
  void Answered(const std::string& message, absl::StatusCode code, const std::string& answer);

 private:
  struct Entry {
    std::string answer;
    bool under_way = false;
  };
  // Makes room for one more; false: all are under way.
  bool MakeRoom();

  const size_t messages_max_;
  absl::flat_hash_map<std::string, Entry> entries_;  // of those that were answered with success
  absl::flat_hash_map<uint64_t, std::string> registered_;  // that have sent no heartbeat yet
};

}  // namespace lockstep::agent
