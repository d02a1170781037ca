// Whether the server that leads is dead: not silent, but gone from a host that lives.
#pragma once

#include <netdb.h>

#include <functional>
#include <string>
#include <thread>

#include "lockstep/base/mutex.h"
#include "lockstep/platform/etcd/transaction.h"

namespace lockstep::etcd {

// Holds a connection to the leader's address, over which nothing is said. When that breaks, and two
// more are refused, its process has gone: the host says so, at once. A leader that is stopped, cut
// off or slow refuses nothing.
//
// Owns a thread. Threads: thread-safe. Bounds: one connection; each wait ends within a
// second, but for the lookup of a name.
class LeaderProbe {
 public:
  // Called again and again while that is so, on the probe's thread.
  using Died = std::function<void(Revision leader)>;

  explicit LeaderProbe(Died died);
  ~LeaderProbe();
  LeaderProbe(const LeaderProbe&) = delete;
  LeaderProbe& operator=(const LeaderProbe&) = delete;

  // Who leads, HOST:PORT, and since when. Empty: nobody, or this server.
  void Watch(std::string address, Revision leader);

 private:
  struct Target {
    std::string address;
    Revision leader = 0;
    friend bool operator==(const Target&, const Target&) = default;
  };
  enum class Found { kConnected, kRefused, kUnknown };

  void Run();
  void Probe(const Target& target);
  // Until the connection breaks, or another target is watched.
  void Hold(int fd, const Target& target);
  Found Connect(const std::string& address, int& fd) const;
  static Found ConnectTo(const addrinfo& to, int& fd);
  bool Wanted(const Target& target) const;

  const Died died_;
  mutable Mutex mutex_;
  CondVar changed_;
  Target target_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lockstep::etcd
