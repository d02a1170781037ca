// Exchanges datagrams with the agents of all jobs, whatever the loop is busy with.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "asio/ip/address.hpp"
#include "lockstep/base/mutex.h"
#include "lockstep/hosts/net/datagram_socket.h"
#include "lockstep/hosts/net/seal.h"
#include "lockstep/hosts/net/steady_thread.h"
#include "lockstep/hosts/watch.h"
#include "lockstep/wire/native/hosts_messages.h"

namespace lockstep::server {

// Runs a HostWatch for each job that has agents, on a thread of its own, which begins with the
// first agent. A datagram counts only if the secret of its job proves it.
//
// Threads: thread-safe; `tell` is called on the thread, which it must not hold up. Bounds: those of
// HostWatch for each job; a job is forgotten with its last host.
class HostPulse {
 public:
  struct News {
    std::string job;
    hosts::HostWatch::News is;
  };

  // Where the agents' datagrams come: beside the link, at the same port if nobody has it.
  HostPulse(asio::ip::address host, uint16_t port, hosts::Terms terms,
            std::function<void(News)> tell);
  ~HostPulse();
  HostPulse(const HostPulse&) = delete;
  HostPulse& operator=(const HostPulse&) = delete;

  // FAILED_PRECONDITION (host_lost); RESOURCE_EXHAUSTED (limit_exceeded): hosts_max;
  // INVALID_ARGUMENT (invalid_argument): the number is 0, or a host of another job has it.
  absl::StatusOr<wire::native::JoinHostsReply> Join(const std::string& job,
                                                    const wire::native::JoinHosts& asked);
  void Leave(const std::string& job, hosts::HostId host);
  void JobDeleted(const std::string& job);

  // As HostWatch.
  bool CanLose(const std::string& job, hosts::HostId host) const;
  struct View {
    hosts::HostWatch::View is;
    std::string address;  // empty: it was not heard yet
    // By how much its wall clock is ahead of the server's, give or take half of the round
    // trip; absent: it was not told.
    std::optional<absl::Duration> clock_ahead;
  };
  struct Sight {
    std::vector<View> hosts;  // as HostWatch::Look
    size_t total = 0;
  };
  Sight Look(const std::string& job, size_t most) const;

 private:
  struct Job {
    explicit Job(hosts::Terms terms);

    hosts::Secret secret;
    hosts::HostWatch watch;
    // Where each was heard from last, and by how much its clock was ahead then.
    struct Reached {
      hosts::DatagramSocket::Endpoint at;
      std::optional<absl::Duration> clock_ahead;
    };
    std::map<hosts::HostId, Reached> reached;
  };

  static constexpr int kDatagramsATurn = 64;

  absl::Status Open() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Turn();
  void Take(const std::string& datagram, const hosts::DatagramSocket::Endpoint& from)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<News> Tick(Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetIfEmpty(const std::string& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const asio::ip::address host_;
  const uint16_t port_;
  const hosts::Terms terms_;
  const std::function<void(News)> tell_;

  mutable Mutex mutex_;
  std::unique_ptr<hosts::DatagramSocket> socket_;  // made before the thread, and not changed then
  std::map<std::string, Job> jobs_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint32_t, std::string> job_of_key_ ABSL_GUARDED_BY(mutex_);
  Time next_tick_;  // the thread's
  std::unique_ptr<hosts::SteadyThread> thread_;
};

}  // namespace lockstep::server
