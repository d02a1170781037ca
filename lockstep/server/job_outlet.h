// What a job says: answers to calls, and events, each at once or when it is durable.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/coord/effects.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/server/answers_in_turns.h"
#include "lockstep/server/commit_queue.h"
#include "lockstep/server/counters.h"
#include "lockstep/server/event_feed.h"
#include "lockstep/server/long_answers.h"
#include "lockstep/server/native_listener.h"
#include "lockstep/stock/grpc/stock_listener.h"
#include "lockstep/wire/native/job_messages.h"

namespace lockstep::server {

// Carries out a coordinator's effects but for the timer: writes its records down, answers each call
// at the listener that it came through, and puts its log entries into the feed (one line each).
// Replies and events go out when the records that came with them, and all before, are durable.
//
// Owns what waits for the journal. Threads: loop-confined. Bounds: those of the commit queue.
// Promises: what is told waits for what it tells of; each call is answered once, with an error
// where the state cannot be written. Where an event answers many calls, its news may overtake
// answers.
class JobOutlet {
 public:
  // The server's and the job's; they outlive it.
  struct Ways {
    CommitQueue& commits;
    net::StockListener& stock;
    NativeListener& native;
    EventFeed& feed;
    Counters& counters;
  };
  struct Listeners {
    // A member of which only the coordinator knows all, for a long answer.
    std::function<coord::MemberView(Time now, MemberIndex)> member;
    // A native session is over.
    std::function<void(SessionId)> session_ended;
    // These answers go out now, or in the next turns.
    std::function<void(const std::vector<coord::Reply>&)> answered;
  };

  JobOutlet(runtime::Loop& loop, std::string job, Ways ways, Listeners listeners);

  // Called with host and pid of each member that is lost, where they are known: for those beside
  // the job to whom the process matters.
  using MemberLost = std::function<void(const std::string& host, int64_t pid)>;
  // Not called after `Forget`.
  void OnMemberLost(MemberLost function) { on_member_lost_ = std::move(function); }

  // `alive`: the call of an event that only says that somebody lives; its answer does not wait for
  // the disk.
  void Settle(coord::Effects&& effects, CallId alive);

  // What others than its coordinator have to tell of the job.
  void Tell(const coord::LogEntry& entry);
  void TellServed(const std::string& text, bool again);

  // Its newest events; those that wait for the journal as well.
  std::vector<wire::native::JobEvent> KeptEvents() const;

  // Whether the server writes anything down; and whether what becomes of this job is.
  bool durable() const { return ways_.commits.keeps(); }
  bool keeps() const { return keeps_ && durable(); }
  // From here on it is not, and nobody is told of losses.
  void Forget() { keeps_ = false; }
  bool forgotten() const { return !keeps_; }
  // Answers at once what would take many turns.
  void Finish() {
    answers_.Finish();
    long_answers_.Finish();
  }
  // Bytes held by answers that take many turns.
  size_t bytes() const { return answers_.bytes() + long_answers_.bytes(); }
  // Expires with this, for what comes back later.
  std::weak_ptr<const bool> alive() const { return alive_; }

 private:
  using Events = std::vector<wire::native::JobEvent>;

  void Observe(const std::vector<coord::Record>& records);
  void TellOfLoss(const coord::record::MemberChanged& changed) const;
  // Answers a sign of life, which tells of nothing that the disk has to have first.
  void AnswerAlive(coord::Effects& effects, CallId call);
  // Carries out now what needs not wait; the events go with the records that brought them about.
  void SettleWith(coord::Effects&& effects, Events&& events);
  CommitQueue::Release Later(coord::Effects effects, Events events);
  void CarryOut(coord::Effects& effects, const Events& events);
  void Answer(const std::vector<coord::Reply>& replies, SharedAnswers& shared);
  void Refuse(const coord::Effects& effects);

  const std::string job_;
  const Ways ways_;
  const Listeners listeners_;
  AnswersInTurns answers_;
  LongAnswers long_answers_;
  MemberLost on_member_lost_;
  bool keeps_ = true;
  std::deque<wire::native::JobEvent> untold_;  // they wait for the journal
  const std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace lockstep::server
