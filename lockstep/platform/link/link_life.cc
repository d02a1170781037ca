#include "lockstep/platform/link/link_life.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::link {
namespace {

constexpr absl::Duration kClosingTime = absl::Seconds(1);

// An end that only pings is heard in time; one that has gone is found by its silence, before what
// it did not read or go on with counts against it.
static_assert(LinkOptions().ping_interval < LinkOptions().silence_timeout);
static_assert(LinkOptions().silence_timeout < LinkOptions().write_timeout);
static_assert(LinkOptions().silence_timeout < LinkOptions().message_timeout);
// Last words take no longer than first ones.
static_assert(kClosingTime <= LinkOptions().hello_timeout);

}  // namespace

LinkLife::LinkLife(const LinkOptions& options, Time now)
    : options_(options),
      state_since_(now),
      last_heard_(now),
      last_sent_(now),
      writing_since_(now),
      look_at_(now + options.message_timeout / 2) {}

void LinkLife::Open(Time now) {
  LOCKSTEP_DCHECK(state_ == State::kGreeting);
  state_ = State::kOpen;
  state_since_ = last_heard_ = last_sent_ = now;
}

void LinkLife::BeginClosing(Time now, absl::Status why) {
  LOCKSTEP_DCHECK(converses());
  LOCKSTEP_DCHECK(!why.ok());
  state_ = State::kClosing;
  state_since_ = now;
  why_ = std::move(why);
}

void LinkLife::End(absl::Status why) {
  LOCKSTEP_DCHECK(state_ != State::kClosed);
  if (state_ != State::kClosing) why_ = std::move(why);
  state_ = State::kClosed;
}

Time LinkLife::NextDue() const {
  switch (state_) {
    case State::kGreeting:
      return state_since_ + options_.hello_timeout;
    case State::kOpen:
      return std::min(last_sent_ + options_.ping_interval, last_heard_ + options_.silence_timeout);
    case State::kClosing:
      return state_since_ + kClosingTime;
    case State::kClosed:
      break;
  }
  return Time::Infinite();
}

void LinkLife::Woke(Time now, Time due) {
  if (now - due <= options_.ping_interval) return;
  last_heard_ = writing_since_ = now;
  look_at_ = std::max(look_at_, now + options_.ping_interval);
}

bool LinkLife::TakeLook(Time now) {
  if (now < look_at_) return false;
  look_at_ = now + options_.message_timeout / 2;
  return true;
}

}  // namespace lockstep::link
