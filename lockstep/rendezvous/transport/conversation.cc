#include "lockstep/rendezvous/transport/conversation.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::transport {
namespace {

using rendezvous::Reason;

}  // namespace

Conversation::Conversation(Options options)
    : options_(std::move(options)),
      redialer_(options_.backoff_first, options_.backoff_last, options_.seed),
      received_({.delay = options_.ack_delay,
                 .messages = options_.ack_messages,
                 .bytes = options_.ack_bytes}) {
  LOCKSTEP_CHECK(options_.self != options_.peer);
}

// --- Links ---

void Conversation::Start(Time now, Effects& out) {
  history_.Start(now);
  if (options_.role == Role::kDials) StartDial(now, out);
}

// Whoever has it knows all that we have received.
Greeting Conversation::NextGreeting() {
  return {.conversation = options_.conversation,
          .yours = peer_.conversation,
          .incarnation = options_.incarnation,
          .received_through = received_.Acknowledge(),
          .turn = ++turn_};
}

void Conversation::StartDial(Time now, Effects& out) {
  LOCKSTEP_DCHECK(options_.role == Role::kDials && !up() && !ended());
  stage_ = Stage::kDialing;
  link_ = NewLink();
  history_.DialStarted();
  redialer_.DialStarted(now, options_.dial_timeout);
  out.dial = {.link = link_, .hello = NextGreeting()};
}

bool Conversation::Knows(Time now, const Greeting& theirs, Effects& out) {
  const bool same_process = theirs.incarnation == options_.peer_incarnation;
  if (same_process && peer_.conversation.value_or(theirs.conversation) == theirs.conversation) {
    peer_.conversation = theirs.conversation;
    return true;
  }
  const std::string without_link =
      up() ? "" : absl::StrCat(" (no link for ", TextOf(now - history_.down_since()), ")");
  Lose(absl::StatusCode::kFailedPrecondition, Reason::kPeerRestarted,
       absl::StrCat(
           options_.peer_name, same_process ? " has begun to talk anew" : " was started again",
           ", and knows nothing of what was said before", without_link, ": begin the step again"),
       out);
  return false;
}

void Conversation::TakeDial(Time now, LinkId link, const Greeting& hello, Effects& out) {
  if (ended()) return out.close.push_back(link);
  if (hello.yours.has_value() && *hello.yours != options_.conversation) {
    out.welcome = {.link = link, .welcome = NextGreeting(), .last = true};
    return;
  }
  if (!Knows(now, hello, out) || hello.turn <= peer_.turn) return out.close.push_back(link);
  peer_.turn = hello.turn;
  if (stage_ != Stage::kDialing || !KeepsOwnDial(options_.self, options_.peer)) {
    return Welcomes(now, link, hello, out);
  }
  if (held_.has_value()) out.close.push_back(held_->link);
  held_ = {.link = link, .hello = hello};
  redialer_.GiveUpBy(now + options_.crossing_timeout);
}

void Conversation::Welcomes(Time now, LinkId link, const Greeting& hello, Effects& out) {
  DropLinks(out);
  out.welcome = {.link = link, .welcome = NextGreeting()};
  BecomeUp(now, link, hello, out);
}

void Conversation::LinkUp(Time now, LinkId link, const Greeting& welcome, Effects& out) {
  if (stage_ != Stage::kDialing || link != link_ || !Knows(now, welcome, out)) return;
  if (held_.has_value() && held_->hello.turn > welcome.turn) {
    // They dialed after they welcomed us: of the link that we dialed they know that it is broken.
    out.close.push_back(link);
    const Held held = *std::exchange(held_, std::nullopt);
    stage_ = Stage::kDown;
    return Welcomes(now, held.link, held.hello, out);
  }
  if (held_.has_value()) out.close.push_back(std::exchange(held_, std::nullopt)->link);
  peer_.turn = std::max(peer_.turn, welcome.turn);
  BecomeUp(now, link, welcome, out);
}

void Conversation::BecomeUp(Time now, LinkId link, const Greeting& theirs, Effects& out) {
  if (theirs.received_through < sent_.acknowledged()) {
    return BreakRule("forgets what it had received", out);
  }
  // Another link that waited was answered, or closed.
  LOCKSTEP_DCHECK(!held_.has_value());
  stage_ = Stage::kUp;
  link_ = link;
  history_.LinkUp(now);
  redialer_.LinkUp();
  // Before anything is sent again: what it has is not.
  if (!TakeAcknowledgement(theirs.received_through, out)) return;
  sent_.ForEach([&](uint64_t number, const Payload& payload) { SendOne(number, payload, out); });
}

