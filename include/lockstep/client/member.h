// Lockstep for programs in C++: join a job, wait for the others, share values. Public.
//
//   auto me = lockstep::Join({.address = "10.0.0.1:7070", .job = "digits", .index = 0, .size = 4});
//   if (!me.ok()) return Fail(me.status());
//   auto values = (*me)->Barrier("loaded", {.timeout = absl::Minutes(1), .value = "4711"});
//   (*me)->Leave();
//
// Errors are absl::Status; `ReasonOf` (errors.h) gives the stable word to test. No call throws,
// none but those named ...Async and ReportProgress returns before its result is known, and every
// wait ends: with its result, its time-out, the failure of a member that it waits for, or `grace`
// after the server was lost.
//
// Broken connections: the client comes back by itself, to the same server or to its successor on
// the same state, and what waited goes on; writes happen once.
//
// Fork: a child has none of its parent's members. Every call on one answers FAILED_PRECONDITION
// `forked`; destroying it does nothing. The child may join for itself.
//
// Threads: everything here is thread-safe. Who waits in a blocking call drives the connections of
// the process meanwhile; for the rest of the time, and for completions and callbacks, the library
// has two threads of its own per process, which block all signals.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/client/call.h"
#include "lockstep/client/errors.h"
#include "lockstep/client/job.h"
#include "lockstep/client/job_preemptions.h"
#include "lockstep/client/keys.h"

namespace lockstep {

// What is empty or absent is taken from the environment variable named, then from the default.
struct JoinOptions {
  // HOST:PORT of the server, or its join string; several, with commas between them or in a file
  // (file:///PATH), of which one leads. LOCKSTEP_COORDINATOR, 127.0.0.1:7070.
  std::string address;
  std::string job;               // LOCKSTEP_JOB
  std::string role;              // LOCKSTEP_ROLE; the only one there is
  std::optional<int32_t> index;  // in the role. LOCKSTEP_INDEX; the lowest that nobody has
  int32_t size = 0;              // > 0: makes the job if it is not there. LOCKSTEP_SIZE
  int64_t attempt = 0;           // > 0: refuse to join another attempt. LOCKSTEP_ATTEMPT
  std::string host;              // for people; the system's name of this host
  std::vector<std::pair<std::string, std::string>> labels;  // for people

  // Until everybody has joined, the search for the server included.
  absl::Duration timeout = absl::Minutes(5);
  // How long a lost server is looked for before the waits fail, and with them the membership.
  absl::Duration grace = absl::Minutes(1);
  Interrupted interrupted = nullptr;
};

struct BarrierOptions {
  // From the first arrival; the server's text names who is missing.
  absl::Duration timeout = absl::InfiniteDuration();
  std::vector<int32_t> members;      // empty: all members of the job
  std::optional<std::string> value;  // given to all
  Interrupted interrupted = nullptr;
};

// What a member brought to a barrier.
struct MemberValue {
  int32_t member = 0;
  std::string value;

  friend bool operator==(const MemberValue&, const MemberValue&) = default;
};

struct GatherOptions {
  absl::Duration timeout = absl::InfiniteDuration();  // as BarrierOptions
  std::vector<int32_t> members;
  Interrupted interrupted = nullptr;
};

struct AgreeOptions {
  int64_t stride = 1;                                 // the answer is a multiple of it
  absl::Duration timeout = absl::InfiniteDuration();  // from the first that asks
  std::vector<int32_t> members;
  Interrupted interrupted = nullptr;
};

struct AliveMember {
  int32_t member = 0;
  uint64_t incarnation = 0;

  friend bool operator==(const AliveMember&, const AliveMember&) = default;
};
// A barrier at which members wait.
struct OpenBarrier {
  std::string id;
  int64_t counter = 0;                      // which use of the id, from 0
  absl::Duration open_for;                  // since its first arrival
  std::optional<absl::Duration> time_left;  // absent: it waits for ever
  std::vector<int32_t> waiting;             // have arrived
  std::vector<int32_t> awaited;             // have not

  friend bool operator==(const OpenBarrier&, const OpenBarrier&) = default;
};
struct OpenBarriers {
  std::vector<OpenBarrier> barriers;  // the oldest first; at most view_rows_max of the server
  int64_t open = 0;                   // all of them
};

struct AliveOptions {
  std::vector<int32_t> members;                       // empty: all
  absl::Duration timeout = absl::InfiniteDuration();  // of this call
  Interrupted interrupted = nullptr;
};

class Member;

// Becomes a member of a job; returns when all members have joined.
//
// INVALID_ARGUMENT: the options or the environment make no sense. UNAVAILABLE, DEADLINE_EXCEEDED:
// no server, or not everybody came: the text names them. ALREADY_EXISTS: another process, named, is
// that member. NOT_FOUND: no such job, and no `size` to make it with.
absl::StatusOr<std::unique_ptr<Member>> Join(JoinOptions options = {});
Pending JoinAsync(JoinOptions options, Completion<std::unique_ptr<Member>> done);

// One life of a member, from `Join` to `Leave`.
class Member {
 public:
  // A member that has not left is given up: to the others it is as if its process had died. Ends
  // what waits with CANCELLED, waits for completions that run now (unless called by one), and
  // returns soon, without waiting for the server.
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  // Its name; of the options, or of LOCKSTEP_JOB.
  const std::string& job() const;
  const std::string& coordinator() const;  // JoinOptions::address, filled in
  const std::string& host() const;         // as it joined
  // As the job knows it: also where `JoinOptions` named none.
  const std::string& role() const;
  int32_t index() const;            // in its role
  int32_t member() const;           // in the whole job; what lists of members count
  int32_t size() const;             // of the whole job
  const std::string& name() const;  // "trainer/4#1"
  int64_t attempt() const;          // which life of the job, from 1

