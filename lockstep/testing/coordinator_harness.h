// Drives one coordinator under a virtual clock, as its shell would. Tests only.
//
//   CoordinatorHarness h({.size = 2});
//   CallId first = h.Register(0, 100);
//   h.Advance(absl::Seconds(5));
//   EXPECT_TRUE(h.Pending(first));
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "lockstep/coord/admission.h"
#include "lockstep/coord/coordinator.h"

namespace lockstep::testing {

// Who sends a request. A plain number is that member as it last registered: its incarnation, and
// the service incarnation that its registration brought (the current one if it brought none yet).
struct Who {
  Who(int index) : member(index) {}  // NOLINT: implicit, so that tests read `h.Heartbeat(1)`

  // The same member, but as another life, or as one who registered with another attempt.
  Who As(uint64_t incarnation) const;
  Who In(ServiceIncarnation service) const;
  // The same, whose call an agent passes on in this session, under this number.
  Who By(SessionId agent, uint64_t number) const;

  MemberIndex member;
  std::optional<Incarnation> life;
  std::optional<ServiceIncarnation> attempt;
  SessionId agent = {};
  uint64_t number = 0;
};

// A native client, by a number of the test's choosing, which makes its session. Its requests are
// numbered by themselves; `Again(n)` asks once more under the number n.
struct Native {
  explicit Native(uint64_t id) : session{.high = 0x5e55, .low = id} {}
  Native Again(uint64_t number) const {
    Native retry = *this;
    retry.retried = number;
    return retry;
  }

  // The same client, with a token of this standing.
  Native With(coord::Standing as) const {
    Native other = *this;
    other.standing = as;
    return other;
  }

  SessionId session;
  std::optional<uint64_t> retried;
  coord::Standing standing = coord::Standing::kOperator;
};

// As what a native client joins.
struct JoinAs {
  std::optional<int32_t> index;
  std::string role;
  absl::Duration patience = absl::InfiniteDuration();
  std::string host;
  int64_t pid = 0;
  coord::Labels labels;
  int64_t attempt = 0;
};

// How a call at a barrier differs from the usual one.
struct At {
  int64_t counter = 0;
  absl::Duration timeout = absl::Seconds(10);
  std::vector<int> members;  // empty: all
};

// A coordinator, its clock, and everything it was asked and answered.
//
// It fails the test when the coordinator answers a call twice, or one that was never made or whose
// caller left; when it has a deadline that handling it does not move; when a stop leaves a call
// unanswered; and when the same events do not give the same effects again (both of the latter at
// destruction).
//
// Threads: thread-compatible.
class CoordinatorHarness {
 public:
  explicit CoordinatorHarness(coord::CoordinatorOptions options, Time start = Time());
  ~CoordinatorHarness();
  CoordinatorHarness(const CoordinatorHarness&) = delete;
  CoordinatorHarness& operator=(const CoordinatorHarness&) = delete;

  Time now() const { return now_; }
  int size() const { return options_.size; }
  // Of the current attempt.
  ServiceIncarnation service() const { return coordinator_->service_incarnation(); }
  coord::CoordinatorView View() const { return coordinator_->View(now_); }
  // As people are shown it.
  coord::CoordinatorView NewestRun() const;
  coord::MemberView Member(int member) const;
  coord::MemberCondition Condition(int member) const { return Member(member).condition; }
  // The member as it is now, to speak for it after it has registered anew.
  Who Snapshot(int member) const;

  // Requests, each of which returns its call.
  CallId Register(int member, uint64_t incarnation,
                  absl::Duration patience = absl::InfiniteDuration(), std::string role = "",
                  bool recoverable = false, SessionId agent = {});
  CallId Heartbeat(Who who);
  CallId Poll(Who who);
  CallId Report(Who who, absl::StatusCode code, std::string message);
  CallId Leave(Who who);
  CallId Reset(Who who);
  CallId Watch(Who who, std::optional<int64_t> version = std::nullopt);
  CallId Set(Who who, std::string key, std::string value, bool overwrite = false);
  CallId Get(Who who, std::string key);
  CallId TryGet(Who who, std::string key);
  CallId Increment(Who who, std::string key, int64_t increment);
  CallId List(Who who, std::string directory);
  CallId Delete(Who who, std::string key);
  CallId Arrive(Who who, std::string id, const At& at = {});
  CallId Cancel(Who who, std::string id, std::optional<int64_t> counter = std::nullopt);
  CallId Alive(Who who, const std::vector<int>& members);

