#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "lockstep/sim/checker.h"
#include "lockstep/sim/describe.h"

namespace lockstep::sim {
namespace {

class LifeChecker : public Checker {
 public:
  explicit LifeChecker(int32_t size) : lives_(size) {}
  absl::string_view name() const override { return "lives"; }

  std::string Check(const Step& step) override {
    if (step.new_attempt()) all_were_in_ = false;
    if (const auto* request = step.As<coord::RegisterMember>()) {
      if (std::string wrong = Taken(step, *request); !wrong.empty()) return wrong;
    }
    std::set<MemberIndex> let_in;
    for (const AnsweredCall& call : step.calls.answered()) {
      if (call.reply->error) continue;
      if (const auto* request = std::get_if<coord::RegisterMember>(&call.asked.event)) {
        let_in.insert(request->member);
        if (!IsNewest(request->member, request->incarnation)) return Old(*call.reply);
      }
      if (std::string wrong = CheckTold(*call.reply); !wrong.empty()) return wrong;
    }
    if (!let_in.empty() && !all_were_in_) {
      if (let_in.size() != lives_.size()) {
        return absl::StrCat(let_in.size(), " of ", lives_.size(),
                            " members were let in before all had asked");
      }
      all_were_in_ = true;
    }
    return "";
  }

 private:
  // A registration that is answered with success, or waits to be, is of the newest life from now
  // on.
  std::string Taken(const Step& step, const coord::RegisterMember& request) {
    bool taken = step.calls.open().contains(request.call);
    for (const AnsweredCall& call : step.calls.answered()) {
      taken = taken || (call.asked.call == request.call && !call.reply->error);
    }
    if (!taken) return "";
    std::vector<Incarnation>& lives = lives_[request.member.value()];
    if (!lives.empty() && lives.back() == request.incarnation) return "";
    if (std::find(lives.begin(), lives.end(), request.incarnation) != lives.end()) {
      return absl::StrCat("an older life is taken again: ", sim::Describe(step.event));
    }
    lives.push_back(request.incarnation);
    return "";
  }

  bool IsNewest(MemberIndex member, Incarnation incarnation) const {
    const std::vector<Incarnation>& lives = lives_[member.value()];
    return !lives.empty() && lives.back() == incarnation;
  }

  static std::string Old(const coord::Reply& reply) {
    return absl::StrCat("an older life is told of as the newest: ", sim::Describe(reply));
  }

  std::string CheckTold(const coord::Reply& reply) const {
    if (const auto* alive = std::get_if<coord::AliveMembers>(&reply.answer)) {
      for (const coord::AliveMember& member : *alive->members) {
        if (!IsNewest(member.member, member.incarnation)) return Old(reply);
      }
    }
    if (const auto* watched = std::get_if<coord::MembersWatched>(&reply.answer)) {
      for (const coord::MemberStatus& status : *watched->members) {
        if (status.state == coord::MemberState::kConnected &&
            !IsNewest(status.member, status.incarnation)) {
          return Old(reply);
        }
      }
    }
    return "";
  }

  std::vector<std::vector<Incarnation>> lives_;  // by member, oldest first, of all attempts
  bool all_were_in_ = false;
};

}  // namespace

CheckerPtr NewLifeChecker(const CoordinatorOptions& options) {
  return std::make_unique<LifeChecker>(options.size);
}

}  // namespace lockstep::sim
