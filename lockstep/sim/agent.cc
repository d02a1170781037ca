#include "lockstep/sim/agent.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/sim/event_fields.h"

namespace lockstep::sim {
namespace {

constexpr absl::Duration kErrorPropagationTime = absl::Seconds(5);
constexpr int kHeartbeatRetries = 3;

std::string WhyOf(absl::string_view what, const Outcome& outcome) {
  switch (outcome.ending) {
    case Ending::kBroken:
      return absl::StrCat(what, ": connection broke");
    case Ending::kDeadline:
      return absl::StrCat(what, ": deadline");
    case Ending::kCancelled:
      return absl::StrCat(what, ": cancelled");
    case Ending::kAnswered:
      break;
  }
  return absl::StrCat(what, ": ", outcome.error ? coord::ToString(*outcome.error) : "OK");
}

}  // namespace

Agent::Agent(Schedule& schedule, Network& network, PeerId peer, Random random, AgentOptions options,
             Listener listener)
    : schedule_(schedule),
      network_(network),
      peer_(peer),
      random_(random),
      options_(options),
      listener_(std::move(listener)) {}

void Agent::GiveUp(std::string why) {
  if (std::exchange(gave_up_, true)) return;
  listener_.gave_up(why);
}

bool Agent::Mismatch(const Outcome& outcome) {
  return outcome.error && outcome.error->right_service.has_value();
}

void Agent::Connect() {
  register_until_ = schedule_.now() + options_.init_timeout + kErrorPropagationTime;
  TryToRegister();
}

void Agent::TryToRegister() {
  coord::RegisterMember request{.member = options_.member,
                                .incarnation = options_.incarnation,
                                .deadline = register_until_,
                                .peer = "sim"};
  network_.Send(peer_, request, register_until_,
                [this](const Outcome& outcome) { RegistrationEnded(outcome); });
}

void Agent::RegistrationEnded(const Outcome& outcome) {
  if (outcome.ok()) {
    service_ = std::get<coord::Registered>(outcome.answer).service;
    connected_ = true;
    BeatLater();
    Poll();
    listener_.connected();
    return;
  }
  const bool tagged = outcome.error && outcome.error->from_service;
  const bool retry = !tagged || outcome.error->code == absl::StatusCode::kAborted ||
                     outcome.error->code == absl::StatusCode::kInternal;
  if (!retry || schedule_.now() >= register_until_) {
    return GiveUp(WhyOf("registration", outcome));
  }
  const absl::Duration longest = absl::Milliseconds(int64_t{1} << std::min(14, ++tries_));
  network_.After(peer_, random_.Between(absl::ZeroDuration(), longest),
                 [this] { TryToRegister(); });
}

void Agent::Poll() {
  Call(coord::PollForError{.member = options_.member}, absl::InfiniteDuration(),
       [this](const Outcome& outcome) {
         if (leaving_ || gave_up_) return;
         if (outcome.ending == Ending::kBroken && options_.polls_again) {
           const absl::Duration delay =
               random_.Between(absl::ZeroDuration(), absl::Milliseconds(60));
           return network_.After(peer_, delay, [this] {
             if (!leaving_ && !gave_up_) Poll();
           });
         }
         const bool cancelled =
             outcome.error && outcome.error->code == absl::StatusCode::kCancelled;
         if (!cancelled) GiveUp(WhyOf("error poll", outcome));
       });
}

void Agent::BeatLater() {
  network_.After(peer_, options_.heartbeat_period, [this] { Beat(kHeartbeatRetries); });
}

void Agent::Beat(int retries) {
  if (leaving_ || gave_up_) return;
  Call(coord::Heartbeat{.member = options_.member, .incarnation = options_.incarnation},
       options_.heartbeat_period,
       [this, retries](const Outcome& outcome) { BeatEnded(outcome, retries); });
}

void Agent::BeatEnded(const Outcome& outcome, int retries) {
  if (leaving_ || gave_up_) return;
  if (outcome.ok()) {
    if (std::get<coord::HeartbeatTaken>(outcome.answer).service != service_) {
      return GiveUp("heartbeat: the service is another one");
    }
    return BeatLater();
  }
  if (outcome.ending == Ending::kBroken && retries > 0) {
    return network_.After(peer_, absl::Milliseconds(1), [this, retries] { Beat(retries - 1); });
  }
  network_.After(peer_, absl::Seconds(1), [this, why = WhyOf("heartbeat", outcome)] {
    if (!leaving_) GiveUp(why);
  });
}

CallId Agent::Call(coord::Event request, absl::Duration timeout, Done done) {
  *CallerOf(request) = {.service = service_, .incarnation = options_.incarnation};
  return network_.Send(peer_, std::move(request), schedule_.now() + timeout,
                       [this, done = std::move(done)](const Outcome& outcome) mutable {
                         done(outcome);
                         if (Mismatch(outcome)) GiveUp(WhyOf("service mismatch", outcome));
                       });
}

std::optional<CallId> Agent::WaitAtBarrier(const std::string& id, std::vector<MemberIndex> members,
                                           absl::Duration timeout, Done done) {
  if (!open_barriers_.insert(id).second) return std::nullopt;
  auto last = last_counters_.try_emplace(id, -1).first;
  coord::ArriveAtBarrier request{.member = options_.member,
                                 .id = id,
                                 .counter = last->second + 1,
                                 .timeout = timeout,
                                 .members = std::move(members)};
  return Call(std::move(request), absl::InfiniteDuration(),
              [this, id, done = std::move(done)](const Outcome& outcome) mutable {
                open_barriers_.erase(id);
                if (outcome.ok()) {
                  last_counters_[id] = std::get<coord::BarrierPassed>(outcome.answer).counter;
                } else if (outcome.error && outcome.error->barrier) {
                  last_counters_[id] = outcome.error->barrier->counter;
                }
                done(outcome);
              });
}

void Agent::Leave(Done done) {
  leaving_ = true;
  Call(coord::LeaveJob{.member = options_.member},
       options_.shutdown_timeout + kErrorPropagationTime, std::move(done));
}

}  // namespace lockstep::sim
