#include "lockstep/client/session_link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/platform/link/refusals.h"
#include "lockstep/platform/runtime/server_list.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::client {
namespace {

// A link that broke sooner than this counts as failures to connect, of which it is taken for so
// many: a server that breaks every link is not called in a tight circle, and one that dies twice in
// a row is found again soon.
constexpr absl::Duration kGoodLink = absl::Seconds(1);
constexpr int kAttemptsOfBadLink = 2;
static_assert(kAttemptsOfBadLink > 0);  // with none the next dial would come at once

// splitmix64, which maps states to numbers one to one: none of their bits is lost.
uint64_t Draw(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

std::string WaitText(absl::Duration duration) {
  const auto unit = duration >= absl::Seconds(10) ? absl::Seconds(1) : absl::Milliseconds(1);
  return absl::FormatDuration(absl::Trunc(duration, unit));
}

SessionLink::SessionLink(Options options)
    : options_(std::move(options)),
      random_(options_.seed),
      random_ids_(options_.id_seeds),
      id_(16, '\0'),
      state_(Down{}) {
  DrawId();
}

void SessionLink::DrawId() {
  for (size_t half = 0; half < 2; ++half) {
    const uint64_t bits = Draw(random_ids_[half]);
    for (size_t byte = 0; byte < 8; ++byte) {
      id_[8 * half + byte] = static_cast<char>(bits >> (8 * byte));
    }
  }
}

bool SessionLink::opens_with(RequestNumber request) const {
  const auto* opening = std::get_if<Opening>(&state_);
  return opening != nullptr && opening->request == request;
}

const std::string* SessionLink::opened() const {
  const auto* open = std::get_if<Open>(&state_);
  return open == nullptr ? nullptr : &open->reply;
}

absl::Status SessionLink::why_ended() const {
  const auto* ended = std::get_if<Ended>(&state_);
  return ended == nullptr ? absl::OkStatus() : ended->why;
}

void SessionLink::Start(Time now) {
  down_since_ = now;
  attempts_ = 1;
  state_ = Dialing{};
}

wire::native::OpenSession SessionLink::Ready(RequestNumber request) {
  LOCKSTEP_CHECK(std::holds_alternative<Dialing>(state_));
  state_ = Opening{request};
  return {.session = {id_}, .job = {}, .resume = opened_once_, .shares_answers = true};
}

void SessionLink::Opened(Time now, std::string reply) {
  LOCKSTEP_DCHECK(std::holds_alternative<Opening>(state_));
  state_ = Open{.since = now, .reply = std::move(reply)};
  opened_once_ = true;
}

void SessionLink::Renew() {
  LOCKSTEP_DCHECK(std::holds_alternative<Opening>(state_));  // asked under the former id
  DrawId();
  opened_once_ = false;
}

bool SessionLink::Lost(Time now, const absl::Status& why) {
  LOCKSTEP_DCHECK(up());
  if (const auto* open = std::get_if<Open>(&state_)) {
    down_since_ = now;
    attempts_ = now - open->since >= kGoodLink ? 0 : kAttemptsOfBadLink;
  }
  last_failure_ = why;
  if (attempts_++ == 0) {
    state_ = Dialing{};
    return true;
  }
  LOCKSTEP_DCHECK(attempts_ >= 2);
  const int doublings = std::min(attempts_ - 2, 20);
  const absl::Duration whole =
      std::min(options_.backoff_first * (int64_t{1} << doublings), options_.backoff_last);
  const double part =
      0.5 + 0.5 * static_cast<double>(Draw(random_) >> 11) / static_cast<double>(1ull << 53);
  state_ = Down{.redial_at = now + whole * part};
  return false;
}

void SessionLink::End(absl::Status why) { state_ = Ended{std::move(why)}; }

bool SessionLink::RedialDue(Time now) {
  const auto* down = std::get_if<Down>(&state_);
  if (down == nullptr || now < down->redial_at) return false;
  state_ = Dialing{};
  return true;
}

bool SessionLink::IsHopeless(const absl::Status& why) const {
  return !opened_once_ && link::IsHopeless(why);
}

// A server that was never reached is looked for as long as somebody waits for it.
Time SessionLink::GraceEnd() const {
  if (open() || ended() || !opened_once_) return Time::Infinite();
  return down_since_ + options_.grace;
}

absl::Status SessionLink::GraceOver(Time now) const {
  if (now < GraceEnd()) return absl::OkStatus();
  return wire::native::WithReason(
      absl::UnavailableError(absl::StrCat(
          Describe(now), " in ", attempts_, " attempts; the grace of ", WaitText(options_.grace),
          " is over, and with it this membership: look whether the server runs, and join again")),
      "server_lost");
}

Time SessionLink::NextDeadline() const {
  const auto* down = std::get_if<Down>(&state_);
  return down == nullptr ? GraceEnd() : std::min(GraceEnd(), down->redial_at);
}

std::string SessionLink::Describe(Time now) const {
  if (open()) return absl::StrCat("connected to ", runtime::OneServer(options_.server));
  return absl::StrCat(
      runtime::TheServer(options_.server), runtime::AreServers(options_.server) ? " have" : " has",
      opened_once_ ? " been away for " : " not been reached for ", WaitText(now - down_since_),
      last_failure_.ok() ? "" : absl::StrCat(" (", last_failure_.message(), ")"));
}

}  // namespace lockstep::client
