// For tests: real members of etcd on this host.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/platform/etcd/location.h"

namespace lockstep::etcd {

// Starts so many members, with their data in memory where there is such a place, and ends them with
// this object. Ends the process when they cannot be started.
class EtcdMembers {
 public:
  // Whether this host has etcd (scripts/setup.sh etcd).
  static bool Available();

  // `arguments` are added to those of each member.
  explicit EtcdMembers(size_t count, std::vector<std::string> arguments = {});
  ~EtcdMembers();
  EtcdMembers(const EtcdMembers&) = delete;
  EtcdMembers& operator=(const EtcdMembers&) = delete;

  Location At(const std::string& prefix) const;
  size_t size() const { return members_.size(); }
  // Which one leads the others. Waits until one does.
  size_t Leader() const;

  // By SIGKILL. With `wipe` it has no data when it comes back.
  void Kill(size_t member, bool wipe = false);
  void Restart(size_t member);
  // SIGSTOP and SIGCONT.
  void Stop(size_t member);
  void Continue(size_t member);
  // Waits until it serves.
  void AwaitReady(size_t member) const;

 private:
  struct Member {
    int client_port = 0;
    int peer_port = 0;
    pid_t pid = 0;
  };
  void Start(Member& member);
  std::string NameOf(const Member& member) const;

  std::vector<std::string> arguments_;
  std::string directory_;
  std::vector<Member> members_;
};

}  // namespace lockstep::etcd
