#include "lockstep/sim/mutant.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/sim/event_fields.h"

namespace lockstep::sim {
namespace {

using coord::Reason;

coord::ErrorPtr SomeError(Reason reason) {
  return coord::MakeError(absl::StatusCode::kInternal, reason, "a mutant said so");
}

template <class T>
const T* Answered(const coord::Reply& reply) {
  return reply.error ? nullptr : std::get_if<T>(&reply.answer);
}

}  // namespace

absl::string_view NameOf(Mutation mutation) {
  static constexpr absl::string_view kNames[] = {"ForgetsAWaiter",
                                                 "AnswersTwice",
                                                 "AnswersTheAbsent",
                                                 "AnswersNobody",
                                                 "AnswersWrongKind",
                                                 "ReleasesEarly",
                                                 "SplitsVerdict",
                                                 "ChangesVerdict",
                                                 "LetsInEarly",
                                                 "LetsInAFormerLife",
                                                 "LetsGoEarly",
                                                 "ServesOldAttempts",
                                                 "KeepsItsIncarnation",
                                                 "SwapsAValue",
                                                 "LosesAKey",
                                                 "ListsTooMuch",
                                                 "DropsAPoll",
                                                 "TellsAnotherCause",
                                                 "BlamesTheInnocent",
                                                 "OverlooksTheLost",
                                                 "OverlooksADeadline",
                                                 "HidesALiveMember",
                                                 "NamesWrongState",
                                                 "Miscounts",
                                                 "Wedges"};
  static_assert(std::size(kNames) == kMutations);
  return kNames[static_cast<size_t>(mutation)];
}

MutantMachine::MutantMachine(const coord::CoordinatorOptions& options, Mutation mutation,
                             int mistakes_after)
    : real_(options), mutation_(mutation), mistakes_after_(mistakes_after) {}

coord::Effects MutantMachine::Handle(Time now, const coord::Event& event) {
  if (mutation_ == Mutation::kOverlooksADeadline &&
      std::holds_alternative<coord::DeadlineReached>(event) && Now()) {
    return {};
  }
  coord::Effects effects = real_.Handle(now, event);
  SpoilReplies(event, effects);
  AddReplies(now, event, effects);
  if (const auto* poll = std::get_if<coord::PollForError>(&event)) polls_.insert(poll->caller.call);
  return effects;
}

bool MutantMachine::Parked(CallId call, const coord::Effects& effects) {
  return std::none_of(effects.replies.begin(), effects.replies.end(),
                      [call](const coord::Reply& reply) { return reply.call == call; });
}

void MutantMachine::SpoilReplies(const coord::Event& event, coord::Effects& effects) {
  std::vector<coord::Reply>& replies = effects.replies;
  for (coord::Reply& reply : replies) SpoilReply(event, reply);
  const auto told = [this](const coord::Reply& reply) {
    return polls_.contains(reply.call) && reply.error && reply.error->origin &&
           reply.error->reason != Reason::kMemberLeft;
  };
  switch (mutation_) {
    case Mutation::kForgetsAWaiter:
      std::erase_if(replies, [&](const coord::Reply& reply) {
        return reply.call != RequestCall(event) && Now();
      });
      return;
    case Mutation::kDropsAPoll:
      std::erase_if(replies, [&](const coord::Reply& reply) { return told(reply) && Now(); });
      return;
    case Mutation::kTellsAnotherCause:
      if (replies.size() > 1 && told(replies[1]) && Now()) {
        replies[1].error = SomeError(Reason::kReportedError);
      }
      return;
    case Mutation::kSplitsVerdict:
      if (replies.size() > 1 && Answered<coord::BarrierPassed>(replies[0]) && Now()) {
        replies[0].error = SomeError(Reason::kBarrierTimedOut);
      }
      return;
    default:
      return;
  }
}

void MutantMachine::SpoilReply(const coord::Event& event, coord::Reply& reply) {
  const bool to_this = reply.call == RequestCall(event);
  const auto refused = [&](Reason reason) {
    return to_this && reply.error && reply.error->reason == reason;
  };
  const auto succeed = [&reply](coord::Answer answer) {
    reply.error = nullptr;
    reply.answer = std::move(answer);
  };
  switch (mutation_) {
    case Mutation::kAnswersWrongKind:
      if (Answered<coord::HeartbeatTaken>(reply) && Now()) succeed({});
      return;
    case Mutation::kChangesVerdict:
      if (const auto* passed = Answered<coord::BarrierPassed>(reply); passed && to_this && Now()) {
        const auto& arrival = std::get<coord::ArriveAtBarrier>(event);
        reply.error = coord::MakeError(
            coord::Error{.code = absl::StatusCode::kDeadlineExceeded,
                         .reason = Reason::kBarrierTimedOut,
                         .message = "a mutant said so",
                         .barrier = coord::BarrierRef{arrival.id, passed->counter}});
      }
      return;
    case Mutation::kLetsInAFormerLife:
      // Only registrations are superseded with this code.
      if (reply.error && reply.error->reason == Reason::kSuperseded &&
          reply.error->code == absl::StatusCode::kAlreadyExists && Now()) {
        succeed(coord::Registered{service_incarnation()});
      }
      return;
    case Mutation::kServesOldAttempts:
      if (std::holds_alternative<coord::SetKey>(event) &&
          refused(Reason::kWrongServiceIncarnation) && Now()) {
        succeed({});
      }
      return;
    case Mutation::kKeepsItsIncarnation:
      if (const auto* in = Answered<coord::Registered>(reply)) {
        if (!first_service_) first_service_ = in->service;
        succeed(coord::Registered{*first_service_});
      }
      return;
    default:
      return SpoilWhatIsRead(event, reply);
  }
}

void MutantMachine::SpoilWhatIsRead(const coord::Event& event, coord::Reply& reply) {
  const auto succeed = [&reply](coord::Answer answer) { reply.answer = std::move(answer); };
  switch (mutation_) {
    case Mutation::kSwapsAValue:
      if (const auto* read = Answered<coord::KeyRead>(reply); read && Now()) {
        succeed(coord::KeyRead{{read->entry.key, std::make_shared<const std::string>("swapped")}});
      }
      return;
    case Mutation::kLosesAKey:
      if (std::holds_alternative<coord::TryGetKey>(event) && reply.call == RequestCall(event) &&
          !reply.error && Now()) {
        reply.error = SomeError(Reason::kKeyNotFound);
      }
      return;
    case Mutation::kListsTooMuch:
      if (const auto* listed = Answered<coord::KeysListed>(reply); listed && Now()) {
        coord::KeysListed more = *listed;
        more.entries.push_back({"zzz", std::make_shared<const std::string>("more")});
        succeed(std::move(more));
      }
      return;
    case Mutation::kHidesALiveMember:
      if (const auto* alive = Answered<coord::AliveMembers>(reply);
          alive && !alive->members->empty() && Now()) {
        auto fewer = std::make_shared<std::vector<coord::AliveMember>>(*alive->members);
        fewer->pop_back();
        succeed(coord::AliveMembers{std::move(fewer)});
      }
      return;
    case Mutation::kNamesWrongState:
      if (const auto* watched = Answered<coord::MembersWatched>(reply);
          watched && !watched->members->empty() && Now()) {
        auto wrong = std::make_shared<std::vector<coord::MemberStatus>>(*watched->members);
        wrong->back().state = coord::MemberState::kError;
        succeed(coord::MembersWatched{std::move(wrong), watched->version});
      }
      return;
    default:
      return;
  }
}

void MutantMachine::AddReplies(Time now, const coord::Event& event, coord::Effects& effects) {
  switch (mutation_) {
    case Mutation::kAnswersTwice:
      if (!effects.replies.empty() && Now()) effects.replies.push_back(effects.replies.back());
      return;
    case Mutation::kAnswersNobody:
      if (Now()) effects.Succeed(CallId(1'000'000'000));
      return;
    case Mutation::kAnswersTheAbsent:
      if (const auto* left = std::get_if<coord::CallLeft>(&event); left && Now()) {
        effects.Fail(left->call, SomeError(Reason::kSuperseded));
      }
      return;
    case Mutation::kReleasesEarly:
      if (const auto* arrival = std::get_if<coord::ArriveAtBarrier>(&event);
          arrival && Parked(arrival->caller.call, effects) && Now()) {
        effects.Succeed(arrival->caller.call, coord::BarrierPassed{arrival->counter});
      }
      return;
    case Mutation::kLetsInEarly:
      if (const auto* registration = std::get_if<coord::RegisterMember>(&event);
          registration && Parked(registration->call, effects) && Now()) {
        effects.Succeed(registration->call, coord::Registered{service_incarnation()});
      }
      return;
    case Mutation::kLetsGoEarly:
      if (const auto* leave = std::get_if<coord::LeaveJob>(&event);
          leave && Parked(leave->caller.call, effects) && Now()) {
        effects.Succeed(leave->caller.call);
      }
      return;
    case Mutation::kWedges:
      if (const auto* registration = std::get_if<coord::RegisterMember>(&event);
          registration && Parked(registration->call, effects) && Now()) {
        real_.Handle(now, coord::CallLeft{registration->call});
        effects.Fail(registration->call,
                     coord::MakeError(absl::StatusCode::kAborted, Reason::kMemberFailed, "wedged"));
      }
      return;
    default:
      return;
  }
}

coord::CoordinatorView MutantMachine::View(Time now) const {
  coord::CoordinatorView view = real_.View(now);
  for (coord::MemberView& member : view.members) {
    if (mutation_ == Mutation::kBlamesTheInnocent && view.waits > 12 &&
        member.condition == coord::MemberCondition::kConnected) {
      member.condition = coord::MemberCondition::kLost;
      break;
    }
    if (mutation_ == Mutation::kOverlooksTheLost &&
        member.condition == coord::MemberCondition::kLost) {
      member.condition = coord::MemberCondition::kConnected;
    }
  }
  if (mutation_ == Mutation::kMiscounts && view.waits > 12) ++view.waits;
  return view;
}

}  // namespace lockstep::sim
