#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "lockstep/sim/checker.h"
#include "lockstep/sim/describe.h"

namespace lockstep::sim {
namespace {

using coord::MemberCondition;

class AliveChecker : public Checker {
 public:
  explicit AliveChecker(const CoordinatorOptions& options) : size_(options.size) {}
  absl::string_view name() const override { return "who is alive"; }

  std::string Check(const Step& step) override {
    if (step.new_attempt()) last_version_.reset();
    for (const AnsweredCall& call : step.calls.answered()) {
      if (call.reply->error) continue;
      if (const auto* alive = std::get_if<coord::AliveMembers>(&call.reply->answer)) {
        const auto& asked = std::get<coord::GetAliveMembers>(call.asked.event);
        if (std::string wrong = CheckAlive(step, asked, *alive); !wrong.empty()) return wrong;
      } else if (const auto* watched = std::get_if<coord::MembersWatched>(&call.reply->answer)) {
        const auto& asked = std::get<coord::WatchMembers>(call.asked.event);
        if (std::string wrong = CheckWatched(step, asked, *watched); !wrong.empty()) return wrong;
      }
    }
    return step.stopped ? "" : CheckParked(step);
  }

 private:
  using Set = std::set<MemberIndex>;

  static bool Connected(const coord::CoordinatorView& view, MemberIndex member) {
    return IsConnected(view.members[member.value()]);
  }

  Set ConnectedOf(const coord::CoordinatorView& view,
                  const std::vector<MemberIndex>& members) const {
    Set connected;
    for (MemberIndex member : members) {
      if (member.value() >= 0 && member.value() < size_ && Connected(view, member)) {
        connected.insert(member);
      }
    }
    return connected;
  }

  std::string CheckAlive(const Step& step, const coord::GetAliveMembers& asked,
                         const coord::AliveMembers& alive) const {
    Set told;
    for (const coord::AliveMember& member : *alive.members) told.insert(member.member);
    const Set asked_for(asked.members.begin(), asked.members.end());
    // Members that leave together leave one after the other, and the answer may be of any instant.
    const Set after = ConnectedOf(step.after, asked.members);
    Set ever = ConnectedOf(step.before, asked.members);
    ever.insert(after.begin(), after.end());
    if (!std::includes(told.begin(), told.end(), after.begin(), after.end()) ||
        !std::includes(ever.begin(), ever.end(), told.begin(), told.end())) {
      return absl::StrCat("not the connected ones: ", sim::Describe(coord::Event(asked)), " gave ",
                          told.size(), " members");
    }
    for (const coord::AliveMember& member : *alive.members) {
      bool called = false;
      for (const AnsweredCall& other : step.calls.answered()) {
        const auto* same = std::get_if<coord::GetAliveMembers>(&other.asked.event);
        called = called || (same != nullptr && same->member == member.member &&
                            same->caller.incarnation == member.incarnation &&
                            Set(same->members.begin(), same->members.end()) == asked_for);
      }
      if (!called) {
        return absl::StrCat("member ", member.member.value(),
                            " is told of as alive, but has not asked in this life");
      }
    }
    return "";
  }

  // Nobody waits when all that are connected have asked.
  std::string CheckParked(const Step& step) const {
    std::map<Set, Set> callers;
    for (const auto& [id, call] : step.calls.open()) {
      const auto* asked = std::get_if<coord::GetAliveMembers>(&call.event);
      if (asked == nullptr) continue;
      callers[Set(asked->members.begin(), asked->members.end())].insert(asked->member);
    }
    for (const auto& [set, who] : callers) {
      bool complete = true;
      for (MemberIndex member : ConnectedOf(step.after, {set.begin(), set.end()})) {
        complete = complete && who.contains(member);
      }
      if (complete) {
        return absl::StrCat(who.size(), " wait to hear who of ", set.size(),
                            " is alive, and all that are have asked");
      }
    }
    return "";
  }

  std::string CheckWatched(const Step& step, const coord::WatchMembers& asked,
                           const coord::MembersWatched& watched) {
    if (step.stopped) return "";
    if (asked.version && *asked.version == watched.version) return "watched, but nothing changed";
    if (last_version_ && watched.version < *last_version_) return "a version went back";
    last_version_ = watched.version;
    if (static_cast<int32_t>(watched.members->size()) != size_) return "members are missing";
    for (int32_t i = 0; i < size_; ++i) {
      const coord::MemberStatus& status = (*watched.members)[i];
      const MemberCondition condition = step.after.members[i].condition;
      const bool connected = Connected(step.after, MemberIndex(i));
      // Who had not come when the attempt failed is in error for clients, and missing for people.
      const bool never_came = condition == MemberCondition::kMissing &&
                              step.after.state == coord::AttemptState::kFailed;
      const bool in_error =
          !connected &&
          (condition == MemberCondition::kLost || condition == MemberCondition::kFailed ||
           (never_came && status.state == coord::MemberState::kError));
      if (status.member != MemberIndex(i) ||
          connected != (status.state == coord::MemberState::kConnected) ||
          in_error != (status.state == coord::MemberState::kError) ||
          in_error != (status.error != nullptr)) {
        return absl::StrCat("a wrong state of member ", i, ", which is ",
                            coord::MemberConditionName(condition));
      }
    }
    return "";
  }

  const int32_t size_;
  std::optional<int64_t> last_version_;
};

}  // namespace

CheckerPtr NewAliveChecker(const CoordinatorOptions& options) {
  return std::make_unique<AliveChecker>(options);
}

}  // namespace lockstep::sim
