// Which others an agent's host hears, and whether its processes may go on. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/hosts/packets.h"
#include "lockstep/hosts/terms.h"

namespace lockstep::hosts {

// What an agent does when it is cut off from most others.
enum class OnPartition {
  kStop,  // ends its processes, which may be started elsewhere then
  kWait,  // goes on, and the server waits for it
};

// The agent's half of the agreement on lost hosts; the server's is HostWatch. It pings the server
// and up to kPeersMax peers, and answers theirs. Its host has to stop ("fencing") when
//
// - the server, or a peer that heard it from the server, says that this host is lost; or
// - for `Terms::timeout` it was heard by less than half of its *electorate*: itself, the server,
//   and the peers that it has reached before.
//
// To let a host go on is to answer its ping without saying that it is lost. The server is one voice
// of several, so its absence stops nobody. HostWatch says why the server may rely on this.
//
// The electorate changes only by agreement: pings propose a new one, and until the server has
// answered one of these, the host stops if fewer than half of the old or of the new one hear it.
//
// Invariants: (1) who is told to stop stays so; (2) an answer counts from when its ping was sent;
// (3) who is known to be lost is let go on by no answer.
//
// Threads: thread-compatible. Bounds: kPeersMax peers, and those of two electorates before;
// kVerdictsKept lost hosts, kCallersKept that ping this one, kRoundsKept rounds.
// Time: on a clock that goes on while the machine sleeps; `now` must not go back between calls.
class HostContact {
 public:
  // From the server.
  struct Table {
    uint64_t version = 0;
    std::vector<HostId> peers;
  };
  // To be done after a look at the clock.
  struct Round {
    std::vector<Ping> pings;
    bool ask = false;  // the server for the table that is now this host's
  };
  struct View {
    size_t counted = 0;                // the electorate, this host included
    size_t heard = 0;                  // by these, within `Terms::timeout`
    std::optional<Time> server_heard;  // when a ping was sent that the server answered
  };

  HostContact(HostId self, Terms terms, OnPartition policy);

  void SetTable(Table table);
  // To be called every kTickEvery.
  Round Tick(Time now);
  // The answer; nothing: it is not for this host, or was answered before.
  std::optional<Ack> Handle(Time now, const Ping& ping);
  void Handle(Time now, const Ack& ack);
  // The server said so otherwise: this host is given up.
  void GivenUp();

  // Why this host has to stop; nothing: it need not. Sticky (1).
  const std::optional<std::string>& stops() const { return stops_; }
  View Look(Time now) const;

 private:
  struct Other {
    std::optional<Time> heard;  // when the last ping was sent that it answered (2)
    uint64_t acked = 0;         // that ping
  };
  using Electorate = std::set<HostId>;  // but this host

  static constexpr size_t kRoundsKept = 64;
  static constexpr size_t kVerdictsKept = 1024;
  static constexpr size_t kCallersKept = 1024;
  static constexpr absl::Duration kAskEvery = absl::Seconds(1);
  // While the server does not answer: it may be another life of it, which knows no host.
  static constexpr absl::Duration kAskSilentEvery = absl::Seconds(5);

  // The peers that are needed no longer are forgotten, new ones are known from now on.
  void KnowOthers();
  bool IsRoundDue(Time now) const;
  bool IsTableDue(Time now) const;
  void CheckElectorates(Time now);
  size_t CountHeard(Time now, const Electorate& electorate) const;
  // A change of the electorate, if one is due, is proposed from the next round on.
  void Propose();
  std::vector<Ping> Pings(Time now);
  void NoteLost(HostId host);
  void Stop(std::string why);
  bool InvariantsHold() const;

  const HostId self_;
  const Terms terms_;
  const OnPartition policy_;
  Table table_;
  std::map<HostId, Other> others_;  // the server, and the peers of the table and of electorates
  // Which the server knows, and which it is to know: with the table that it was taken from, and the
  // first round that proposed it.
  struct {
    Electorate agreed;
    std::optional<Electorate> proposed;
    uint64_t version = 0;
    uint64_t since_round = 0;
  } electorate_;
  struct {
    uint64_t number = 0;
    std::deque<std::pair<uint64_t, Time>> sent;  // by number
    std::optional<Time> last;
  } rounds_;
  // Of others that ping this host: the newest number, and when it was last told to go on.
  struct Caller {
    uint64_t number = 0;
    std::optional<Time> let_go_on;
  };
  std::map<HostId, Caller> callers_;
  std::deque<HostId> lost_;  // as the server said
  // Of these, those of which it wants to know when they were let go on last.
  std::vector<HostId> asked_about_;
  std::optional<Time> asked_;
  uint64_t wanted_version_ = 0;
  absl::Duration round_trip_;
  std::optional<std::string> stops_;
};

}  // namespace lockstep::hosts
