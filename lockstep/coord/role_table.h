// The roles of a job: how they are called, and which members each has. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/ids.h"
#include "lockstep/coord/error.h"
#include "lockstep/coord/options.h"

namespace lockstep::coord {

// A role of the job: members `first` to `first + size - 1`.
struct RoleRecord {
  std::string name;
  int32_t first = 0;
  int32_t size = 0;
};

// The roles that the job was given never change. A job that was given none has one of all members,
// which its first member names; members of another attempt may name it otherwise.
//
// Threads: thread-compatible. Bounds: the roles of the options; label_bytes_max a name.
class RoleTable {
 public:
  // `options` must outlive it.
  explicit RoleTable(const CoordinatorOptions& options);

  const RoleRecord& Of(MemberIndex member) const;
  // Null: `role` is the one that a member calls so; the empty name is the only role there is.
  // RESOURCE_EXHAUSTED (limit_exceeded): the name is too long. INVALID_ARGUMENT (invalid_argument,
  // unknown_role): there is no such role. Roles that were not given get their name by `Settle`, not
  // here.
  ErrorPtr Find(const std::string& name, const RoleRecord** role) const;
  // A member that was let in calls its role so: with no roles given, that is their name from now
  // on, until `Unsettle`. Returns whether the name changes.
  bool Settle(const std::string& name);
  void Unsettle() { settled_ = false; }

  // `task/0 to task/3`, for each role.
  std::string NameMembers() const;

 private:
  const CoordinatorOptions& options_;
  std::vector<RoleRecord> roles_;
  bool settled_ = true;  // false: a name may still come
};

}  // namespace lockstep::coord
