#include "lockstep/client/dispatcher_link.h"

#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/client/loop_driver.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/server_list.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/data_events.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/kinds.h"

namespace lockstep::client {
namespace {

namespace native = wire::native;
using runtime::MonotonicNow;

constexpr absl::Duration kRetryCall = absl::Milliseconds(200);

// A thread that waits for the answer to one call.
class Caller : public LoopDriver::Waiter {
 public:
  explicit Caller(LoopDriver& loop) : Waiter(loop) {}

  // On the loop; once.
  void Answer(absl::StatusOr<std::string> answer, bool reached) {
    {
      const MutexLock lock(mutex_);
      answer_ = std::move(answer);
      reached_ = reached;
    }
    Wake();
  }
  // Nothing: the server could not be reached, and then `why` says how, or has not answered yet.
  std::optional<absl::StatusOr<std::string>> TakeAnswer(absl::Status& why) {
    const MutexLock lock(mutex_);
    if (reached_) return std::exchange(answer_, std::nullopt);
    if (answer_) why = answer_->status();
    return std::nullopt;
  }

 private:
  Mutex mutex_;
  std::optional<absl::StatusOr<std::string>> answer_ ABSL_GUARDED_BY(mutex_);
  bool reached_ ABSL_GUARDED_BY(mutex_) = false;
};

template <class Message>
void Fill(const std::string& answer, dispatch::DispatcherAnswered& event) {
  auto reply = native::Decode<Message>(answer);
  if (!reply.ok()) {
    event.error = native::ErrorOf(reply.status());
    return;
  }
  auto value = native::AnswerOf(*reply);
  if (value.ok()) {
    event.answer = *std::move(value);
  } else {
    event.error = native::ErrorOf(value.status());
  }
}

dispatch::DispatcherAnswered EventOf(dispatch::RequestId id, link::RequestKind kind,
                                     const absl::StatusOr<std::string>& answer, bool reached) {
  dispatch::DispatcherAnswered event{.request = id};
  if (!answer.ok()) {
    event.error = native::ErrorOf(answer.status());
    // A server that ends answers so too; its successor may be there soon.
    event.unavailable = !reached || native::ReasonOf(answer.status()) == "service_stopped";
  } else if (kind == native::KindOf<native::OpenIteration>::kKind) {
    Fill<native::OpenIterationReply>(*answer, event);
  } else if (kind == native::KindOf<native::ConsumerPoll>::kKind) {
    Fill<native::ConsumerPollReply>(*answer, event);
  } else {
    event.answer = dispatch::ConsumerClosed{};
  }
  return event;
}

}  // namespace

DispatcherLink::DispatcherLink(asio::io_context& io, std::shared_ptr<link::Servers> servers)
    : server_(servers->text()),
      link_(std::make_shared<RedialedLink>(io, std::move(servers), "lockstep reader")) {}

absl::StatusOr<std::string> DispatcherLink::Call(const ClientShell& shell, link::RequestKind kind,
                                                 const std::string& payload, Time deadline,
                                                 const Interrupted& interrupted) {
  absl::Status last;
  const Time began = MonotonicNow();
  for (;;) {
    const auto caller = std::make_shared<Caller>(shell.loop());
    {
      LoopDriver::Turn turn(shell.loop(), *caller);
      shell.loop().Post([self = shared_from_this(), caller, kind, payload] {
        self->link_->Call(kind, payload,
                          [caller](absl::StatusOr<std::string> answer, bool reached) {
                            caller->Answer(std::move(answer), reached);
                          });
      });
      absl::Status status = shell.Wait(turn, deadline, interrupted);
      if (!status.ok()) return status;
    }
    if (auto answer = caller->TakeAnswer(last)) return *std::move(answer);
    if (MonotonicNow() + kRetryCall >= deadline) {
      return native::WithReason(
          absl::DeadlineExceededError(absl::StrFormat(
              "%s did not answer within %s%s: does `lockstep serve` run there?",
              runtime::TheServer(server_),
              absl::FormatDuration(absl::Floor(MonotonicNow() - began, absl::Milliseconds(1))),
              last.ok() ? "" : absl::StrCat(" (", std::string(last.message()), ")"))),
          "server_unavailable");
    }
    LoopDriver::Waiter pause(shell.loop());
    LoopDriver::Turn rest(shell.loop(), pause);
    absl::Status status = shell.Wait(rest, MonotonicNow() + kRetryCall, interrupted);
    if (!status.ok()) return status;
  }
}

void DispatcherLink::Send(dispatch::SendToDispatcher request, Answered answered) {
  auto [kind, payload] = std::visit(
      [](const auto& what) {
        const auto message = native::MessageOf(what);
        return std::pair<link::RequestKind, std::string>(
            native::KindOf<std::remove_const_t<decltype(message)>>::kKind, native::Encode(message));
      },
      request.what);
  link_->Call(
      kind, std::move(payload),
      [weak = weak_from_this(), id = request.request, kind = kind, answered = std::move(answered)](
          const absl::StatusOr<std::string>& answer, bool reached) mutable {
        const auto self = weak.lock();
        if (self == nullptr || self->ended_) return;
        if (reached) {
          self->NoteReached();
        } else {
          self->NoteUnreached(answer.status());
        }
        answered(EventOf(id, kind, answer, reached));
      });
}

void DispatcherLink::End() {
  ended_ = true;
  link_->End();
}

std::optional<DispatcherLink::Outage> DispatcherLink::outage() const {
  const MutexLock lock(mutex_);
  return outage_;
}

void DispatcherLink::NoteReached() {
  const MutexLock lock(mutex_);
  outage_.reset();
}

void DispatcherLink::NoteUnreached(const absl::Status& why) {
  const MutexLock lock(mutex_);
  if (!outage_) outage_ = Outage{why, MonotonicNow()};
}

}  // namespace lockstep::client
