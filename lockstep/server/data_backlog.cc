#include "lockstep/server/data_backlog.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/data/dispatch/error.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {

DataBacklog::DataBacklog(CommitQueue& commits, size_t bytes_max, TakeUp take_up,
                         std::function<void()> resized)
    : commits_(commits),
      bytes_max_(bytes_max),
      take_up_(std::move(take_up)),
      resized_(std::move(resized)) {}

bool DataBacklog::IsCrowded() const {
  return waits_ && commits_.queued_bytes() >= bytes_max_ && !commits_.idle();
}

bool DataBacklog::MustWait(const link::Request& request) const {
  return request.payload.size() > kSmallRequestBytes && IsCrowded();
}

absl::Status DataBacklog::CheckRoom(const link::Request& request) const {
  if (bytes_ + request.payload.size() <= bytes_max_ || waiting_.empty()) return absl::OkStatus();
  return wire::native::WithReason(
      absl::ResourceExhaustedError(absl::StrCat(
          "the disk cannot keep up: ", commits_.queued_bytes(), " bytes are queued, plus ", bytes_,
          " of the data service (journal_queue_bytes_max ", bytes_max_,
          "); nothing was changed, retry later")),
      dispatch::reason::kLimitReached);
}

void DataBacklog::Add(link::Request request, link::Responder responder) {
  LOCKSTEP_DCHECK(waits_);  // else the disk is not waited for
  bytes_ += request.payload.size();
  // Their texts are the link's, which may be gone by then.
  request.who = {};
  request.peer = {};
  waiting_.push_back({std::move(request), std::move(responder)});
  resized_();
  if (waiting_.size() == 1) AwaitDisk();
}

// When all that was handed in until now is durable, there may be room.
void DataBacklog::AwaitDisk() {
  commits_.Follow([this, alive = std::weak_ptr(alive_)](bool durable) {
    if (alive.expired()) return;
    while (!waiting_.empty() && (!durable || !IsCrowded())) TakeUpFirst();
    if (!waiting_.empty()) AwaitDisk();
  });
}

void DataBacklog::TakeUpFirst() {
  Waiting first = std::move(waiting_.front());
  waiting_.pop_front();
  LOCKSTEP_DCHECK(bytes_ >= first.request.payload.size());
  bytes_ -= first.request.payload.size();
  LOCKSTEP_DCHECK(!waiting_.empty() || bytes_ == 0);
  resized_();
  take_up_(std::move(first.request), std::move(first.responder));
}

void DataBacklog::TakeUpAll() {
  while (!waiting_.empty()) TakeUpFirst();
}

bool DataBacklog::Cancel(link::LinkId link, uint64_t id) {
  const auto waits = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& each) {
    return each.request.link == link && each.request.id == id;
  });
  if (waits == waiting_.end()) return false;
  waits->responder.Fail(wire::native::WithReason(
      absl::CancelledError("the caller has stopped waiting"), "cancelled"));
  bytes_ -= waits->request.payload.size();
  waiting_.erase(waits);
  resized_();
  return true;
}

void DataBacklog::EndLink(link::LinkId link) {
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const auto waits = next++;
    if (waits->request.link != link) continue;
    waits->responder.Answer({});  // swallowed
    bytes_ -= waits->request.payload.size();
    waiting_.erase(waits);
  }
  resized_();
}

}  // namespace lockstep::server
