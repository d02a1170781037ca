#include "lockstep/coord/key_deletions.h"

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/coord/key_name.h"

namespace lockstep::coord {

void KeyDeletions::Begin(const DeleteKey& request, std::optional<absl::string_view> key,
                         std::string prefix, Effects& out) {
  // Before the key itself goes: a refusal changes nothing.
  if (deletions_.size() >= kLongDeletionsMax) {
    return out.Fail(
        request.caller.call,
        MakeError(absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
                  absl::StrCat("one long deletion more, of what is below ", QuotedKey(request.key),
                               ", is over the limit long_deletions_max (", kLongDeletionsMax,
                               "); nothing was changed; ask again when others are over")));
  }
  Deletion deletion = {.caller = request.caller, .prefix = std::move(prefix)};
  if (key) {
    if (const KeyTable::Place place = table_.Find(*key); place.there) {
      table_.DeleteOne(place.it, out);
      ++deletion.deleted;
    }
  }
  deletions_.push_back(std::move(deletion));
  LOCKSTEP_DCHECK(deletions_.size() <= kLongDeletionsMax);
  // Many may be asked for in one turn, and each would take a slice of its own.
  KeySlice slice;
  if (deletions_.size() == 1) RemoveSlice(slice, out);
}

void KeyDeletions::RemoveSlice(KeySlice& slice, Effects& out) {
  while (!deletions_.empty() && !slice.full()) {
    Deletion& deletion = deletions_.front();
    // What was set behind the place that it has come to was set after it; what it still comes to,
    // before.
    if (table_.DeleteSlice(deletion.prefix, deletion.after, slice, deletion.deleted, out)) return;
    const KeysDeleted answer = {deletion.deleted, table_.revision()};
    const Caller& caller = deletion.caller;
    // Stock callers are told of success only.
    const Answer told = caller.native() ? Answer(answer) : Answer();
    if (!deletion.left) out.Succeed(caller.call, told);
    // Also where the caller left: it may ask again, and must hear what this one did.
    if (!caller.numbered_in().none()) ended_.push_back({caller, told});
    deletions_.pop_front();
  }
}

bool KeyDeletions::Join(const Caller& caller) {
  // Only a numbered request can be known as a retry.
  if (caller.numbered_in().none() || caller.number == 0) return false;
  for (Deletion& deletion : deletions_) {
    const Caller& first = deletion.caller;
    if (first.numbered_in() != caller.numbered_in() || first.number != caller.number) continue;
    // The link of the former call is gone, so the answer goes to this one.
    deletion.caller = caller;
    deletion.left = false;
    return true;
  }
  return false;
}

bool KeyDeletions::Forget(CallId call) {
  for (Deletion& deletion : deletions_) {
    if (deletion.left || deletion.caller.call != call) continue;
    // The deletion goes on: what it has removed is gone, and a retry joins it.
    deletion.left = true;
    return true;
  }
  return false;
}

void KeyDeletions::FailAll(const ErrorPtr& error, Effects& out) {
  for (const Deletion& deletion : deletions_) {
    if (!deletion.left) out.Fail(deletion.caller.call, error);
  }
  deletions_.clear();
}

}  // namespace lockstep::coord
