// The launcher's side of a node group: what it is told by the server, and what it says there.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "lockstep/platform/link/client_link.h"
#include "lockstep/platform/link/servers.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/wire/native/node_group_messages.h"

namespace lockstep::launch {

// Polls, over a link that it makes and makes again when it breaks, and sends words in order until
// they are answered.
//
// Threads: loop-confined. Destroy it when the loop has stopped. `loop` must outlive it.
class NodeGroupLink {
 public:
  struct Callbacks {
    // An attempt begins, is called off, or the run has ended; each once and in order.
    std::function<void(const wire::native::PollNodeGroupReply&)> told;
    // The server does not take us, or not any more. Nothing follows.
    std::function<void(const absl::Status&)> refused;
    // The server is away, for this reason, or (empty) there again.
    std::function<void(const std::string& why)> lost;
    // For people: for whom an attempt waits; that the server is away, and back.
    std::function<void(std::string)> say;
  };

  // `address`: as link::Servers::Read takes it. `self`: who we are and what we want of the run.
  NodeGroupLink(runtime::Loop& loop, std::string address, wire::native::PollNodeGroup self,
                Callbacks callbacks);
  ~NodeGroupLink();

  // Free ports of this host for each process, by which those of other nodes reach it: at the
  // address that the server reaches us at. Before `Start`.
  void OfferPorts(std::vector<uint16_t> ports) { ports_ = std::move(ports); }

  // Once. Dials from now on, again and again, until it is refused or has left.
  void Start();

  // A process failed, and with it the attempt; `failure`: how, without who and when.
  void TellFailed(std::string text, int32_t exit_code, std::string failure = "");
  // All processes of the attempt have ended; `text`: what that exit code means, if it is no
  // failure.
  void TellOver(int32_t exit_code, bool again, std::string text = "");
  // We go; calls `done` when the server knows, or in `kLeaveTimeout`.
  void Leave(absl::AnyInvocable<void()> done);

 private:
  // One that broke leaves nothing behind.
  struct Connection {
    std::shared_ptr<link::ClientLink> link;
    bool ready = false;
    bool polling = false;
    bool sending = false;  // the first of the words
  };
  // When to connect or to ask again, and whom.
  struct Redial {
    runtime::Timer timer;
    absl::Duration backoff;
    std::shared_ptr<link::Servers> servers = nullptr;  // null before the first link
  };
  struct Leaving {
    runtime::Timer timer;
    absl::AnyInvocable<void()> done;  // null: it does not leave, or has left
  };

  void Dial();
  void NameAddresses();
  void LinkClosed(const absl::Status& why);
  void Poll();
  void Polled(absl::StatusOr<std::string> answer);
  void Take(const wire::native::PollNodeGroupReply& reply);
  void Tell(wire::native::TellNodeGroup word);
  void SendWord();
  void Left();

  runtime::Loop& loop_;
  const std::string address_;
  wire::native::PollNodeGroup self_;
  std::vector<uint16_t> ports_;
  Callbacks callbacks_;
  Redial redial_;
  Connection connection_;
  bool ended_ = false;     // nothing more is asked
  bool troubled_ = false;  // said so already
  std::deque<wire::native::TellNodeGroup> words_;
  std::string waits_for_;  // said already
  Leaving leaving_;
};

}  // namespace lockstep::launch
