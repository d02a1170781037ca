#include "lockstep/sim/call_book.h"

#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lockstep/sim/describe.h"
#include "lockstep/sim/event_fields.h"

namespace lockstep::sim {
namespace {

template <class T>
bool Is(const coord::Event& event) {
  return std::holds_alternative<T>(event);
}

bool MayWait(const coord::Event& event) {
  return Is<coord::RegisterMember>(event) || Is<coord::PollForError>(event) ||
         Is<coord::LeaveJob>(event) || Is<coord::WatchMembers>(event) || Is<coord::GetKey>(event) ||
         Is<coord::ArriveAtBarrier>(event) || Is<coord::GetAliveMembers>(event) ||
         Is<coord::JoinJob>(event) || Is<coord::WatchJob>(event) ||
         Is<coord::AgreeOnIndex>(event) || Is<coord::GetKeys>(event) ||
         Is<coord::WatchKeys>(event) || Is<coord::WatchPreemption>(event);
}

// Whether a success of this kind of request carries this kind of answer.
bool AnswerFits(const coord::Event& event, const coord::Answer& answer) {
  if (Is<coord::PollForError>(event)) return false;  // success would kill a stock client
  if (Is<coord::RegisterMember>(event)) {
    return std::holds_alternative<coord::Registered>(answer);
  }
  if (Is<coord::Heartbeat>(event)) return std::holds_alternative<coord::HeartbeatTaken>(answer);
  if (Is<coord::GetKey>(event) || Is<coord::TryGetKey>(event) || Is<coord::IncrementKey>(event)) {
    const auto* read = std::get_if<coord::KeyRead>(&answer);
    return read != nullptr && read->entry.value != nullptr;
  }
  if (Is<coord::ListKeys>(event)) return std::holds_alternative<coord::KeysListed>(answer);
  if (Is<coord::ArriveAtBarrier>(event)) {
    return std::holds_alternative<coord::BarrierPassed>(answer);
  }
  if (Is<coord::GetAliveMembers>(event)) {
    const auto* alive = std::get_if<coord::AliveMembers>(&answer);
    return alive != nullptr && alive->members != nullptr;
  }
  if (Is<coord::WatchMembers>(event)) {
    const auto* watched = std::get_if<coord::MembersWatched>(&answer);
    return watched != nullptr && watched->members != nullptr;
  }
  return std::holds_alternative<std::monostate>(answer);
}

}  // namespace

std::string CallBook::Record(int64_t step, Time now, const coord::Event& event,
                             const coord::Effects& effects) {
  answered_.clear();
  left_.reset();
  const std::optional<CallId> asked = RequestCall(event);
  if (asked) open_[*asked] = OpenCall{*asked, now, step, event};
  if (const auto* left = std::get_if<coord::CallLeft>(&event)) {
    if (auto found = open_.find(left->call); found != open_.end()) {
      left_ = std::move(found->second);
      open_.erase(found);
    }
    left_ever_.insert(left->call.value());
  }

  for (const coord::Reply& reply : effects.replies) {
    if (std::string wrong = RecordAnswer(reply); !wrong.empty()) return wrong;
  }
  if (asked && !MayWait(event) && open_.contains(*asked)) {
    return absl::StrCat("not answered at once: ", Describe(event));
  }
  if (Is<coord::Stop>(event) && !open_.empty()) {
    return absl::StrCat("stopped with ", open_.size(), " calls unanswered, the first ",
                        Describe(open_.begin()->second.event));
  }
  return "";
}

std::string CallBook::RecordAnswer(const coord::Reply& reply) {
  auto found = open_.find(reply.call);
  if (found == open_.end()) {
    const char* what = answered_ever_.contains(reply.call.value()) ? "answered twice: "
                       : left_ever_.contains(reply.call.value())
                           ? "answered after its caller left: "
                           : "answer to a call that nobody made: ";
    return absl::StrCat(what, Describe(reply));
  }
  const coord::Event& event = found->second.event;
  if (!reply.error && !AnswerFits(event, reply.answer)) {
    return absl::StrCat("wrong kind of answer ", Describe(reply), " to ", Describe(event));
  }
  if (reply.error && (reply.error->code == absl::StatusCode::kOk || reply.error->message.empty())) {
    return absl::StrCat("an error without code or text: ", Describe(reply));
  }
  answered_ever_.insert(reply.call.value());
  answered_.push_back({std::move(found->second), &reply});
  open_.erase(found);
  return "";
}

}  // namespace lockstep::sim
