#include "lockstep/client/redialed_link.h"

#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/platform/link/refusals.h"

namespace lockstep::client {
namespace {

constexpr absl::Duration kDialTimeout = absl::Seconds(3);

}  // namespace

void RedialedLink::Call(link::RequestKind kind, std::string payload, Answered answered) {
  if (ended_) return;
  if (ready_) return Send({kind, std::move(payload), std::move(answered)});
  waiting_.push_back({kind, std::move(payload), std::move(answered)});
  if (link_ == nullptr) Dial();
}

void RedialedLink::Send(Waiting call) {
  LOCKSTEP_DCHECK(ready_ && link_ != nullptr);
  link_->Call(call.kind, std::move(call.payload),
              [weak = std::weak_ptr<link::ClientLink>(link_),
               answered = std::move(call.answered)](absl::StatusOr<std::string> answer) mutable {
                const auto link = weak.lock();
                const bool reached = answer.ok() || (link != nullptr && !link->closed());
                answered(std::move(answer), reached);
              });
}

void RedialedLink::Dial() {
  LOCKSTEP_DCHECK(link_ == nullptr && !ready_);
  link_ = link::ClientLink::Dial(io_, servers_, kDialTimeout, who_, {},
                                 {.ready =
                                      [weak = weak_from_this()](const auto&) {
                                        const auto self = weak.lock();
                                        if (self == nullptr || self->ended_) return;
                                        self->ready_ = self->was_ready_ = true;
                                        for (Waiting& call : std::exchange(self->waiting_, {})) {
                                          self->Send(std::move(call));
                                        }
                                      },
                                  .closed =
                                      [weak = weak_from_this()](const absl::Status& why) {
                                        const auto self = weak.lock();
                                        if (self == nullptr || self->ended_) return;
                                        self->link_ = nullptr;
                                        self->ready_ = false;
                                        // That answer will not change.
                                        const bool final = !self->was_ready_ &&
                                                           !self->token_.has_value() &&
                                                           link::IsHopeless(why);
                                        for (Waiting& call : std::exchange(self->waiting_, {})) {
                                          call.answered(why, /*reached=*/final);
                                        }
                                      }},
                                 token_);
}

void RedialedLink::End() {
  if (std::exchange(ended_, true)) return;
  waiting_.clear();
  if (link_ != nullptr) std::exchange(link_, nullptr)->Farewell();
}

}  // namespace lockstep::client
