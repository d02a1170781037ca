#include "lockstep/coord/key_rights.h"

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/coord/key_name.h"

namespace lockstep::coord {
namespace {

// Besides operators, who may do everything.
enum class Who {
  kNobody,
  kLaunchers,
  kItsMember,  // the key is DIRECTORY/MEMBER
  kAll,
};

struct Row {
  absl::string_view directory;  // and what is below it
  Who reads = Who::kNobody;
  Who writes = Who::kNobody;
};

// The first row that fits counts. Whoever may write may read, too, since writes are answered with
// what is there. What not all may read begins with `_` (IsHidden).
constexpr Row kRows[] = {
    // Where processes are in their code, and their last lines of output: launchers ask and answer
    // (wire/native/stack_question.h).
    {"_stacks", Who::kLaunchers, Who::kLaunchers},
    // Where members find each other (wire/native/rendezvous_keys.h).
    {"lockstep/rendezvous/card", Who::kAll, Who::kItsMember},
    {"lockstep/rendezvous/report", Who::kAll, Who::kItsMember},
    {"lockstep/rendezvous/look", Who::kAll, Who::kLaunchers},
    {"lockstep", Who::kAll, Who::kNobody},
};
constexpr Row kOfHidden = {"", Who::kNobody, Who::kNobody};
constexpr Row kOfTheJob = {"", Who::kAll, Who::kAll};

constexpr bool OthersMayBeReadByAll() {
  for (const Row& row : kRows) {
    if (row.reads != Who::kAll && !IsHidden(row.directory)) return false;
  }
  return true;
}
static_assert(OthersMayBeReadByAll());

const Row& RowOf(absl::string_view key) {
  for (const Row& row : kRows) {
    if (IsAtOrBelow(key, row.directory)) return row;
  }
  return IsHidden(key) ? kOfHidden : kOfTheJob;
}

bool IsOfMember(absl::string_view key, absl::string_view directory,
                std::optional<MemberIndex> member) {
  return member && key == absl::StrCat(directory, "/", member->value());
}

ErrorPtr Refusal(const Caller& caller, KeyAccess access, absl::string_view key) {
  return MakeError(
      absl::StatusCode::kPermissionDenied, Reason::kNotPermitted,
      absl::StrCat("key ", QuotedKey(key), " is one of Lockstep's own, which a token of role ",
                   caller.standing == Standing::kTask ? "task" : "launch", " may not ",
                   access == KeyAccess::kRead ? "read" : "change",
                   ": choose a key that does not begin with '_' or 'lockstep/', or use a token of "
                   "another role"));
}

ErrorPtr Check(const Caller& caller, std::optional<MemberIndex> member, KeyAccess access,
               absl::string_view key) {
  if (caller.standing == Standing::kOperator) return nullptr;
  const KeyName name(key);
  if (MayAccess(caller.standing, member, access, name.view())) return nullptr;
  return Refusal(caller, access, name.view());
}

}  // namespace

bool MayAccess(Standing standing, std::optional<MemberIndex> member, KeyAccess access,
               absl::string_view key) {
  if (standing == Standing::kOperator) return true;
  const Row& row = RowOf(key);
  switch (access == KeyAccess::kRead ? row.reads : row.writes) {
    case Who::kNobody:
      return false;
    case Who::kLaunchers:
      return standing == Standing::kLauncher;
    case Who::kItsMember:
      return IsOfMember(key, row.directory, member);
    case Who::kAll:
      return true;
  }
  LOCKSTEP_CHECK(false);
}

ErrorPtr CheckKeys(const SetKey& request, std::optional<MemberIndex> member) {
  return Check(request.caller, member, KeyAccess::kWrite, request.key);
}

ErrorPtr CheckKeys(const CompareAndSetKey& request, std::optional<MemberIndex> member) {
  return Check(request.caller, member, KeyAccess::kWrite, request.key);
}

ErrorPtr CheckKeys(const IncrementKey& request, std::optional<MemberIndex> member) {
  return Check(request.caller, member, KeyAccess::kWrite, request.key);
}

ErrorPtr CheckKeys(const MaxKey& request, std::optional<MemberIndex> member) {
  return Check(request.caller, member, KeyAccess::kWrite, request.key);
}

ErrorPtr CheckKeys(const DeleteKey& request, std::optional<MemberIndex> member) {
  const bool everything = !request.only_key && KeyName(request.key).empty();
  if (everything && request.caller.standing != Standing::kOperator) {
    return MakeError(absl::StatusCode::kPermissionDenied, Reason::kNotPermitted,
                     "this would delete all keys, also Lockstep's own, which takes a token of role "
                     "operator: delete the job's own directories one by one");
  }
  return Check(request.caller, member, KeyAccess::kWrite, request.key);
}

ErrorPtr CheckKeys(const GetKey& request, std::optional<MemberIndex> member) {
  return Check(request.caller, member, KeyAccess::kRead, request.key);
}

ErrorPtr CheckKeys(const TryGetKey& request, std::optional<MemberIndex> member) {
  return Check(request.caller, member, KeyAccess::kRead, request.key);
}

ErrorPtr CheckKeys(const GetKeys& request, std::optional<MemberIndex> member) {
  if (request.caller.standing == Standing::kOperator) return nullptr;
  for (const std::string& key : request.keys) {
    // There may be a million, of which the machine takes fewer; and most are the job's.
    const size_t name = key.find_first_not_of('/');
    if (name == std::string::npos || key[name] != '_') continue;
    if (ErrorPtr refusal = Check(request.caller, member, KeyAccess::kRead, key)) return refusal;
  }
  return nullptr;
}

ErrorPtr CheckKeys(const ListKeys& request, std::optional<MemberIndex> member) {
  return Check(request.caller, member, KeyAccess::kRead, request.directory);
}

ErrorPtr CheckKeys(const WatchKeys& request, std::optional<MemberIndex> member) {
  return Check(request.caller, member, KeyAccess::kRead, request.key);
}

}  // namespace lockstep::coord
