#include "lockstep/coord/wait_index.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/coord/job_record.h"

namespace lockstep::coord {
namespace {

// Of a key or an id in a text.
constexpr size_t kNameBytesShown = 80;

}  // namespace

void WaitIndex::Note(Time now, CallId call, MemberIndex member, Kind kind, std::string what) {
  // A call waits for one thing at a time.
  Forget(call);
  // A key may be long, and is kept a third time here.
  if (what.size() > kNameBytesShown) what = absl::StrCat(what.substr(0, kNameBytesShown), "...");
  Wait wait{.member = member, .kind = kind, .what = std::move(what), .since = now};
  // Before the wait is moved.
  by_member_.insert(PlaceOf(call, wait));
  waits_.emplace(call, std::move(wait));
  LOCKSTEP_DCHECK(waits_.size() == by_member_.size());
}

void WaitIndex::Forget(CallId call) {
  const auto found = waits_.find(call);
  if (found == waits_.end()) return;
  // Before the wait goes, of which the place is made.
  by_member_.erase(PlaceOf(call, found->second));
  waits_.erase(found);
  LOCKSTEP_DCHECK(waits_.size() == by_member_.size());
}

std::string WaitIndex::Describe(Time now, MemberIndex member) const {
  // The kind that tells most, and of that the newest.
  const auto first = by_member_.lower_bound({member, Kind::kBarrier, 0});
  if (first == by_member_.end() || std::get<0>(*first) != member) return "";
  const Wait& wait = waits_.at(CallId(~std::get<2>(*first)));
  const std::string span = absl::StrCat(" for ", FormatSpan(now - wait.since));
  switch (wait.kind) {
    case Kind::kBarrier:
      return absl::StrCat("waits at barrier '", wait.what, "'", span);
    case Kind::kIndex:
      return absl::StrCat("waits to agree on '", wait.what, "'", span);
    case Kind::kLeave:
      return absl::StrCat("waits for the others to leave", span);
    case Kind::kAlive:
      return absl::StrCat("waits to know who is alive", span);
    case Kind::kKey:
      return absl::StrCat("waits for key '", wait.what, "'", span);
  }
  return "";
}

}  // namespace lockstep::coord
