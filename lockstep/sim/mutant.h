// Coordinators with one mistake each, to see that the checkers would catch it. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>

#include "absl/strings/string_view.h"
#include "lockstep/sim/machine.h"

namespace lockstep::sim {

// A mistake that a coordinator might make, seen from outside.
enum class Mutation {
  kForgetsAWaiter,  // a parked call is never answered
  kAnswersTwice,
  kAnswersTheAbsent,  // a caller that has left
  kAnswersNobody,     // a call that was never made
  kAnswersWrongKind,  // success without what was asked for
  kReleasesEarly,     // a barrier passes for who came first
  kSplitsVerdict,     // a barrier passes for some and times out for one
  kChangesVerdict,    // a late caller hears that a barrier failed which has passed
  kLetsInEarly,       // a registration succeeds before all have come
  kLetsInAFormerLife,
  kLetsGoEarly,          // a member leaves alone though all are to leave together
  kServesOldAttempts,    // a request of another attempt succeeds
  kKeepsItsIncarnation,  // the service incarnation of the first attempt is told in all
  kSwapsAValue,
  kLosesAKey,  // a key that is there is not found
  kListsTooMuch,
  kDropsAPoll,         // one poll is not told of a failure
  kTellsAnotherCause,  // one poll is told of another failure
  kBlamesTheInnocent,  // a healthy member is shown as lost
  kOverlooksTheLost,   // a lost member is shown as connected
  kOverlooksADeadline,
  kHidesALiveMember,  // from who asks who is alive
  kNamesWrongState,   // of a member, to who watches
  kMiscounts,         // the waits in its view
  kWedges,            // lets nobody in after a while
};
constexpr int kMutations = static_cast<int>(Mutation::kWedges) + 1;

absl::string_view NameOf(Mutation mutation);

// The real coordinator behind a layer that makes the mistake at every opportunity from the
// `mistakes_after`-th on.
class MutantMachine : public Machine {
 public:
  MutantMachine(const coord::CoordinatorOptions& options, Mutation mutation, int mistakes_after);

  coord::Effects Handle(Time now, const coord::Event& event) override;
  Time NextDeadline() const override { return real_.NextDeadline(); }
  coord::CoordinatorView View(Time now) const override;
  ServiceIncarnation service_incarnation() const override { return real_.service_incarnation(); }

 private:
  // True when this opportunity is one to make the mistake at.
  bool Now() { return ++opportunities_ > mistakes_after_; }
  void SpoilReplies(const coord::Event& event, coord::Effects& effects);
  void SpoilReply(const coord::Event& event, coord::Reply& reply);
  void SpoilWhatIsRead(const coord::Event& event, coord::Reply& reply);
  void AddReplies(Time now, const coord::Event& event, coord::Effects& effects);
  // Parked by this event: no reply is there yet.
  static bool Parked(CallId call, const coord::Effects& effects);

  CoordinatorMachine real_;
  const Mutation mutation_;
  const int mistakes_after_;
  int opportunities_ = 0;
  std::optional<ServiceIncarnation> first_service_;
  std::set<CallId> polls_;
};

}  // namespace lockstep::sim
