#include "lockstep/data/worker/dispatcher_link.h"

#include "lockstep/base/check.h"

namespace lockstep::data {
namespace {

constexpr absl::Duration kDialTimeout = absl::Seconds(5);

}  // namespace

DispatcherLink::DispatcherLink(runtime::Loop& loop, std::shared_ptr<link::Servers> servers,
                               std::string who, link::LinkOptions options)
    : loop_(loop), servers_(std::move(servers)), who_(std::move(who)), options_(options) {}

DispatcherLink::~DispatcherLink() {
  if (link_ != nullptr) link_->Abandon();
}

void DispatcherLink::Call(link::RequestKind kind, std::string payload, Answered answered) {
  LOCKSTEP_DCHECK(!ready_ || link_ != nullptr);
  if (ready_) {
    link_->Call(kind, std::move(payload), std::move(answered));
    return;
  }
  waiting_.push_back({kind, std::move(payload), std::move(answered)});
  if (link_ == nullptr) Dial();
}

void DispatcherLink::Dial() {
  LOCKSTEP_DCHECK(link_ == nullptr && !ready_);
  link_ = link::ClientLink::Dial(
      loop_.io(), servers_, kDialTimeout, who_, options_,
      {.ready =
           [this](const auto&) {
             ready_ = true;
             for (auto& [kind, payload, answered] : std::exchange(waiting_, {})) {
               link_->Call(kind, std::move(payload), std::move(answered));
             }
           },
       .closed = [this](const absl::Status& why) { Closed(why); }});
}

// The calls that were on the link have been called back by it.
void DispatcherLink::Closed(const absl::Status& why) {
  link_ = nullptr;
  ready_ = false;
  for (Waiting& each : std::exchange(waiting_, {})) each.answered(why);
}

}  // namespace lockstep::data
