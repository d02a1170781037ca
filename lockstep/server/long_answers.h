// Answers that are too long to be made in one turn of the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/coord/effects.h"
#include "lockstep/coord/view.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/work_in_turns.h"
#include "lockstep/wire/native/kinds.h"

namespace lockstep::server {

// Encodes the long answers of a job to native clients, one after the other, in turns of
// runtime::TurnBudget::kTime. What is read for one while it is made (members, of which the machine
// says only which) is read later than its version: whatever changes meanwhile is told again.
//
// Threads: loop-confined. Ownership: the loop outlives it. Destroying it drops what is not done.
// Bounds: an answer holds page_bytes_max, or the members of a job. Of several, those over
// kPendingBytesMax are encoded at once, oldest first: the queues of their links have bounds, too.
class LongAnswers {
 public:
  using Bytes = std::shared_ptr<const std::string>;
  struct Source {
    // What the call asks for; nothing: it has gone, or is no native client's.
    std::function<std::optional<wire::native::RequestKind>(CallId)> kind;
    std::function<coord::MemberView(Time now, MemberIndex)> member;
    std::function<void(CallId, const Bytes&)> answer;
  };

  // More than this makes an answer long.
  static constexpr size_t kEntriesMax = 512;
  static constexpr size_t kBytesMax = size_t{1} << 20;
  static constexpr size_t kMembersPerStep = 32;
  // What answers that are not encoded yet may hold together: `long_answers_bytes_max`.
  static constexpr size_t kPendingBytesMax = size_t{64} << 20;

  LongAnswers(runtime::Loop& loop, Source source)
      : source_(std::move(source)), work_(loop, [this] { return Step(); }) {}

  // Takes the long ones out, and answers them in time.
  void Take(std::vector<coord::Reply>& replies);
  // Answers all at once: for the end.
  void Finish() { work_.Finish(); }
  // What those hold that are not answered.
  size_t bytes() const { return bytes_; }

 private:
  // Appends the next bit; returns whether there is more.
  using Encode = absl::AnyInvocable<bool(std::string& out)>;
  struct Making {
    std::vector<CallId> calls;
    std::shared_ptr<const coord::JobChange> change;  // which some of them may share
    size_t cost = 0;
    Encode encode;
    // What is done of it; then put together.
    std::vector<std::string> pieces = {};
    size_t next_piece = 0;
    std::shared_ptr<std::string> bytes = nullptr;
  };

  void Add(Making making);
  bool TakeIfLong(coord::Reply& reply);
  Encode EncodeMembers(std::shared_ptr<const coord::JobChange> change);
  // Returns whether there is more to do.
  bool Step();

  const Source source_;
  std::list<Making> making_;
  size_t bytes_ = 0;  // all that they cost
  runtime::WorkInTurns work_;
};

}  // namespace lockstep::server
