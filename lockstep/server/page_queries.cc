#include "lockstep/server/page_queries.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::server {
namespace {

using wire::native::WatchEventsReply;

// What is left to do before the page can be written, on the writer's thread.
template <class T>
absl::Status Prepare(T& /*value*/) {
  return absl::OkStatus();
}
absl::Status Prepare(ServerView& view) {
  return view.encoded_status == nullptr ? absl::OkStatus() : view.DecodeStatus();
}

absl::Status NeverDurable() {
  return wire::native::WithReason(
      absl::UnavailableError(
          "the server cannot write its state and is shutting down; retry when it is back"),
      "service_stopped");
}

}  // namespace

void ViewLane::Push(Turn turn) {
  turns_.push_back(std::move(turn));
  TakeTurns();
}

void ViewLane::Ended() {
  LOCKSTEP_DCHECK(views_ > 0);
  --views_;
  TakeTurns();
}

void ViewLane::TakeTurns() {
  LOCKSTEP_DCHECK(views_ <= HttpListener::kViewsMax);
  while (views_ < HttpListener::kViewsMax && !turns_.empty()) {
    Turn turn = std::move(turns_.front());
    turns_.pop_front();
    if (turn()) ++views_;
  }
}

void PageQueries::Inbox::Post(runtime::Loop::Function function) {
  const MutexLock lock(mutex_);
  if (loop_ != nullptr) loop_->Post(std::move(function));
}

void PageQueries::Inbox::Close() {
  const MutexLock lock(mutex_);
  loop_ = nullptr;
}

PageQueries::PageQueries(runtime::Loop& server_loop, runtime::Loop& own_loop, HttpSource source,
                         absl::Duration patience)
    : server_loop_(server_loop),
      source_(std::make_shared<HttpSource>(std::move(source))),
      patience_(patience),
      inbox_(std::make_shared<Inbox>(own_loop)) {}

template <class T>
void PageQueries::AskInTurn(const Connection& connection, bool durable, Looker<T> look,
                            Page<T> page) {
  connection->AnswerAfter(patience_, RefusalOf(absl::UnavailableError(Late(durable))));
  LaneOf(durable).Push([this, ticket = Ticket(connection), durable, look = std::move(look),
                        page = std::move(page)]() mutable {
    // One that was answered for meanwhile, or has gone, needs none any more.
    const Connection waiting = ticket.lock();
    if (waiting == nullptr || !waiting->waits()) return false;
    Look<T>(std::move(ticket), durable, std::move(look), std::move(page));
    return true;
  });
}

template <class T>
void PageQueries::Look(Ticket ticket, bool durable, Looker<T> look, Page<T> page) {
  Told<T> seen = [this, inbox = inbox_, ticket = std::move(ticket), durable,
                  page = std::move(page)](absl::StatusOr<T> value) mutable {
    inbox->Post([this, ticket = std::move(ticket), durable, page = std::move(page),
                 value = std::make_shared<absl::StatusOr<T>>(std::move(value))]() mutable {
      WritePage<T>(std::move(ticket), durable, std::move(page), std::move(value));
    });
  };
  server_loop_.Post([source = source_, durable, look = std::move(look),
                     seen = std::move(seen)]() mutable {
    if (!durable) return look(std::move(seen));
    look([source, seen = std::move(seen)](absl::StatusOr<T> value) mutable {
      source->when_durable([seen = std::move(seen), value = std::move(value)](bool kept) mutable {
        seen(kept ? std::move(value) : NeverDurable());
      });
    });
  });
}

template <class T>
void PageQueries::WritePage(Ticket ticket, bool durable, Page<T> page,
                            std::shared_ptr<absl::StatusOr<T>> value) {
  writer_.Push([this, ticket = std::move(ticket), durable, page = std::move(page),
                value = std::move(value)]() mutable {
    const absl::Status status = value->ok() ? Prepare(**value) : value->status();
    HttpAnswer answer = status.ok() ? page(**value) : RefusalOf(status);
    value = nullptr;
    inbox_->Post([this, ticket = std::move(ticket), durable, answer = std::move(answer)]() mutable {
      if (const Connection waiting = ticket.lock()) waiting->Answer(std::move(answer));
      LaneOf(durable).Ended();
    });
  });
}

void PageQueries::Ask(const Connection& connection, HttpAnswer answer) {
  connection->Answer(std::move(answer));
}

void PageQueries::Ask(const Connection& connection, AskForLife) {
  const std::string late = Late(false);
  connection->AnswerAfter(patience_, TextPage(503, late + "\n"));
  server_loop_.Post([inbox = inbox_, ticket = Ticket(connection)] {
    inbox->Post([ticket] {
      if (const Connection waiting = ticket.lock()) waiting->Answer(TextPage(200, "ok\n"));
    });
  });
}

void PageQueries::Ask(const Connection& connection, AskForView ask) {
  const bool durable = ask.durable;
  AskInTurn<ServerView>(
      connection, durable,
      [source = source_, job = std::move(ask.job)](Told<ServerView> told) {
        source->view(job, std::move(told));
      },
      std::move(ask.page));
}

void PageQueries::Ask(const Connection& connection, AskForReadiness readiness) {
  using Reasons = std::vector<std::string>;
  AskInTurn<Reasons>(
      connection, false, [source = source_](Told<Reasons> told) { told(source->not_ready()); },
      [readiness](const Reasons& reasons) { return ReadyPage(reasons, readiness.reasons); });
}

void PageQueries::Ask(const Connection& connection, AskForEvents ask) {
  AskInTurn<WatchEventsReply>(
      connection, true,
      [source = source_, request = std::move(ask.request)](Told<WatchEventsReply> told) {
        told(source->events(request));
      },
      EventsPage);
}

std::string PageQueries::Late(bool durable) const {
  return absl::StrCat(
      durable ? "the server, or the disk that the answer depends on, did not respond within "
              : "the server's loop did not answer within ",
      absl::FormatDuration(patience_));
}

}  // namespace lockstep::server
