#include <algorithm>
#include <deque>
#include <optional>

#include "absl/strings/str_cat.h"
#include "lockstep/coord/membership.h"
#include "lockstep/sim/checker.h"
#include "lockstep/sim/describe.h"
#include "lockstep/sim/event_fields.h"

namespace lockstep::sim {
namespace {

using coord::MemberCondition;

bool InDoubtAtMost(MemberCondition condition) {
  return condition == MemberCondition::kConnected || condition == MemberCondition::kSuspect;
}

class LossChecker : public Checker {
 public:
  explicit LossChecker(const CoordinatorOptions& options)
      : options_(options), members_(options.size) {}
  absl::string_view name() const override { return "losses"; }

  std::string Check(const Step& step) override {
    if (step.new_attempt()) {
      for (Member& member : members_) member = {.pid = member.pid};
    }
    Note(step);
    int failures = 0;
    for (const coord::MemberView& member : step.after.members) {
      const MemberCondition before = step.before.members[member.member.value()].condition;
      if (member.condition != before && (member.condition == MemberCondition::kLost ||
                                         member.condition == MemberCondition::kFailed)) {
        ++failures;
      }
    }
    for (const coord::MemberView& member : step.after.members) {
      const MemberCondition before = step.before.members[member.member.value()].condition;
      if (member.condition == MemberCondition::kLost && before != MemberCondition::kLost &&
          !Justified(step, member.member, failures)) {
        return absl::StrCat("lost for no reason: ", member.name, ": ", member.why);
      }
      if (std::string wrong = CheckPrompt(step, member); !wrong.empty()) return wrong;
    }
    return "";
  }

 private:
  struct Member {
    int64_t pid = 0;  // of the process that its launcher told of last
    Incarnation life;
    Time heard;
    std::optional<Time> broken;  // its poll ended, and it has not polled since
    // The call that let it in, until it polls: its end says that the answer did not arrive.
    std::optional<CallId> unpolled;
    // That stands, or that a failure has ended: who is told is lost when it would have been.
    std::optional<CallId> poll;
    bool polled = false;  // one stood before this step
    Time polled_until;
    Time beat;  // its newest heartbeat, or when it was let in
    std::deque<absl::Duration> periods;
  };

  void Note(const Step& step) {
    for (Member& member : members_) member.polled = member.poll.has_value();
    for (const AnsweredCall& call : step.calls.answered()) {
      if (const auto* beat = std::get_if<coord::Heartbeat>(&call.asked.event)) {
        Member* member = call.reply->error ? nullptr : Find(beat->member, beat->incarnation);
        if (member != nullptr) NotePeriod(step.now, *member);
      }
      const auto* request = std::get_if<coord::RegisterMember>(&call.asked.event);
      if (request == nullptr || call.reply->error) continue;
      Member& member = members_[request->member.value()];
      // The same life may come in once more after it was lost.
      if (member.life != request->incarnation ||
          !InDoubtAtMost(step.before.members[request->member.value()].condition)) {
        member.life = request->incarnation;
        member.broken.reset();
        member.unpolled = call.asked.call;
        member.poll.reset();
        member.polled_until = member.beat = step.now;
        member.periods.clear();
      }
      member.heard = step.now;
    }
    if (const auto* beat = step.As<coord::Heartbeat>()) {
      Member* member = Find(beat->member, beat->incarnation);
      if (member != nullptr) member->heard = step.now;
    }
    if (const auto* poll = step.As<coord::PollForError>()) {
      Member* member = Find(poll->member, poll->caller.incarnation);
      if (member != nullptr && step.calls.open().contains(poll->caller.call)) {
        member->broken.reset();
        member->unpolled.reset();
        member->poll = poll->caller.call;
      }
    }
    if (const auto* left = step.As<coord::CallLeft>()) {
      for (size_t i = 0; i < members_.size(); ++i) {
        if (members_[i].unpolled != left->call) continue;
        members_[i].unpolled.reset();
        if (InDoubtAtMost(step.before.members[i].condition)) members_[i].broken = step.now;
      }
    }
    if (const std::optional<OpenCall>& left = step.calls.left()) {
      const auto* poll = std::get_if<coord::PollForError>(&left->event);
      Member* member = poll ? Find(poll->member, poll->caller.incarnation) : nullptr;
      if (member != nullptr && InDoubtAtMost(step.before.members[poll->member.value()].condition)) {
        member->broken = step.now;
      }
      if (member != nullptr && member->poll == poll->caller.call) {
        member->poll.reset();
        member->polled_until = step.now;
      }
    }
    if (const auto* started = step.As<coord::ProcessStarted>()) {
      members_[started->member.value()].pid = started->pid;
    }
  }

  static void NotePeriod(Time now, Member& member) {
    if (now - member.beat < coord::kHeartbeatAgain) return;
    member.periods.push_back(std::min(now - member.beat, coord::kPeriodMax));
    if (member.periods.size() > coord::kPeriodsKept) member.periods.pop_front();
    member.beat = now;
  }

  // How long it may be silent, whose poll stands or does not.
  absl::Duration Patience(const Member& member, bool polls) const {
    if (!polls) return options_.heartbeat_timeout;
    const absl::Duration period =
        member.periods.empty() ? coord::kUnseenPeriod
                               : *std::max_element(member.periods.begin(), member.periods.end());
    return std::max(options_.heartbeat_timeout, coord::kSilentPeriods * period);
  }

  // Null when that is not the member's life, or nobody's.
  Member* Find(MemberIndex member, Incarnation life) {
    if (member.value() < 0 || member.value() >= options_.size) return nullptr;
    Member& found = members_[member.value()];
    return found.life == life ? &found : nullptr;
  }

  bool Justified(const Step& step, MemberIndex index, int failures) const {
    const Member& member = members_[index.value()];
    const Time silent = member.polled ? member.heard : std::max(member.heard, member.polled_until);
    if (step.now >= silent + Patience(member, member.polled)) return true;
    // With any failure, and when a new life comes, whose connection is broken is given up at once.
    const bool new_life = step.As<coord::RegisterMember>() != nullptr;
    if (member.broken &&
        (failures > 1 || new_life || step.now - *member.broken >= options_.connection_grace)) {
      return true;
    }
    const auto* ended = step.As<coord::ProcessEnded>();
    return ended != nullptr && ended->member == index && ended->pid == member.pid;
  }

  std::string CheckPrompt(const Step& step, const coord::MemberView& view) const {
    if (step.As<coord::DeadlineReached>() == nullptr || !InDoubtAtMost(view.condition)) return "";
    const Member& member = members_[view.member.value()];
    if (member.broken && step.now - *member.broken >= options_.connection_grace) {
      return absl::StrCat(view.name, " broke its connection at ", FormatTime(*member.broken),
                          " and is not lost");
    }
    const bool polls = member.poll.has_value();
    const Time until = polls ? Time() : member.polled_until;
    if (view.last_heard &&
        step.now >= std::max(*view.last_heard, until) + Patience(member, polls)) {
      return absl::StrCat(view.name, " was heard of last at ", FormatTime(*view.last_heard),
                          " and is not lost");
    }
    return "";
  }

  const CoordinatorOptions options_;
  std::vector<Member> members_;
};

}  // namespace

CheckerPtr NewLossChecker(const CoordinatorOptions& options) {
  return std::make_unique<LossChecker>(options);
}

}  // namespace lockstep::sim
