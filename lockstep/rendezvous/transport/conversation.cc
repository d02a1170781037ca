#include "lockstep/rendezvous/transport/conversation.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::transport {
namespace {

using rendezvous::Reason;

// As with the link to the server: a link that broke sooner than this counts as failures to connect,
// of which it is taken for so many.
constexpr absl::Duration kGoodLink = absl::Seconds(1);
constexpr int kAttemptsOfBadLink = 2;

std::string Text(absl::Duration duration) {
  const auto unit = duration >= absl::Seconds(10) ? absl::Seconds(1) : absl::Milliseconds(1);
  return absl::FormatDuration(absl::Trunc(duration, unit));
}

}  // namespace

Conversation::Conversation(Options options) : options_(std::move(options)), random_(options_.seed) {
  LOCKSTEP_CHECK(options_.self != options_.peer);
}

// splitmix64
uint64_t Conversation::Draw() {
  uint64_t z = (random_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// --- Links ---

void Conversation::Start(Time now, Effects& out) {
  down_since_ = now;
  if (options_.role == Role::kDials) StartDial(now, out);
}

// Whoever has it knows all that we have received.
Greeting Conversation::NextGreeting() {
  owed_messages_ = owed_bytes_ = 0;
  acknowledge_at_ = Time::Infinite();
  return {.conversation = options_.conversation,
          .yours = theirs_,
          .incarnation = options_.incarnation,
          .received_through = received_through_,
          .turn = ++turn_};
}

void Conversation::StartDial(Time now, Effects& out) {
  stage_ = Stage::kDialing;
  link_ = NewLink();
  ++attempts_;
  ++dials_;
  dial_at_ = Time::Infinite();
  give_up_at_ = now + options_.dial_timeout;
  out.dial = {.link = link_, .hello = NextGreeting()};
}

// Whether this is the peer that we talk to, or talked to. If not, it is lost.
bool Conversation::Knows(Time now, const Greeting& theirs, Effects& out) {
  const bool same_process = theirs.incarnation == options_.peer_incarnation;
  if (same_process && (!theirs_.has_value() || *theirs_ == theirs.conversation)) {
    theirs_ = theirs.conversation;
    return true;
  }
  Lose(absl::StatusCode::kFailedPrecondition, Reason::kPeerRestarted,
       absl::StrCat(
           options_.peer_name, same_process ? " has begun to talk anew" : " was started again",
           ", and knows nothing of what was said before",
           stage_ == Stage::kUp ? "" : absl::StrCat(" (no link for ", Text(now - down_since_), ")"),
           ": begin the step again"),
       out);
  return false;
}

void Conversation::TakeDial(Time now, LinkId link, const Greeting& hello, Effects& out) {
  if (ended()) return out.close.push_back(link);
  if (hello.yours.has_value() && *hello.yours != options_.conversation) {
    out.welcome = {.link = link, .welcome = NextGreeting(), .last = true};
    return;
  }
  if (!Knows(now, hello, out) || hello.turn <= their_turn_) return out.close.push_back(link);
  their_turn_ = hello.turn;
  if (stage_ != Stage::kDialing || !KeepsOwnDial(options_.self, options_.peer)) {
    return Welcomes(now, link, hello, out);
  }
  if (held_.has_value()) out.close.push_back(held_->link);
  held_ = {.link = link, .hello = hello};
  give_up_at_ = std::min(give_up_at_, now + options_.crossing_timeout);
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
  their_turn_ = std::max(their_turn_, welcome.turn);
  BecomeUp(now, link, welcome, out);
}

void Conversation::BecomeUp(Time now, LinkId link, const Greeting& theirs, Effects& out) {
  if (theirs.received_through < acknowledged_)
    return BreakRule("forgets what it had received", out);
  stage_ = Stage::kUp;
  was_up_ = true;
  link_ = link;
  up_at_ = now;
  dials_ = 0;
  dial_at_ = give_up_at_ = Time::Infinite();
  if (theirs.received_through < acknowledged_) {
    return BreakRule("has forgotten what it had received", out);
  }
  if (!TakeAcknowledgement(theirs.received_through, out)) return;
  uint64_t number = acknowledged_;
  for (const Payload& payload : unacknowledged_) SendOne(payload, ++number, out);
}

// Of what there is: the link that is up or being dialed, and the held one.
void Conversation::DropLinks(Effects& out) {
  if (stage_ == Stage::kUp || stage_ == Stage::kDialing) out.close.push_back(link_);
  if (held_.has_value()) out.close.push_back(std::exchange(held_, std::nullopt)->link);
}

void Conversation::LinkDown(Time now, LinkId link, const absl::Status& why, Effects& out) {
  if (ended()) return;
  if (held_.has_value() && held_->link == link) return held_.reset();
  if (link != link_) return;
  if (stage_ == Stage::kDialing) return FailDial(now, why, out);
  if (stage_ == Stage::kUp) return LoseLink(now, why, out);
}

void Conversation::FailDial(Time now, const absl::Status& why, Effects& out) {
  last_failure_ = why;
  stage_ = Stage::kDown;
  give_up_at_ = Time::Infinite();
  if (!held_.has_value()) return Wait(now);
  const Held held = *std::exchange(held_, std::nullopt);
  Welcomes(now, held.link, held.hello, out);
}

void Conversation::LoseLink(Time now, const absl::Status& why, Effects& out) {
  last_failure_ = why;
  stage_ = Stage::kDown;
  down_since_ = now;
  acknowledge_at_ = Time::Infinite();
  attempts_ = now - up_at_ >= kGoodLink ? 0 : std::max(attempts_, kAttemptsOfBadLink);
  if (options_.role == Role::kTakes) return;
  if (attempts_ == 0) return StartDial(now, out);
  Wait(now);
}

// Until the next dial.
void Conversation::Wait(Time now) {
  const int doublings = std::clamp(attempts_ - 1, 0, 20);
  const absl::Duration whole =
      std::min(options_.backoff_first * (int64_t{1} << doublings), options_.backoff_last);
  const double part =
      0.5 + 0.5 * static_cast<double>(Draw() >> 11) / static_cast<double>(1ull << 53);
  dial_at_ = now + whole * part;
}

// --- Messages ---

void Conversation::Send(Payload payload, Effects& out) {
  if (ended()) return;
  LOCKSTEP_CHECK(payload != nullptr);
  unacknowledged_bytes_ += payload->size();
  unacknowledged_.push_back(std::move(payload));
  if (up()) SendOne(unacknowledged_.back(), acknowledged_ + unacknowledged_.size(), out);
}

void Conversation::SendOne(const Payload& payload, uint64_t number, Effects& out) {
  owed_messages_ = owed_bytes_ = 0;
  acknowledge_at_ = Time::Infinite();
  out.send.push_back(
      {.link = link_, .number = number, .acknowledged = received_through_, .payload = payload});
}

void Conversation::Acknowledge(Effects& out) { SendOne(nullptr, 0, out); }

void Conversation::Take(Time now, LinkId link, uint64_t number, uint64_t acknowledged,
                        std::string payload, Effects& out) {
  if (!up() || link != link_) return;
  if (!TakeAcknowledgement(acknowledged, out) || number == 0) return;
  if (number > received_through_ + 1) {
    return BreakRule(absl::StrCat("sent message ", number, " after message ", received_through_),
                     out);
  }
  ++owed_messages_;
  owed_bytes_ += payload.size();
  if (number == received_through_ + 1) {
    received_through_ = number;
    out.deliver.push_back(std::move(payload));
  }
  if (owed_messages_ >= options_.ack_messages || owed_bytes_ >= options_.ack_bytes) {
    return Acknowledge(out);
  }
  acknowledge_at_ = std::min(acknowledge_at_, now + options_.ack_delay);
}

// False: it was of a message that was never sent, and the conversation is lost.
bool Conversation::TakeAcknowledgement(uint64_t through, Effects& out) {
  if (through > acknowledged_ + unacknowledged_.size()) {
    BreakRule(absl::StrCat("acknowledged message ", through, " of ",
                           acknowledged_ + unacknowledged_.size()),
              out);
    return false;
  }
  for (; acknowledged_ < through; ++acknowledged_) {
    unacknowledged_bytes_ -= unacknowledged_.front()->size();
    unacknowledged_.pop_front();
  }
  return true;
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
  unacknowledged_.clear();
  unacknowledged_bytes_ = 0;
  out.welcome.reset();
  out.send.clear();
}

std::string Conversation::GraceOver(Time now) const {
  const std::string tried = options_.role == Role::kDials
                                ? absl::StrCat(", in ", dials_, " attempts to connect")
                                : std::string(", and has not connected again");
  return absl::StrCat(
      "no link to ", options_.peer_name, was_up_ ? " any more" : "", " for ",
      Text(now - down_since_), tried,
      last_failure_.ok() ? "" : absl::StrCat(" (the last: ", last_failure_.message(), ")"),
      "; the grace of ", Text(options_.grace),
      " is over: look whether it runs, and whether its address can be reached from here");
}

// --- Time ---

Time Conversation::NextDeadline() const {
  if (ended()) return Time::Infinite();
  if (up()) return acknowledge_at_;
  return std::min({down_since_ + options_.grace, dial_at_, give_up_at_});
}

void Conversation::ReachDeadline(Time now, Effects& out) {
  if (ended()) return;
  if (up()) {
    if (now >= acknowledge_at_) Acknowledge(out);
    return;
  }
  if (now >= down_since_ + options_.grace) {
    return Lose(absl::StatusCode::kUnavailable, Reason::kUnreachable, GraceOver(now), out);
  }
  if (now >= give_up_at_) {
    out.close.push_back(link_);
    return FailDial(now, absl::DeadlineExceededError("no answer to the hello"), out);
  }
  if (now >= dial_at_) StartDial(now, out);
}

}  // namespace lockstep::transport
