// What the native clients of a simulation asked and were told, and whether it can be. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/coord/effects.h"
#include "lockstep/sim/linearizable.h"

namespace lockstep::sim {

// One history for all clients, in one order of questions and answers. Checked at the end: what a
// server that died took back shows only in what somebody sees later.
//
//   keys        each key of each attempt is linearizable: no acknowledged write is lost, none
//               happens twice
//   barriers    nobody passes before all have arrived; all are told the same, values included, and
//               are told it again when they ask again
//   agreements  all hear of one index, which nobody had passed, on the stride
//   watches     who follows the changes of the keys sees them in order, and ends with what is there
//   members     an index is one process's at a time
class History {
 public:
  using Id = size_t;

  // The next place in the order of all things.
  int64_t Tick() { return ++ticks_; }

  Id Ask(ServiceIncarnation service, const std::string& key, KeyOperation operation);
  void Answer(Id id, bool done, std::optional<std::string> result);
  bool Full(ServiceIncarnation service, const std::string& key) const;

  void Arrive(ServiceIncarnation service, const std::string& barrier, int64_t counter,
              MemberIndex member, const std::string& value);
  void Passed(ServiceIncarnation service, const std::string& barrier, int64_t counter,
              MemberIndex member, const coord::MemberValues& values);
  void Propose(ServiceIncarnation service, const std::string& name, int64_t counter,
               MemberIndex member, int64_t index, int64_t stride);
  void Agreed(ServiceIncarnation service, const std::string& name, int64_t counter,
              MemberIndex member, int64_t index);
  void Watched(ServiceIncarnation service, const std::string& who, const coord::KeysChanged& news);
  void InAs(ServiceIncarnation service, MemberIndex member, uint64_t incarnation);

  // Empty, or the rule that is broken and how. `size`: of the job.
  std::string Check(int32_t size) const;

  int64_t answered() const { return answered_; }
  int64_t passed() const { return passed_; }

 private:
  using Instance = std::tuple<uint64_t, std::string, int64_t>;  // service, id, counter
  struct Barrier {
    std::map<MemberIndex, std::pair<int64_t, std::string>> arrivals;
    int64_t first_passed = 0;
    std::string told;  // the values, as text
  };
  struct Agreement {
    std::map<MemberIndex, int64_t> proposals;
    int64_t told = 0;      // the greatest proposal of those who were told; others may have died
    int64_t greatest = 0;  // of all
    int64_t stride = 1;
    std::optional<int64_t> index;
  };
  struct Watcher {
    int64_t revision = 0;
    std::map<std::string, std::string> keys;
  };

  void Wrong(std::string text) {
    if (wrong_.empty()) wrong_ = std::move(text);
  }

  int64_t ticks_ = 0;
  int64_t answered_ = 0;
  int64_t passed_ = 0;
  std::map<std::pair<uint64_t, std::string>, std::vector<KeyOperation>> keys_;
  std::vector<std::pair<std::pair<uint64_t, std::string>, size_t>> places_;
  std::map<Instance, Barrier> barriers_;
  std::map<Instance, Agreement> agreements_;
  std::map<std::pair<uint64_t, std::string>, Watcher> watchers_;
  // What was watched at each revision of each key: the same by all.
  std::map<std::tuple<uint64_t, int64_t, std::string>, std::optional<std::string>> changes_;
  // What all keys were at each revision that a watcher was told: the same to all.
  std::map<std::pair<uint64_t, int64_t>, std::map<std::string, std::string>> states_;
  std::map<std::pair<uint64_t, MemberIndex>, uint64_t> members_;
  std::string wrong_;
};

}  // namespace lockstep::sim