  // Native clients. `Ask` fills in the caller of any request.
  CallId Open(const Native& who, bool resume = false);
  CallId Join(const Native& who, uint64_t incarnation, JoinAs as = {});
  // Opens sessions 1, 2, ... and joins with them as incarnations `first` + session, in the order of
  // indices; fails the test unless all are let in. Nobody polls.
  void JoinAll(uint64_t first = 500);
  template <class Request>
  CallId Ask(const Native& who, Request request) {
    request.caller = NewNativeCaller(who);
    const CallId call = request.caller.call;
    Handle(std::move(request));
    return call;
  }
  // The number of the client's newest request.
  uint64_t LastNumber(const Native& who) const { return numbers_.at(who.session); }
  // The client's link breaks: what waits on it is gone.
  void BreakLink(const Native& who, bool silent = false);
  void AnsweredThrough(const Native& who, uint64_t number);
  // The server dies and is started again, with the records of all effects so far or with those of a
  // snapshot. Whoever waited has left.
  void Restart(bool from_snapshot);

  // Facts.
  void Hangup(CallId call, coord::CallLeft::Agent agent = coord::CallLeft::Agent::kConnected);
  void ProcessStarted(int member, int64_t pid);
  void ProcessEnded(int member, int64_t pid, int exit_code, int signal = 0,
                    absl::Duration ago = absl::ZeroDuration());
  void ProcessStopped(int member, int64_t pid);
  void ProcessContinued(int member, int64_t pid);
  void ProcessEnding(int member, int64_t pid, std::string error = "");
  void Stop();

  // Registers all members, as incarnations `first`, `first` + 1, ...; fails the test unless all are
  // let in.
  void RegisterAll(uint64_t first = 100);
  // One poll of each member.
  std::vector<CallId> PollAll();
  // From now on these members, and no others, send a heartbeat every 10 s while time advances.
  void KeepAlive(std::vector<int> members);

  // Moves the clock, stopping at each deadline of the coordinator on the way.
  void Advance(absl::Duration duration);

  // What became of a call. The test fails when a call that is not answered is asked for its reply.
  bool Pending(CallId call) const;
  const coord::Reply& Reply(CallId call) const;
  size_t replies() const { return replies_.size(); }

  // What a successful reply brought; the test fails when it brought something else.
  std::string Value(CallId call) const;                 // KeyRead
  std::vector<std::string> Entries(CallId call) const;  // KeysListed, each `key=value`
  std::vector<std::pair<int, uint64_t>> AliveIn(CallId call) const;
  const coord::MembersWatched& Watched(CallId call) const;
  // The answer of this kind; the test fails, and an empty one comes, when it is another.
  template <class T>
  T Brought(CallId call) const {
    const T* answer = AnswerOf<T>(call);
    return answer != nullptr ? *answer : T{};
  }

  const std::vector<coord::LogEntry>& log() const { return log_; }

  // Feeds any event. The destructor prints all of them when the test has failed.
  coord::Effects Handle(const coord::Event& event);

 private:
  enum class CallState { kPending, kAnswered, kLeft };
  struct Life {
    Incarnation incarnation;
    std::optional<ServiceIncarnation> service;
  };
  struct Step {
    Time at;
    coord::Event event;
    std::string effects;
    // Not empty: before the event, the machine was made anew from these.
    std::vector<coord::TimedRecord> restarted_from;
  };

  CallId NewCall();
  coord::Caller NewCaller(const Who& who);
  coord::Caller NewNativeCaller(const Native& who);
  std::unique_ptr<coord::Coordinator> MakeFrom(
      const std::vector<coord::TimedRecord>& records) const;
  Incarnation IncarnationOf(const Who& who) const;
  template <class T>
  const T* AnswerOf(CallId call) const {
    const coord::Reply& reply = Reply(call);
    const T* answer = reply.error ? nullptr : std::get_if<T>(&reply.answer);
    if (answer == nullptr) FailKind(reply);
    return answer;
  }
  static void FailKind(const coord::Reply& reply);
  void TakeReply(const coord::Reply& reply);
  void Beat();
  void CheckStopAnswersEverybody();
  void CheckSameAgain() const;

  const coord::CoordinatorOptions options_;
  std::unique_ptr<coord::Coordinator> coordinator_;
  Time now_;
  uint64_t calls_ = 0;
  bool stopped_ = false;
  absl::flat_hash_map<CallId, CallState> states_;
  absl::flat_hash_map<CallId, coord::Reply> replies_;
  absl::flat_hash_map<int32_t, Life> lives_;
  absl::flat_hash_map<CallId, int32_t> registering_;
  absl::flat_hash_map<SessionId, uint64_t> numbers_;
  absl::flat_hash_map<SessionId, std::vector<CallId>> native_calls_;
  std::vector<coord::TimedRecord> records_;
  std::vector<coord::LogEntry> log_;
  std::vector<Step> steps_;

  std::vector<int> kept_alive_;
  Time next_beat_ = Time::Infinite();
};

}  // namespace lockstep::testing
