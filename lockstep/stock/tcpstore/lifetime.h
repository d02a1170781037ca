// Until when the keys of a store live: who is of the same attempt as those who set them. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "lockstep/base/time.h"
#include "lockstep/stock/tcpstore/commands.h"
#include "lockstep/stock/tcpstore/connection_rest.h"
#include "lockstep/stock/tcpstore/launched_members.h"
#include "lockstep/stock/tcpstore/process_groups.h"

namespace lockstep::tcpstore {

// Of a process of the attempt somebody may come at any time and ask for what another, that has gone
// long ago, has set. So keys are forgotten only by who knows, or by who can be no other.
//
// Under a launcher, which asked for the store by its attempt's number or tells of processes: when
// all members of the attempt have been started and have ended, and nobody is connected.
//
// Without: at the first request after a rest with nobody connected, if it looks like a new run:
// as many processes as the job has ranks have come since the keys were last forgotten, it is the
// one by which stock clients begin (ADD of 1 to `init/`), and comes from a process that is none of
// those. A process is known by its host and by the pid that stock clients PING with. In doubt the
// keys stay, within the bounds of the store.
//
// Either way, those of the default process group go when it is made anew (ProcessGroups).
//
// Threads: thread-compatible. Bounds: kProcessesPerRank processes for each rank, and
// kProcessesLeast; with more nobody is sure to be new. Newcomers and members: those that there are.
class Lifetime {
 public:
  static constexpr size_t kProcessesPerRank = 4;
  static constexpr size_t kProcessesLeast = 64;

  // `ranks`: of the job.
  Lifetime(absl::Duration rest, int32_t ranks)
      : ranks_(ranks), members_(ranks), rest_(rest), groups_(ProcessesMax()) {}

  // An attempt begins, whose store is empty. `launched`: by a launcher.
  void Begin(bool launched);
  // A launcher has asked for the store of the current attempt by its number.
  void Launched() { members_.Launched(); }

  // What launchers tell. The attempt that is asked for next has so many members; else all.
  void RunBegan(int32_t size) { members_.RunBegan(size); }
  // Before `ProcessEnded` of the same pid. Of a member that the job does not have: ignored.
  void ProcessStarted(int32_t member, int64_t pid) { members_.ProcessStarted(member, pid); }
  // True: nobody of the attempt is left, so that its keys are to be forgotten.
  [[nodiscard]] bool ProcessEnded(int32_t member, int64_t pid);

  // A client has said its first word; `host` is where it calls from.
  void Came(Time now, ConnectionId connection, std::string host);
  // What is to be forgotten before the command is carried out: all keys, as it is the first of a
  // new run; or those of the default process group, of which a new one begins.
  enum class Forget { kNothing, kGroup, kAll };
  // Once for each command, before the store sees it. In doubt kNothing.
  [[nodiscard]] Forget Asks(ConnectionId from, const Command& command) {
    if (!newcomers_.empty() && AsksFirst(from, command)) return Forget::kAll;
    return groups_.Asks(from, command) ? Forget::kGroup : Forget::kNothing;
  }
  // True: as for `ProcessEnded`.
  [[nodiscard]] bool Left(Time now, ConnectionId connection);

 private:
  bool AsksFirst(ConnectionId from, const Command& command);
  bool IsNewRun(const Process& process, const Command& command) const;
  bool IsOver();
  size_t ProcessesMax() const {
    return kProcessesLeast + kProcessesPerRank * static_cast<size_t>(ranks_);
  }

  const int32_t ranks_;
  LaunchedMembers members_;
  ConnectionRest rest_;
  ProcessGroups groups_;
  // Neither is iterated for effects.
  absl::flat_hash_map<ConnectionId, Process> newcomers_;  // they have yet to ask for something
  absl::flat_hash_set<Process> processes_;  // that came since the keys were last forgotten
};

}  // namespace lockstep::tcpstore
