// Tells the server and other agents that this host lives, and this host when it is cut off.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/base/mutex.h"
#include "lockstep/client/engine.h"
#include "lockstep/hosts/contact.h"
#include "lockstep/hosts/net/datagram_socket.h"
#include "lockstep/hosts/net/seal.h"
#include "lockstep/hosts/net/steady_thread.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/work_thread.h"
#include "lockstep/wire/native/hosts_messages.h"

namespace lockstep::agent {

struct PulseOptions {
  std::string host;  // its name
  std::string version;
  hosts::OnPartition policy = hosts::OnPartition::kStop;
  uint64_t node = 0;  // of the launcher that started the agent; 0: none did
};

// Runs a HostContact on a thread of its own, which other work does not delay. It asks for the table
// of peers in the agent's session.
//
// Threads: made and destroyed on one thread; what it calls, it calls on threads of its own and of
// the library. Bounds: HostContact's, as many addresses as tables name, and a secret for
// each beside kKeysKept.
class Pulse {
 public:
  struct Events {
    // Once: this host has to stop its processes now.
    std::function<void(const std::string& why)> cut_off;
    std::function<void(std::string)> say;  // for the log
  };

  // UNAVAILABLE: no socket can be had.
  static absl::StatusOr<std::unique_ptr<Pulse>> Start(std::shared_ptr<client::Engine> engine,
                                                      PulseOptions options, Events events);
  // Nothing is asked any more, and nobody told that the host is cut off. Once.
  void Stop() { thread_.reset(); }
  // After `Stop`, and after the engine was closed: its answers come here.
  ~Pulse() = default;
  Pulse(const Pulse&) = delete;
  Pulse& operator=(const Pulse&) = delete;

 private:
  using Endpoint = hosts::DatagramSocket::Endpoint;
  // Where another is, and by which secret it knows us.
  struct Way {
    Endpoint at;
    uint32_t key = 0;
    // It has answered by this one. While that is another one, it may not have the newer one yet:
    // servers may come and go faster than hosts ask them for tables.
    std::optional<uint32_t> proven = std::nullopt;
  };

  // Secrets of lives of the server, and those that peers have answered by: peers that have not
  // found it again use an older one.
  static constexpr size_t kKeysKept = 4;
  static constexpr int kDatagramsATurn = 64;
  // While the server has no answer but an error.
  static constexpr absl::Duration kAskAgain = absl::Seconds(10);
  // Until somebody is told that no datagram of the server comes.
  static constexpr absl::Duration kComplainAfter = absl::Seconds(10);

  Pulse(std::shared_ptr<client::Engine> engine, PulseOptions options, Events events,
        hosts::DatagramSocket socket);
  void Turn();
  void Take(Time now, const std::string& datagram, const Endpoint& from)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether to ask for the table.
  bool Tick(Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Send(const hosts::Packet& packet, uint32_t key, const Endpoint& to)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const hosts::Secret* Find(uint32_t key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Ask();
  void Answered(absl::StatusOr<std::string> answer);
  // On a thread of its own: a name is looked up, which may take long.
  void FindServer(const wire::native::JoinHostsReply& reply);
  void ForgetSecrets() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeTable(const wire::native::JoinHostsReply& reply, const Endpoint& server)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HearsServer(Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Complain(std::string why);

  const std::shared_ptr<client::Engine> engine_;
  const PulseOptions options_;
  const Events events_;
  const hosts::HostId self_;

  mutable Mutex mutex_;
  hosts::DatagramSocket socket_;                                       // the thread's
  std::optional<hosts::HostContact> contact_ ABSL_GUARDED_BY(mutex_);  // after the first answer
  std::map<hosts::HostId, Way> ways_ ABSL_GUARDED_BY(mutex_);
  std::deque<hosts::Secret> secrets_ ABSL_GUARDED_BY(mutex_);  // the newest first
  struct {
    bool under_way = true;  // an answer
    Time asked;
    std::optional<Time> first_table;
    size_t tries = 0;  // of addresses that the server's name has
    bool complained = false;
  } asking_ ABSL_GUARDED_BY(mutex_);
  struct {
    Time next_tick;
    bool told_silent = false;
    bool told_cut_off = false;
  } turns_;  // the thread's
  std::unique_ptr<hosts::SteadyThread> thread_;
  runtime::WorkThread resolver_;  // the first to go
};

}  // namespace lockstep::agent
