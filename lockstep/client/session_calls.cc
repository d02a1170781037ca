#include "lockstep/client/session_calls.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/check.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::client {
namespace {

using wire::native::WithDetail;

// What may be added to a request before it is sent: its time-out.
constexpr size_t kAddedBytes = 16;
static_assert(kAddedBytes >= 5 + 10);  // the longest tag and the longest varint

absl::Status OverLimit(std::string text) {
  return wire::native::WithReason(absl::ResourceExhaustedError(std::move(text)), "limit_exceeded");
}

}  // namespace

SessionCalls::SessionCalls(Options options)
    : options_(std::move(options)), message_bytes_max_(options_.message_bytes_max) {}

// The server would close the link over it, again and again.
absl::Status SessionCalls::CheckSize(const Call& call) const {
  const size_t bytes = call.payload.size() + kAddedBytes;
  if (bytes <= message_bytes_max_) return absl::OkStatus();
  return OverLimit(
      absl::StrFormat("%s: the request has %d bytes, %d are allowed (message_bytes_max): give less "
                      "at a time, or keep it in a file and share its name",
                      call.what, bytes, message_bytes_max_));
}

absl::Status SessionCalls::CheckRoom(const Call& call, const RequestWindow& window) const {
  if (absl::Status status = CheckSize(call); !status.ok()) return status;
  if (calls_.size() >= options_.calls_max) {
    return OverLimit(absl::StrFormat("%d calls wait for their answers already (client_calls_max)",
                                     calls_.size()));
  }
  if (bytes_ + call.payload.size() > options_.bytes_max) {
    return OverLimit(
        absl::StrFormat("requests of %d bytes wait for their answers already, and %d more are over "
                        "client_call_bytes_max (%d)",
                        bytes_, call.payload.size(), options_.bytes_max));
  }
  if (Parks(call.type) && parked_ >= window.parked_max()) {
    return OverLimit(
        absl::StrFormat("%d calls are parked at the server already, and it takes %d requests of "
                        "one client at a time (requests_in_flight_max)",
                        parked_, window.max()));
  }
  return absl::OkStatus();
}

std::vector<std::pair<RequestNumber, absl::Status>> SessionCalls::SetMessageBytesMax(size_t bytes) {
  message_bytes_max_ = bytes;
  std::vector<std::pair<RequestNumber, absl::Status>> too_large;
  for (const auto& [number, entry] : calls_) {
    absl::Status status = CheckSize(entry.call);
    if (!status.ok()) too_large.emplace_back(number, std::move(status));
  }
  return too_large;
}

void SessionCalls::Add(Time now, RequestNumber number, Call call) {
  LOCKSTEP_CHECK(calls_.empty() || calls_.rbegin()->first < number);
  LOCKSTEP_DCHECK(!numbers_.contains(call.ticket));
  numbers_[call.ticket] = number;
  bytes_ += call.payload.size();
  if (Parks(call.type)) ++parked_;
  if (call.type != CallType::kOpen) unsent_.insert(unsent_.end(), number);
  if (!call.deadline.is_infinite()) deadlines_.emplace(call.deadline, number);
  calls_.emplace_hint(calls_.end(), number, Entry{.call = std::move(call), .since = now});
  CheckInvariants();
}

CompletedCall SessionCalls::Complete(Time now, RequestNumber number,
                                     absl::StatusOr<std::string> answer) {
  const auto node = calls_.extract(number);
  LOCKSTEP_CHECK(!node.empty());
  const Call& call = node.mapped().call;
  numbers_.erase(call.ticket);
  LOCKSTEP_DCHECK(bytes_ >= call.payload.size());
  LOCKSTEP_DCHECK(!Parks(call.type) || parked_ > 0);
  bytes_ -= call.payload.size();
  if (Parks(call.type)) --parked_;
  unsent_.erase(number);
  deadlines_.erase({call.deadline, number});
  CheckInvariants();
  if (answer.ok()) return {call.ticket, std::move(answer)};
  absl::Status status = WithDetail(answer.status(), "job", options_.job);
  status = WithDetail(std::move(status), "server", options_.server);
  status = WithDetail(std::move(status), "request", call.what);
  const int64_t waited_ms = absl::ToInt64Milliseconds(now - node.mapped().since);
  return {call.ticket, WithDetail(std::move(status), "waited_ms", absl::StrCat(waited_ms))};
}

const SessionCalls::Entry* SessionCalls::Find(RequestNumber number) const {
  const auto it = calls_.find(number);
  return it == calls_.end() ? nullptr : &it->second;
}

std::optional<RequestNumber> SessionCalls::NumberOf(Ticket ticket) const {
  const auto it = numbers_.find(ticket);
  if (it == numbers_.end()) return std::nullopt;
  return it->second;
}

const SessionCalls::Request* SessionCalls::TakeUnsent() {
  if (unsent_.empty()) return nullptr;
  const auto it = calls_.find(unsent_.extract(unsent_.begin()).value());
  LOCKSTEP_DCHECK(!it->second.sent);
  it->second.sent = true;
  return &*it;
}

void SessionCalls::LinkLost() {
  for (auto& [number, entry] : calls_) {
    entry.sent = false;
    if (entry.call.type != CallType::kOpen) unsent_.insert(unsent_.end(), number);
  }
  CheckInvariants();
}

Time SessionCalls::NextDeadline() const {
  return deadlines_.empty() ? Time::Infinite() : deadlines_.begin()->first;
}

std::optional<RequestNumber> SessionCalls::TimedOut(Time now) const {
  if (deadlines_.empty() || now < deadlines_.begin()->first) return std::nullopt;
  return deadlines_.begin()->second;
}

// (1) Every call has one ticket; (2) the indexes name calls that are here; (3) the sums are zero
// when no call is.
void SessionCalls::CheckInvariants() const {
  LOCKSTEP_DCHECK(numbers_.size() == calls_.size());
  LOCKSTEP_DCHECK(unsent_.size() <= calls_.size() && deadlines_.size() <= calls_.size());
  LOCKSTEP_DCHECK(!calls_.empty() || (bytes_ == 0 && parked_ == 0));
}

}  // namespace lockstep::client