  // Waits until all have come here: all members, or those listed, which must include this one.
  // Returns what they brought, by member. An id may be used again and again.
  absl::StatusOr<std::vector<MemberValue>> Barrier(std::string id, BarrierOptions options = {});
  // As `Barrier`. FAILED_PRECONDITION `call_open`: this member waits under that id already.
  Pending BarrierAsync(std::string id, BarrierOptions options,
                       Completion<std::vector<MemberValue>> done);

  // A barrier to which each brings a value. Returns one of each, in the order of the members.
  absl::StatusOr<std::vector<std::string>> Gather(std::string id, std::string value,
                                                  GatherOptions options = {});
  // As `Gather`; `call_open` as `BarrierAsync`, with which it shares its ids.
  Pending GatherAsync(std::string id, std::string value, GatherOptions options,
                      Completion<std::vector<std::string>> done);

  // Fails the barrier that is open under this id for all who wait.
  absl::Status CancelBarrier(std::string id, CallOptions options = {});
  // As `CancelBarrier`. Cancelling it leaves open whether the barrier was cancelled.
  Pending CancelBarrierAsync(std::string id, CallOptions options, Completion<void> done);

  // "From which index on do we all ...?" `index` is the first at which this member can still act;
  // all get the same answer, which none of them has passed. A name may be used again.
  absl::StatusOr<int64_t> AgreeOnIndex(std::string name, int64_t index, AgreeOptions options = {});
  // As `AgreeOnIndex`. FAILED_PRECONDITION `call_open`: this member waits under that name already.
  Pending AgreeOnIndexAsync(std::string name, int64_t index, AgreeOptions options,
                            Completion<int64_t> done);

  // Where members wait, and for whom; at once. UNAVAILABLE, DEADLINE_EXCEEDED: no server.
  absl::StatusOr<OpenBarriers> Barriers(CallOptions options = {});
  // As `Barriers`: `done` does not wait for any of them to end.
  Pending BarriersAsync(CallOptions options, Completion<OpenBarriers> done);

  // Who of these is alive, the same answer for all who ask: every one that is alive must ask.
  absl::StatusOr<std::vector<AliveMember>> AliveMembers(AliveOptions options = {});
  // As `AliveMembers`: `done` comes when every one of these that is alive has asked.
  Pending AliveMembersAsync(AliveOptions options, Completion<std::vector<AliveMember>> done);

  // Where this member is in its work, for those who look. Costs next to nothing, never waits: the
  // newest is sent, at most every 100 ms. A negative step, an empty phase: as before. Of a phase
  // the first 256 bytes are sent.
  void ReportProgress(int64_t step, std::string_view phase = {});

  // Of the whole job. Outlives this member, and then answers FAILED_PRECONDITION.
  Keys keys() const;
  JobPreemptions preemptions() const;  // of the whole job; `Preemption` is this member's view

  // This member cannot go on; the others are told.
  absl::Status ReportError(absl::Status error, CallOptions options = {});
  // As `ReportError`. INVALID_ARGUMENT `invalid_argument`: `error` is OK.
  Pending ReportErrorAsync(absl::Status error, CallOptions options, Completion<void> done);

  // Called once, on a thread of the library, with the first error of the attempt, whoever it
  // befell, or with why the server is lost for good; at once when it has happened already.
  // Everything that waits fails with the same error. Replaces the callback before it.
  void OnError(std::function<void(absl::Status)> callback);

  // Calls with what has become of the job, first with all there is; as Keys::Watch.
  std::unique_ptr<JobWatch> OnJobChange(std::function<void(absl::StatusOr<JobChange>)> changed);
  // To pull the same with `JobWatch::Next`; asks nothing before that.
  std::unique_ptr<JobWatch> WatchJob();

  // Done: returns when all are, if the job is set to wait for all. After it, calls answer
  // FAILED_PRECONDITION `member_left`, those on its keys and watches too; what still waits then, a
  // watch for example, ends with CANCELLED `member_left`.
  absl::Status Leave(CallOptions options = {});
  // As `Leave`. Calls answer `member_left` from the moment on at which `done` is due with OK.
  Pending LeaveAsync(CallOptions options, Completion<void> done);

 private:
  friend struct MemberFactory;
  class Impl;
  explicit Member(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep
