#include "lockstep/sim/server.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::sim {

void Coverage::Add(const Coverage& other) {
  for (size_t i = 0; i < events.size(); ++i) events[i] += other.events[i];
  for (size_t i = 0; i < reasons.size(); ++i) reasons[i] += other.reasons[i];
}

Server::Server(Schedule& schedule, Random random, const Scenario& scenario, Machine& machine,
               Trace& trace, Answer answer)
    : schedule_(schedule),
      random_(random),
      scenario_(scenario),
      machine_(machine),
      trace_(trace),
      answer_(std::move(answer)),
      checkers_(AllCheckers(scenario.coordinator)),
      view_(machine.View(schedule.now())) {}

void Server::Handle(const coord::Event& event) {
  if (!failure_.empty()) return;
  ++steps_;
  ++coverage_.events[event.index()];
  stopped_ = stopped_ || std::holds_alternative<coord::Stop>(event);
  trace_.Event(steps_, schedule_.now(), event);
  const coord::Effects effects = machine_.Handle(schedule_.now(), event);
  trace_.Effects(effects);
  const coord::CoordinatorView before = std::exchange(view_, machine_.View(schedule_.now()));
  Check(event, effects, before);
  for (const coord::Reply& reply : effects.replies) {
    if (reply.error) ++coverage_.reasons[static_cast<size_t>(reply.error->reason)];
    answer_(reply);
  }
  Arm();
}

void Server::Check(const coord::Event& event, const coord::Effects& effects,
                   const coord::CoordinatorView& before) {
  if (std::string wrong = calls_.Record(steps_, schedule_.now(), event, effects); !wrong.empty()) {
    failure_ = absl::StrCat("answers: ", wrong);
    return;
  }
  const Step step{.now = schedule_.now(),
                  .event = event,
                  .effects = effects,
                  .before = before,
                  .after = view_,
                  .calls = calls_,
                  .next_deadline = machine_.NextDeadline(),
                  .stopped = stopped_};
  for (const CheckerPtr& checker : checkers_) {
    if (std::string wrong = checker->Check(step); !wrong.empty()) {
      failure_ = absl::StrCat(checker->name(), ": ", wrong);
      return;
    }
  }
}

void Server::Arm() {
  const Time deadline = machine_.NextDeadline();
  if (deadline >= armed_) return;
  armed_ = deadline;
  const absl::Duration late = scenario_.late_timer
                                  ? random_.Between(absl::ZeroDuration(), absl::Milliseconds(20))
                                  : absl::ZeroDuration();
  schedule_.At(std::max(deadline, schedule_.now()) + late, [this, deadline] {
    if (armed_ != deadline) return;  // another one was armed since
    armed_ = Time::Infinite();
    if (machine_.NextDeadline() <= schedule_.now()) {
      Handle(coord::DeadlineReached{});
    } else {
      Arm();
    }
  });
}

}  // namespace lockstep::sim
