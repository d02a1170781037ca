// Which long answers this agent has, fetches from another agent, and owes to others. Pure. The
// shell is value_exchange.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/time.h"

namespace lockstep::agent {

// The server has told this agent to have an answer from another agent (FanOut): it fetches it once
// for all calls that wait for it, and from the server when that takes too long. Others fetch the
// same answer here; one that comes before the answer does waits.
//
//   (told) --> Fetching --value--> Had --kept_for--> (gone)
//                 | failed, late
//                 v
//              Asking the server --value--> Had
//                 | gone
//                 v
//              (gone): the calls are made again
//
// Invariants: (1) every call that waits is ended exactly once; (2) an answer is fetched once, and
// asked of the server once; (3) nobody waits for an answer that is had; (4) every wait ends: that
// of a call at its deadline, or when the server has answered, that of another agent after
// Options::served_within.
//
// Threads: thread-compatible. Bounds: Options; answers that are on their way have a call that waits
// each, or agents to be served.
class PeerValues {
 public:
  using Ticket = std::string;  // 16 bytes
  using Value = std::shared_ptr<const std::string>;
  using CallNumber = uint64_t;
  using PeerNumber = uint64_t;

  struct Options {
    // Without progress until an answer is asked of the server instead: `fan_out_patience`.
    absl::Duration patience = absl::Seconds(1);
    // And in all, however it comes along: `fan_out_fetch_max`.
    absl::Duration fetch_max = absl::Seconds(15);
    // Who waits here for an answer hears so often that it is worth waiting.
    absl::Duration hint_every = absl::Milliseconds(250);
    // From the connection of another agent to its end.
    absl::Duration served_within = absl::Seconds(20);
    // How long an answer is kept for others.
    absl::Duration kept_for = absl::Seconds(20);
    // Agents that are connected at a time: `fan_out_peers_max`.
    size_t peers_max = 64;
    // Connections to other agents at a time: `fan_out_fetches_max`.
    size_t fetches_max = 64;
    // Of the answers that are kept, and of those that are fetched: `fan_out_held_bytes_max` each.
    size_t held_bytes_max = size_t{128} << 20;
  };

  // Where an answer comes from.
  struct Source {
    std::string key;  // it is encrypted with
    size_t size = 0;
    std::string from;  // HOST:PORT
  };
  enum class End { kValue, kAgain, kDeadline };

  // What is to be done.
  struct Effects {
    struct Fetch {
      Ticket ticket;
      Source source;
    };
    struct EndedCall {
      CallNumber call = 0;
      End end = End::kValue;
      Value value;  // of kValue
    };
    struct Serving {
      PeerNumber peer = 0;
      Ticket ticket;
      std::string key;
      Value value;
    };
    std::vector<Fetch> fetch;
    std::vector<Ticket> stop;        // fetches
    std::vector<Ticket> ask_server;  // FetchAnswer
    std::vector<EndedCall> ended;
    std::vector<Serving> serve;
    std::vector<PeerNumber> hint;   // that it is worth waiting
    std::vector<PeerNumber> close;  // connections, of which no more is heard
  };

  explicit PeerValues(Options options) : options_(options) {}

  // A call is answered by what `source` has. Numbers are new each time.
  void Told(Time now, const Ticket& ticket, Source source, CallNumber call, Time deadline,
            Effects& out);
  // The server has sent the answer itself, asked for it or not.
  void Given(Time now, const Ticket& ticket, Source source, Value value, Effects& out);
  // The server does not have it any more, or did not say.
  void ServerFailed(Time now, const Ticket& ticket, Effects& out);
  // Its caller has left; it was ended.
  void CallLeft(CallNumber call);

  // Of a fetch that was not stopped: some of it has come; all of it; it has failed.
  void Progressed(Time now, const Ticket& ticket);
  void Fetched(Time now, const Ticket& ticket, Value value, Effects& out);
  void FetchFailed(Time now, const Ticket& ticket, Effects& out);

  // Another agent has connected. False: there are too many.
  bool PeerCame(Time now, PeerNumber peer);
  void PeerAsked(Time now, PeerNumber peer, const Ticket& ticket, Effects& out);
  // Some of its answer is on its way.
  void PeerTook(Time now, PeerNumber peer);
  // It has gone, or has everything.
  void PeerLeft(Time now, PeerNumber peer);

  // At `NextDeadline`; too early is no harm.
  void ReachDeadline(Time now, Effects& out);
  Time NextDeadline() const;

  struct Sizes {
    size_t calls = 0;    // that wait
    size_t peers = 0;    // that are connected
    size_t answers = 0;  // that are had or on their way
  };
  Sizes sizes() const { return {ticket_of_.size(), peers_.size(), entries_.size()}; }

 private:
  enum class State { kFetching, kAsking, kHad };
  struct Entry {
    State state = State::kFetching;
    Source source;
    Value value;                       // kHad
    Time since;                        // of the fetch
    Time progressed;                   // of the fetch
    Time until;                        // kHad: for how long
    std::map<CallNumber, Time> calls;  // with their deadlines
    size_t serving = 0;
  };
  enum class Stage { kGreeting, kWaiting, kServed };
  struct Peer {
    Stage stage = Stage::kGreeting;
    Ticket ticket;
    Time since;  // it came
    Time moved;  // it said or took something, or was told to wait
  };
  using Entries = std::map<Ticket, Entry>;

  Time LateAt(const Entry& entry) const;
  Time LateAt(const Peer& peer) const;
  Time HintDue(const Peer& peer) const;
  // The fetch is over without the answer.
  void Fall(Entries::iterator entry, Effects& out);
  void Have(Time now, Entries::iterator entry, Value value, Effects& out);
  // Makes room for so many bytes more; false: there is none.
  bool MakeRoom(size_t bytes);
  void Serve(Time now, PeerNumber number, Peer& peer, Entry& entry, Effects& out);
  void CloseWaiting(const Ticket& ticket, Effects& out);
  void Erase(Entries::iterator entry);
  bool IsAwaited(const Ticket& ticket, const Entry& entry) const;
  void CheckInvariants() const;

  const Options options_;
  Entries entries_;
  std::map<CallNumber, Ticket> ticket_of_;  // of calls that wait
  std::map<PeerNumber, Peer> peers_;
  size_t had_bytes_ = 0;
  size_t fetched_bytes_ = 0;  // of what is being fetched, when it has come
};

}  // namespace lockstep::agent
