// Which hosts of a job live, and when one that does not has certainly stopped. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/hosts/contact.h"
#include "lockstep/hosts/packets.h"
#include "lockstep/hosts/terms.h"

namespace lockstep::hosts {

// Hosts of one job: `hosts_max`.
inline constexpr size_t kHostsMax = 16384;

// The server's half of the agreement on lost hosts, for one job.
//
// A host is *lost* when it was not heard for `Terms::timeout`, while the server was heard by most
// hosts all the time, and is by more than half of that host's electorate (HostContact). So a server
// that is cut off itself, or was stopped, gives nobody up.
//
// A lost host is *stopped* when it can have no processes any more, even if nobody can reach it:
// more than half of its electorate, the server included, know that it is lost and no longer let it
// go on, and each of these last let it go on at least `Terms::timeout` + kSlack ago. So fewer than
// half have heard its agent for that long, and the agent has ended the processes by itself, if
// nobody told it to before. Only then may a process be started in the place of another.
//
// "Heard" means both ways: of a host's pings only those count that tell of an answer within
// `Terms::timeout`.
//
// Invariants: (1) lost hosts do not come back, under the same id; (2) who is lost is no peer.
//
// Threads: thread-compatible. Bounds: kHostsMax, lost ones of the last kVerdictsFor included.
// Time: as HostContact; that of an agent may differ.
class HostWatch {
 public:
  struct Info {
    std::string name;     // of the host
    std::string version;  // of the agent's program
    OnPartition policy = OnPartition::kStop;
  };
  struct View {
    HostId id;
    Info info;
    std::optional<absl::Duration> unheard;  // nothing: it was not heard yet
    absl::Duration round_trip;
    bool lost = false;
    uint32_t counted = 0;  // members of its electorate; 0: none yet
  };
  struct News {
    enum class Kind {
      kLost,
      kStopped,
      kForgotten,  // it was lost, or silent, so long ago that nothing more is told of it
    };
    Kind kind;
    HostId host;
    std::string name;
    absl::Duration unheard = absl::ZeroDuration();  // until it was lost
  };

  // `life`: a number that no other life of the server chose.
  HostWatch(uint64_t life, Terms terms) : terms_(terms), versions_(life) {}

  enum class Joined { kYes, kLost, kTooMany };
  // A host becomes a peer of others with its first ping. Who joined before changes what it says of
  // itself.
  Joined Join(Time now, HostId host, Info info);
  // Of a host that has joined.
  HostContact::Table TableOf(HostId host);
  // It ended by itself, or is not watched any longer.
  void Leave(HostId host);

  // The answer; nothing: the host has not joined, or the ping is an old one.
  std::optional<Ack> Handle(Time now, const Ping& ping);
  // To be called every kTickEvery.
  std::vector<News> Tick(Time now);

  // Whether its loss would be told, or was.
  bool CanLose(HostId host) const;
  // Nothing is known of any host, alive or lost.
  bool empty() const { return hosts_.empty() && lost_.empty(); }
  // The lost ones, then those that were silent for longest, `most` at most; and how many there are.
  std::vector<View> Look(Time now, size_t most = kHostsMax) const;
  size_t size() const { return hosts_.size() + lost_.size(); }

 private:
  using Peers = std::vector<HostId>;  // sorted
  // Of whom a host's electorate is a part, with itself and the server.
  struct Given {
    uint64_t version = 0;  // 0: none
    Peers peers;
  };
  struct Host {
    Info info;
    Time joined;
    bool introduced = false;  // it has pinged, so that its peers can be told where it is
    uint64_t version = 0;     // of its table
    // The table that it was told last, and the one before.
    Given given;
    Given given_before;
    // What it says.
    uint64_t number = 0;  // of its newest ping
    uint64_t electorate_version = 0;
    uint32_t counted = 0;
    absl::Duration round_trip;
    std::optional<Time> heard;
    std::optional<Time> let_go_on;  // when a ping of it was answered last
    // Of its peers, those that are lost and are not known to have stopped.
    std::vector<HostId> lost_peers;
  };
  struct Lost {
    Info info;
    Time since;
    Peers peers;
    uint32_t counted = 0;
    // When those who know that it is lost let it go on last, at the latest. The server is one.
    std::map<HostId, Time> let_go_on;
    bool stopped = false;
  };

  static constexpr absl::Duration kVerdictsFor = absl::Minutes(10);
  // A host that joined and is not heard, and that cannot be given up.
  static constexpr absl::Duration kSilentFor = absl::Minutes(30);
  // Between two ticks of a server that was awake all the time.
  static constexpr absl::Duration kLookedWithin = absl::Milliseconds(500);
  // Hosts that one tick gives up, calls stopped or forgets, each; the others have their turn in the
  // next.
  static constexpr size_t kChangesATick = 128;

  Peers PeersOf(HostId host) const;
  void TouchPeersOf(HostId host);
  bool IsFresh(Time now, const Host& host) const;
  void NoteSteadiness(Time now);
  // The peers of whom its electorate is a part; null: it has none that is known.
  static const Given* ElectorateOf(const Host& host);
  bool HasMost(Time now, const Host& host) const;
  bool HasStopped(Time now, const Lost& lost) const;
  std::vector<HostId> FindLost(Time now);
  void Lose(Time now, HostId id, std::vector<News>& news);
  // Its peers need not be asked about it any more.
  void NoteStopped(HostId id, Lost& lost);
  void Forget(Time now, std::vector<News>& news);
  bool InvariantsHold() const;

  const Terms terms_;
  uint64_t versions_;
  std::map<HostId, Host> hosts_;  // a ring, by ids
  std::map<HostId, Lost> lost_;
  // Since when the server has been heard by most hosts; nothing: it is not now.
  std::optional<Time> steady_since_;
  std::optional<Time> ticked_;
  HostId looked_;  // the last silent host whose electorate was looked at
};

}  // namespace lockstep::hosts
