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
  for (const auto& [name, entry] : calls_) {
    absl::Status status = CheckSize(entry.call);
    if (!status.ok()) too_large.emplace_back(name.number, std::move(status));
  }
  return too_large;
}

void SessionCalls::Add(Time now, RequestNumber number, Call&& call) {
  const Name name = {.number = number, .ticket = call.ticket};
  LOCKSTEP_CHECK(sent_through_ < number);
  LOCKSTEP_CHECK(calls_.empty() || (calls_.rbegin()->first.number < number &&
                                    calls_.rbegin()->first.ticket < call.ticket));
  bytes_ += call.payload.size();
  if (Parks(call.type)) ++parked_;
  if (!call.deadline.is_infinite()) deadlines_.emplace(call.deadline, number);
  Entry& entry = calls_.try_emplace(calls_.end(), name)->second;
  entry.call = std::move(call);
  entry.since = now;
  CheckInvariants();
}

CompletedCall SessionCalls::Complete(Time now, RequestNumber number,
                                     absl::StatusOr<std::string>&& answer) {
  const auto it = calls_.find(number);
  LOCKSTEP_CHECK(it != calls_.end());
  const auto node = calls_.extract(it);
  const Call& call = node.mapped().call;
  LOCKSTEP_DCHECK(bytes_ >= call.payload.size());
  LOCKSTEP_DCHECK(!Parks(call.type) || parked_ > 0);
  bytes_ -= call.payload.size();
  if (Parks(call.type)) --parked_;
  if (!call.deadline.is_infinite()) deadlines_.erase({call.deadline, number});
  CheckInvariants();
  if (answer.ok()) return {call.ticket, std::move(answer)};
  absl::Status status = WithDetail(answer.status(), "job", options_.job);
  status = WithDetail(std::move(status), "server", options_.server);
  status = WithDetail(std::move(status), "request", call.what);
  const int64_t waited_ms = absl::ToInt64Milliseconds(now - node.mapped().since);
  return {call.ticket, WithDetail(std::move(status), "waited_ms", absl::StrCat(waited_ms))};
}

const SessionCalls::Entry& SessionCalls::at(RequestNumber number) const {
  const auto it = calls_.find(number);
  LOCKSTEP_CHECK(it != calls_.end());
  return it->second;
}

bool SessionCalls::Sent(RequestNumber number) const {
  if (number > sent_through_) return false;
  const auto it = calls_.find(number);
  return it != calls_.end() && it->second.call.type != CallType::kOpen;
}

std::optional<RequestNumber> SessionCalls::NumberOf(Ticket ticket) const {
  const auto it = calls_.find(ByTicket{ticket});
  if (it == calls_.end()) return std::nullopt;
  return it->first.number;
}

SessionCalls::Request SessionCalls::TakeUnsent() {
  for (auto it = calls_.upper_bound(sent_through_); it != calls_.end(); ++it) {
    sent_through_ = it->first.number;
    const Call& call = it->second.call;
    if (call.type != CallType::kOpen) return {.number = sent_through_, .call = &call};
  }
  return {};
}

Time SessionCalls::NextDeadline() const {
  return deadlines_.empty() ? Time::Infinite() : deadlines_.begin()->first;
}

std::optional<RequestNumber> SessionCalls::TimedOut(Time now) const {
  if (deadlines_.empty() || now < deadlines_.begin()->first) return std::nullopt;
  return deadlines_.begin()->second;
}

// (1) The deadlines are those of calls that are here; (2) the sums are zero when no call is.
void SessionCalls::CheckInvariants() const {
  LOCKSTEP_DCHECK(deadlines_.size() <= calls_.size());
  LOCKSTEP_DCHECK(!calls_.empty() || (bytes_ == 0 && parked_ == 0));
}

}  // namespace lockstep::client
