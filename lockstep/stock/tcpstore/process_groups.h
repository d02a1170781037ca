// When the processes of a store make their default process group anew. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "lockstep/stock/tcpstore/commands.h"

namespace lockstep::tcpstore {

// A client's process: the host it calls from, and its pid, once it has said that.
using Process = std::pair<std::string, std::optional<uint32_t>>;

// Torch gives the keys of the default process group the same names each time it is made.
inline constexpr absl::string_view kGroupPrefix = "/default_pg/";

inline bool IsOfGroup(absl::string_view key) {
  return key.substr(0, kGroupPrefix.size()) == kGroupPrefix;
}
// Whether it asks for a key of the group, by its first key.
bool IsOfGroup(const Command& command);

// A program may destroy its process group and make it again, in the same processes. Then it must
// not find the keys of the group before: a rank would call where the other listened then, and be
// refused. The first process to make the next group tells: it has been in the current one, by a
// connection that it has closed, and now asks for a key of the group by another. Who follows it was
// in the group before, and so joins the current one.
//
// In doubt the keys stay: while a connection by which the process was in the current group is open
// (containers that share an address may have the same pid), and once more than `processes_max`
// processes were in groups.
//
// Threads: thread-compatible. Bounds: processes_max, and one entry for each connection.
class ProcessGroups {
 public:
  explicit ProcessGroups(size_t processes_max) : processes_max_(processes_max) {}

  // A stock client that knows the size of its world, as `init_process_group` makes one.
  void Came(ConnectionId connection, Process process) {
    outside_.emplace(connection, std::move(process));
  }
  // Before the command is carried out. True: a group begins, so that the keys of the one before are
  // to be forgotten first.
  [[nodiscard]] bool Asks(ConnectionId from, const Command& command) {
    return !outside_.empty() && IsOfGroup(command) && Joins(from);
  }
  // Its process stays known, as one that was in the group.
  void Left(ConnectionId connection);
  // All keys were forgotten.
  void Clear();

 private:
  struct Membership {
    uint64_t group = 0;
    size_t connections = 0;  // open ones, by which it is or was in a group
  };

  bool Joins(ConnectionId connection);

  const size_t processes_max_;
  uint64_t group_ = 0;  // the current one
  // None of these is iterated.
  absl::flat_hash_map<ConnectionId, Process> outside_;  // asked for no key of a group yet
  absl::flat_hash_map<ConnectionId, Process> inside_;
  absl::flat_hash_map<Process, Membership> processes_;
};

}  // namespace lockstep::tcpstore