void Conversation::DropLinks(Effects& out) {
  if (stage_ == Stage::kUp || stage_ == Stage::kDialing) out.close.push_back(link_);
  if (held_.has_value()) out.close.push_back(std::exchange(held_, std::nullopt)->link);
}

void Conversation::LinkDown(Time now, LinkId link, const absl::Status& why, Effects& out) {
  if (ended()) return;
  if (held_.has_value() && held_->link == link) return held_.reset();
  if (link != link_) return;
  if (stage_ == Stage::kDialing) return FailDial(now, why, out);
  if (stage_ != Stage::kUp) return;
  stage_ = Stage::kDown;
  const bool dial_now = redialer_.LinkLost(history_.LinkLost(now, why));
  if (options_.role == Role::kTakes) return;
  dial_now ? StartDial(now, out) : redialer_.Pause(now);
}

void Conversation::FailDial(Time now, const absl::Status& why, Effects& out) {
  stage_ = Stage::kDown;
  history_.DialFailed(why);
  redialer_.DialFailed();
  if (!held_.has_value()) return redialer_.Pause(now);
  const Held held = *std::exchange(held_, std::nullopt);
  Welcomes(now, held.link, held.hello, out);
}

// --- Messages ---

void Conversation::Send(Payload payload, Effects& out) {
  if (ended()) return;
  const uint64_t number = sent_.Push(payload);
  if (up()) SendOne(number, payload, out);
}

void Conversation::SendOne(uint64_t number, const Payload& payload, Effects& out) {
  LOCKSTEP_DCHECK(up());
  out.send.push_back({.link = link_,
                      .number = number,
                      .acknowledged = received_.Acknowledge(),
                      .payload = payload});
}

void Conversation::Take(Time now, LinkId link, uint64_t number, uint64_t acknowledged,
                        std::string payload, Effects& out) {
  if (!up() || link != link_) return;
  if (!TakeAcknowledgement(acknowledged, out) || number == 0) return;
  if (received_.Skips(number)) {
    return BreakRule(absl::StrCat("sent message ", number, " after message ", received_.through()),
                     out);
  }
  if (received_.Take(now, number, payload.size())) out.deliver.push_back(std::move(payload));
  if (received_.OwesMuch()) SendOne(0, nullptr, out);
}

bool Conversation::TakeAcknowledgement(uint64_t through, Effects& out) {
  if (sent_.Acknowledge(through)) return true;
  BreakRule(absl::StrCat("acknowledged message ", through, " of ", sent_.last()), out);
  return false;
}

// --- The end ---

void Conversation::BreakRule(std::string_view what, Effects& out) {
  Lose(absl::StatusCode::kInternal, Reason::kProtocol,
       absl::StrCat(options_.peer_name, " broke the rules of the conversation: it ",
                    std::string(what), "; install the same version of Lockstep for both"),
       out);
}

void Conversation::Lose(absl::StatusCode code, Reason reason, std::string text, Effects& out) {
  Close(out);
  out.lost = rendezvous::MakeError(code, reason, std::move(text));
}

void Conversation::Close(Effects& out) {
  if (ended()) return;
  DropLinks(out);
  stage_ = Stage::kEnded;
  sent_.Clear();
  out.welcome.reset();
  out.send.clear();
}

// --- Time ---

Time Conversation::NextDeadline() const {
  if (ended()) return Time::Infinite();
  if (up()) return received_.due();
  return std::min(
      {history_.down_since() + options_.grace, redialer_.dial_at(), redialer_.give_up_at()});
}

void Conversation::ReachDeadline(Time now, Effects& out) {
  if (ended()) return;
  if (up()) {
    if (now >= received_.due()) SendOne(0, nullptr, out);
    return;
  }
  if (now >= history_.down_since() + options_.grace) {
    return Lose(
        absl::StatusCode::kUnavailable, Reason::kUnreachable,
        history_.WhyLost(now, options_.peer_name, options_.role == Role::kDials, options_.grace),
        out);
  }
  if (now >= redialer_.give_up_at()) {
    out.close.push_back(link_);
    return FailDial(now, absl::DeadlineExceededError("no answer to the hello"), out);
  }
  if (now >= redialer_.dial_at()) StartDial(now, out);
}

}  // namespace lockstep::transport
