#include "lockstep/sim/process.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/sim/noise.h"

namespace lockstep::sim {
namespace {

constexpr int kAborted = 134;

// The key that every stock process waits for during all of its life.
constexpr absl::string_view kNoticeKey = "RECEIVED_PREEMPTION_NOTICE";

}  // namespace

Process::Process(Schedule& schedule, Network& network, const Scenario& scenario, Random random,
                 Setup setup, Work& work, Exited exited)
    : schedule_(schedule),
      network_(network),
      scenario_(scenario),
      random_(random),
      setup_(std::move(setup)),
      work_(work),
      exited_(std::move(exited)),
      peer_(network.Join()),
      agent_(schedule, network, peer_, random_.Fork(), setup_.agent,
             {.connected = [this] { Connected(); },
              .gave_up = [this](absl::string_view why) { Exit(kAborted, why); }}) {}

void Process::Start() { agent_.Connect(); }

void Process::Kill(bool silently) {
  if (alive()) network_.Die(peer_, silently);
}

void Process::Exit(int code, absl::string_view why) {
  if (!alive()) return;
  network_.Die(peer_, false);
  exited_(*this, code, why);
}

void Process::Connected() {
  ++work_.registrations;
  agent_.Call(coord::GetKey{.key = std::string(kNoticeKey)}, absl::InfiniteDuration(),
              [](const Outcome&) {});
  if (setup_.noisy) MakeNoise(network_, peer_, scenario_, random_.Fork(), agent_);
  NextOperation();
}

void Process::NextOperation() {
  if (next_operation_ == setup_.program->size()) return Leave();
  const Operation& operation = (*setup_.program)[next_operation_++];
  for (MemberIndex member : operation.members) {
    if (member == setup_.agent.member) return Do(operation);
  }
  // Others do this one; to yield keeps a long row of such from nesting.
  network_.After(peer_, absl::ZeroDuration(), [this] { NextOperation(); });
}

void Process::Do(const Operation& operation) {
  open_parts_ = 1;
  failed_part_ = false;
  then_ = [this] { NextOperation(); };
  const auto part_ended = [this](const Outcome& outcome) { PartEnded(outcome); };
  switch (operation.kind) {
    case Operation::Kind::kSleep:
      network_.After(peer_, operation.duration, [this] { PartEnded({}); });
      return;
    case Operation::Kind::kBarrier: {
      const auto members = operation.everybody ? std::vector<MemberIndex>() : operation.members;
      if (!agent_.WaitAtBarrier(operation.name, members, operation.duration,
                                [this](const Outcome& outcome) {
                                  if (outcome.ok()) ++work_.barriers;
                                  PartEnded(outcome);
                                })) {
        PartEnded({.ending = Ending::kCancelled});
      }
      return;
    }
    case Operation::Kind::kExchange:
      return Exchange(operation);
    case Operation::Kind::kBroadcast:
      return Broadcast(operation);
    case Operation::Kind::kCount:
      agent_.Call(coord::IncrementKey{.key = operation.name, .increment = 3},
                  absl::InfiniteDuration(), part_ended);
      return;
    case Operation::Kind::kAlive:
      agent_.Call(
          coord::GetAliveMembers{.member = setup_.agent.member, .members = operation.members},
          operation.duration, part_ended);
      return;
  }
}

// As the addresses of a collective are exchanged: set mine, then wait for everybody's, all at once.
void Process::Exchange(const Operation& operation) {
  Set(absl::StrCat(operation.name, "/", setup_.agent.member.value()),
      [this, &operation](const Outcome& outcome) {
        then_ = [this, &operation] {
          open_parts_ = static_cast<int>(operation.members.size());
          then_ = [this] { NextOperation(); };
          for (MemberIndex member : operation.members) {
            Read(absl::StrCat(operation.name, "/", member.value()), operation.duration,
                 [this](const Outcome& read) { PartEnded(read); });
          }
        };
        PartEnded(outcome, /*failure_is_fine=*/true);  // a former life may have set it
      });
}

void Process::Broadcast(const Operation& operation) {
  if (operation.members.front() == setup_.agent.member) {
    Set(operation.name, [this](const Outcome& outcome) { PartEnded(outcome, true); });
  } else {
    Read(operation.name, operation.duration,
         [this](const Outcome& outcome) { PartEnded(outcome); });
  }
}

void Process::Set(const std::string& key, Done done) {
  const std::string value = absl::StrCat(key, " by ", setup_.agent.incarnation.value());
  agent_.Call(coord::SetKey{.key = key, .value = value}, absl::InfiniteDuration(), std::move(done));
}

// A stock agent keeps the time itself and leaves the call parked; a better one cancels it.
void Process::Read(const std::string& key, absl::Duration timeout, Done done) {
  auto counted = [this, done = std::move(done)](const Outcome& outcome) mutable {
    if (outcome.ok()) ++work_.reads;
    done(outcome);
  };
  if (random_.Percent(50)) {
    agent_.Call(coord::GetKey{.key = key}, timeout, std::move(counted));
    return;
  }
  auto shared = std::make_shared<Done>(std::move(counted));
  agent_.Call(coord::GetKey{.key = key}, absl::InfiniteDuration(),
              [shared](const Outcome& outcome) {
                if (Done end = std::exchange(*shared, nullptr)) end(outcome);
              });
  network_.After(peer_, timeout, [shared] {
    if (Done end = std::exchange(*shared, nullptr)) end({.ending = Ending::kDeadline});
  });
}

void Process::PartEnded(const Outcome& outcome, bool failure_is_fine) {
  if (!outcome.ok() && !failure_is_fine) failed_part_ = true;
  if (--open_parts_ > 0) return;
  if (failed_part_ && !setup_.goes_on) return Exit(1, "an operation failed");
  // From the schedule, so that a row of operations does not nest.
  network_.After(peer_, absl::ZeroDuration(), [then = std::exchange(then_, nullptr)] { then(); });
}

void Process::Leave() {
  agent_.Leave([this](const Outcome& outcome) {
    if (!outcome.ok()) {
      return Exit(1, outcome.error ? absl::StrCat("leaving: ", coord::ToString(*outcome.error))
                                   : "leaving: no answer");
    }
    ++work_.clean_exits;
    Exit(0, "done");
  });
}

void Process::ReportError() {
  agent_.Call(coord::ReportError{.member = setup_.agent.member,
                                 .code = absl::StatusCode::kInternal,
                                 .message = "the device is stuck"},
              absl::InfiniteDuration(), [](const Outcome&) {});
}

void Process::Reset() {
  agent_.Call(coord::ResetMember{.member = setup_.agent.member}, absl::InfiniteDuration(),
              [](const Outcome&) {});
}

}  // namespace lockstep::sim
