// What the pages of the HTTP listener show: asked on the server's loop, written as text, answered
// on the listener's.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/work_thread.h"
#include "lockstep/server/http_connection.h"
#include "lockstep/server/http_listener.h"
#include "lockstep/server/http_pages.h"
#include "lockstep/server/http_request.h"

namespace lockstep::server {

// Turns that wait for one of a few copies of the server's state, which may be large.
//
// Threads: loop-confined. Bounds: HttpListener::kViewsMax turns at a time; those that wait are at
// most the listener's connections.
class ViewLane {
 public:
  // Takes a copy and returns true, to be followed by `Ended`; or returns false, as none is needed
  // any more.
  using Turn = absl::AnyInvocable<bool()>;

  // Runs the turn now or when others have ended.
  void Push(Turn turn);
  // A turn that took a copy is over.
  void Ended();

 private:
  void TakeTurns();

  std::deque<Turn> turns_;
  size_t views_ = 0;
};

// Answers each connection once: with its page, with a refusal, or, after `patience`, with 503.
//
// Queries that wait for the disk have a lane of their own, so that they hold up no others while it
// hangs.
//
// Threads: `Ask` and `Close` are the listener's loop's, or called while that does not run; a thread
// of its own turns copies of the server's state into text.
class PageQueries {
 public:
  using Connection = std::shared_ptr<HttpConnection>;

  // Both loops outlive it, and so does what `source` captured.
  PageQueries(runtime::Loop& server_loop, runtime::Loop& own_loop, HttpSource source,
              absl::Duration patience);

  // Answers with this, without asking anybody.
  void Ask(const Connection& connection, HttpAnswer answer);
  void Ask(const Connection& connection, AskForLife life);
  void Ask(const Connection& connection, AskForView ask);
  void Ask(const Connection& connection, AskForReadiness readiness);
  void Ask(const Connection& connection, AskForEvents ask);

  // Whatever the server's loop or the writer finish from now on is dropped. Before the listener's
  // loop goes; any thread.
  void Close() { inbox_->Close(); }

 private:
  // As other threads carry it: what it stands for lives and dies on the listener's loop.
  using Ticket = std::weak_ptr<HttpConnection>;
  // Calls back with what was asked for; on the server's loop, perhaps many turns later.
  template <class T>
  using Told = absl::AnyInvocable<void(absl::StatusOr<T>)>;
  template <class T>
  using Looker = std::function<void(Told<T>)>;
  template <class T>
  using Page = std::function<HttpAnswer(const T&)>;

  // The listener's loop for those who may outlive the listener. Thread-safe, by its mutex.
  class Inbox {
   public:
    explicit Inbox(runtime::Loop& loop) : loop_(&loop) {}
    // Dropped when the listener is gone.
    void Post(runtime::Loop::Function function);
    void Close();

   private:
    Mutex mutex_;
    runtime::Loop* loop_ ABSL_GUARDED_BY(mutex_);
  };

  ViewLane& LaneOf(bool durable) { return durable ? durable_lane_ : lane_; }
  // Of a query that the server did not answer in time.
  std::string Late(bool durable) const;

  // The way of a query: its turn comes; the server's loop is asked; the page is written and sent.
  template <class T>
  void AskInTurn(const Connection& connection, bool durable, Looker<T> look, Page<T> page);
  template <class T>
  void Look(Ticket ticket, bool durable, Looker<T> look, Page<T> page);
  template <class T>
  void WritePage(Ticket ticket, bool durable, Page<T> page,
                 std::shared_ptr<absl::StatusOr<T>> value);

  runtime::Loop& server_loop_;
  const std::shared_ptr<HttpSource> source_;
  const absl::Duration patience_;
  const std::shared_ptr<Inbox> inbox_;
  ViewLane lane_;
  ViewLane durable_lane_;
  runtime::WorkThread writer_;  // of pages; the first to go
};

}  // namespace lockstep::server
