#include "lockstep/sim/stock/host.h"

#include <utility>

#include "lockstep/agent/call_names.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/link_messages.h"
#include "lockstep/wire/native/stock_call_messages.h"

namespace lockstep::sim {
namespace {

using link::FrameType;
using link::Message;
using wire::native::KindOf;
using wire::native::StockCall;

constexpr size_t kRequestsInFlightMax = 1024;
constexpr size_t kMessageBytesMax = size_t{64} << 20;

// As StockCalls does; no answer is with another agent here.
agent::CallForwarder::Reply ToReply(absl::StatusOr<std::string> answer) {
  if (!answer.ok()) return answer.status();
  return wire::native::Decode<wire::native::StockCallReply>(*std::move(answer));
}

bool IsStockCall(const Message& message) {
  return message.type == FrameType::kRequest && message.kind == KindOf<StockCall>::kKind;
}

}  // namespace

StockHost::StockHost(Schedule& schedule, StockServer& server, Random random,
                     absl::Duration patience, StockMutation mutant)
    : schedule_(schedule),
      server_(server),
      random_(random),
      mutant_(mutant),
      machine_({.job = "job",
                .server = "h:1",
                .grace = patience,
                .seed = random_.Next(),
                .id_seeds = {random_.Next(), random_.Next()}}) {
  forwarders_.push_back(
      std::make_shared<agent::CallForwarder>([this](client::Request request, Done done) {
        return Ask(std::move(request), std::move(done));
      }));
}

void StockHost::Start() {
  With([this](Effects& out) { machine_.Start(schedule_.now(), out); });
}

void StockHost::Do(std::function<void()> action) {
  if (!alive_) return;
  if (schedule_.now() < paused_until_ || !paused_.empty()) {
    paused_.push_back(std::move(action));
  } else {
    action();
  }
}

void StockHost::Pause(absl::Duration how_long) {
  paused_until_ = schedule_.now() + how_long;
  schedule_.At(paused_until_, [this] {
    while (alive_ && schedule_.now() >= paused_until_ && !paused_.empty()) {
      const std::function<void()> next = std::move(paused_.front());
      paused_.pop_front();
      next();
    }
  });
}

std::function<void()> StockHost::Begin(net::AgentCall call, agent::CallForwarder::Answer answer) {
  if (mutant_ == StockMutation::kHeartbeatsWait && agent::IsHeartbeat(call.method)) {
    forwarders_.push_back(
        std::make_shared<agent::CallForwarder>([this](client::Request request, Done done) {
          return Ask(std::move(request), std::move(done));
        }));
  }
  std::function<void()> leave = forwarders_.back()->Begin(std::move(call), std::move(answer));
  return mutant_ == StockMutation::kLeavesQuietly ? nullptr : leave;
}

// As client::Engine::Submit.
std::function<void()> StockHost::Ask(client::Request request, Done done) {
  if (mutant_ == StockMutation::kIncrementsAreReads &&
      request.what == "the call IncrementKeyValue") {
    request.type = client::CallType::kRead;
  }
  const client::Ticket ticket = ++last_ticket_;
  waiting_[ticket] = std::move(done);
  With([&](Effects& out) {
    machine_.Submit(schedule_.now(),
                    {.ticket = ticket,
                     .kind = request.kind,
                     .type = request.type,
                     .payload = std::move(request.payload),
                     .timeout_field = request.timeout_field,
                     .leave_server_a_margin = request.leave_server_a_margin,
                     .deadline = schedule_.now() + request.timeout,
                     .what = std::move(request.what)},
                    out);
  });
  return [this, ticket] {
    With([&](Effects& out) { machine_.Cancel(schedule_.now(), ticket, out); });
  };
}

void StockHost::With(const std::function<void(Effects&)>& step) {
  Effects effects;
  step(effects);
  Carry(std::move(effects));
}

void StockHost::Carry(Effects effects) {
  for (Message& message : effects.send) Send(std::move(message));
  if ((effects.farewell || effects.drop_link) && link_) {
    ++dial_;
    server_.Break(*std::exchange(link_, std::nullopt), /*silent=*/false);
  }
  if (effects.dial) {
    schedule_.After(random_.Between(absl::ZeroDuration(), absl::Milliseconds(2)),
                    [this, dial = ++dial_] {
                      Do([this, dial] {
                        if (dial == dial_) Dial();
                      });
                    });
  }
  if (effects.failed) gave_up_ = true;
  for (client::CompletedCall& completed : effects.completed) {
    auto done = waiting_.extract(completed.ticket);
    done.mapped()(ToReply(std::move(completed.answer)));
  }
  Arm();
}

void StockHost::Send(Message message) {
  if (!link_) return;
  if (mutant_ == StockMutation::kNewSessions &&
      message.kind == KindOf<wire::native::OpenSession>::kKind) {
    auto open = wire::native::Decode<wire::native::OpenSession>(message.payload);
    for (char& byte : open->session.data) byte = static_cast<char>(random_.Next());
    open->resume = false;
    message.payload = wire::native::Encode(*open);
  }
  const uint64_t number = message.id;
  if (IsStockCall(message)) {
    if (mutant_ == StockMutation::kNumbersAnew && number <= greatest_sent_) {
      message.id = (uint64_t{1} << 40) + renumbered_.size() + 1;
      renumbered_[message.id] = number;
    }
    greatest_sent_ = std::max(greatest_sent_, number);
  }
  server_.Send(*link_, std::move(message));
  if (mutant_ == StockMutation::kAcknowledgesEarly) {
    const wire::native::Answered early = {.through = number};
    server_.Send(*link_, {.type = FrameType::kAnswered, .payload = wire::native::Encode(early)});
  }
}

void StockHost::Dial() {
  const uint64_t dial = ++dial_;
  const auto if_current = [this, dial](std::function<void()> action) {
    Do([this, dial, action = std::move(action)] {
      if (dial == dial_) action();
    });
  };
  link_ = server_.Dial({.message =
                            [this, if_current](Message&& message) {
                              if_current([this, message = std::move(message)] { Took(message); });
                            },
                        .broke = [this, if_current] { if_current([this] { Broke(); }); }});
  if (!link_) return Broke();
  With([this](Effects& out) {
    machine_.LinkReady(schedule_.now(), kRequestsInFlightMax, kMessageBytesMax, out);
  });
}

void StockHost::Took(Message message) {
  if (mutant_ == StockMutation::kForgetsTheOthers && message.type == FrameType::kAlsoAnswered)
    return;
  if (const auto old = renumbered_.find(message.id); old != renumbered_.end()) {
    message.id = old->second;
  }
  With([&](Effects& out) { machine_.Take(schedule_.now(), std::move(message), out); });
}

void StockHost::Broke() {
  link_.reset();
  ++dial_;
  With([this](Effects& out) {
    machine_.LinkLost(schedule_.now(), absl::UnavailableError("the link broke"), out);
  });
  if (mutant_ != StockMutation::kFailsOnBreak) return;
  for (auto& [ticket, done] : std::exchange(waiting_, {})) {
    waiting_[ticket] = [](const agent::CallForwarder::Reply&) {};
    done(absl::UnavailableError("the link broke"));
  }
}

void StockHost::Arm() {
  const Time deadline = machine_.NextDeadline();
  if (deadline >= armed_ || deadline.is_infinite()) return;
  armed_ = deadline;
  schedule_.At(deadline, [this, deadline] {
    Do([this, deadline] {
      if (armed_ != deadline) return;
      armed_ = Time::Infinite();
      With([this](Effects& out) { machine_.ReachDeadline(schedule_.now(), out); });
    });
  });
}

void StockHost::BreakLink(bool silent) {
  if (link_) server_.Break(*link_, silent);
}

void StockHost::Die() {
  if (!std::exchange(alive_, false)) return;
  if (link_) server_.Break(*link_, /*silent=*/false);
}

}  // namespace lockstep::sim
