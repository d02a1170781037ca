// A consumer's decisions: what to read from which worker, and when the program gets it. Pure.
//
// Fed by lockstep/client (which owns the loop, the links and the bytes) or by lockstep/sim.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "lockstep/base/ids.h"
#include "lockstep/base/time.h"
#include "lockstep/data/dispatch/effects.h"
#include "lockstep/data/dispatch/error.h"
#include "lockstep/data/dispatch/events.h"
#include "lockstep/data/dispatch/ids.h"
#include "lockstep/data/dispatch/iteration_spec.h"

namespace lockstep::dispatch {

// One request for an element by the program; one request to the dispatcher; one to a worker.
// Counted by whoever asks: the program's by the shell, the other two by the machine.
using AskId = Id<struct AskIdTag, uint64_t>;
using RequestId = Id<struct RequestIdTag, uint64_t>;
using ReadId = Id<struct ReadIdTag, uint64_t>;

struct ConsumerOptions {
  IterationSpec spec;      // its cursor is where all consumers of the iteration begin
  std::string consumer;    // its name
  ConsumerLife life;       // random
  int32_t index = -1;      // exact and rounds
  std::string definition;  // the identity of the dataset: what cursors are checked against
  std::string host;
  int64_t pid = 0;
  std::string machine;  // as OpenIteration says
  int64_t started = 0;
  bool member = false;

  // Elements are acknowledged when the next one is asked for; otherwise by `Acknowledge`.
  bool acknowledge_by_itself = true;
  // `unacknowledged_max`, `unacknowledged_bytes_max`: without `acknowledge_by_itself`, elements
  // that the program has and has not acknowledged, before the next one is refused ("ack_needed").
  int64_t unacknowledged_max = 10'000;
  uint64_t unacknowledged_bytes_max = uint64_t{1} << 30;
  // First come: what the program has safely from its former life. Exact and rounds: the cursor with
  // which that life was in this same iteration; empty: it was not.
  std::vector<LaneAck> have;
  std::string rejoin;

  // `read_bytes_max`, `reads_max`: read ahead, and requests for it in flight; `read_elements_max`,
  // `one_read_bytes_max`: of one request.
  uint64_t read_bytes_max = uint64_t{64} << 20;
  int32_t reads_max = 8;
  int64_t read_elements_max = 64;
  uint64_t one_read_bytes_max = uint64_t{8} << 20;
  // The longest that the dispatcher may park a poll; also between two polls while it does not
  // answer.
  absl::Duration poll_wait = absl::Seconds(2);
  // Acknowledgements that finish no grant, and rounds, are told at the latest after so long.
  absl::Duration report_every = absl::Milliseconds(100);
  // Between two tries after a failure; doubled up to the second.
  absl::Duration retry_first = absl::Milliseconds(10);
  absl::Duration retry_max = absl::Seconds(1);
  // The consumer fails when nobody could be reached for so long.
  absl::Duration give_up_after = absl::InfiniteDuration();
};

// An element as the machine sees it: something of so many bytes.
struct Element {
  std::shared_ptr<const void> payload;  // the shell's
  uint64_t bytes = 0;
};

// --- Events from the shell ---

// The answer to a request to the dispatcher; or its error; or (`unavailable`) there was none, and
// it is not known whether it had its effect.
struct DispatcherAnswered {
  RequestId request;
  ErrorPtr error;
  bool unavailable = false;
  Answer answer;
};

// The answer to a read.
struct ReadAnswered {
  ReadId read;
  std::vector<Element> elements;  // from `from` on, every `stride`-th
  int64_t next = 0;               // index in the segment of the next one to ask for
  // The segment has at least so many elements; when `ended`, exactly.
  int64_t known = 0;
  bool ended = false;
};
struct ReadFailed {
  ReadId read;
  ErrorPtr error;
  // The worker cannot be reached, or does not answer; otherwise it has answered with this error.
  bool unreachable = false;
};

using ConsumerEvent = std::variant<DispatcherAnswered, ReadAnswered, ReadFailed>;

// --- Effects ---

struct SendToDispatcher {
  RequestId request;
  // Their `call` is not set.
  std::variant<OpenIteration, ConsumerPoll, CloseConsumer> what;
};

// Ask the worker for elements from, from + stride... of a segment. It answers with at least one
// element unless the segment ends before; and with an element only when it knows that there are
// `ahead` more behind it, or that the segment ends before.
struct SendRead {
  ReadId read;
  WorkerAddress worker;
  DatasetId dataset;
  int64_t segment = 0;
  int64_t from = 0;
  int64_t stride = 1;
  int64_t ahead = 0;
  int64_t max_elements = 0;  // 0: only prepare it; answered at once
  uint64_t max_bytes = 0;
};

// What an element is, so that a program can keep it with what it made of it.
struct ElementPlace {
  LaneId lane;
  int64_t seq = 0;
  int64_t segment = 0;
  int64_t element = 0;  // of the segment
  int64_t round = -1;   // rounds
  TaskId task;          // rounds: whose turn it was
};

// The one answer to an ask: the element; or the error; or neither: the end.
struct HandOut {
  AskId ask;
  ErrorPtr error;
  bool end = false;
  Element element;
  ElementPlace place;
};

struct ConsumerEffects {
  std::vector<SendToDispatcher> requests;
  std::vector<SendRead> reads;
  // Their answers are of no use any more; none has to come.
  std::vector<ReadId> cancelled_reads;
  std::vector<HandOut> handed_out;
  std::vector<std::string> log;
  bool closed = false;  // `Close` is done: the machine wants nothing any more
};

// One consumer of one iteration.
//
// Invariants: (1) every ask is answered exactly once; (2) elements come in the order of the mode:
// first come, in the order of each lane; (3) nothing is acknowledged that was not handed out, and
// with `acknowledge_by_itself` not before the next ask; (4) whoever makes an element, and however
// often it is asked for again, it is handed out once; (5) what is read ahead and in flight is
// within `read_bytes_max`, but for one answer of each worker.
//
// Threads: thread-compatible.
class ConsumerMachine {
 public:
  explicit ConsumerMachine(ConsumerOptions options);
  ~ConsumerMachine();
  ConsumerMachine(const ConsumerMachine&) = delete;
  ConsumerMachine& operator=(const ConsumerMachine&) = delete;

  // Asks the dispatcher for the iteration; again: nothing. It fails at once when `rejoin` or the
  // cursor of the options cannot be read (`failed`).
  void Open(Time now, ConsumerEffects& out);
  // The next element. Several may wait; they are answered in their order.
  void Next(Time now, AskId ask, ConsumerEffects& out);
  // The program does not wait any more: answered with CANCELLED unless it was answered.
  void Cancel(Time now, AskId ask, ConsumerEffects& out);
  // Without `acknowledge_by_itself`: the program has safely all that was handed out to it up to
  // this place, in the place's lane.
  void Acknowledge(Time now, const ElementPlace& place, ConsumerEffects& out);
  // Leaves the iteration. All waiting asks are answered with CANCELLED.
  void Close(Time now, ConsumerEffects& out);

  // What came back of `ConsumerEffects`. The answer to a call or read that is over is ignored.
  void Handle(Time now, ConsumerEvent event, ConsumerEffects& out);
  // Tries again, polls or reads on, if that is due. Too early, it does nothing.
  void ReachDeadline(Time now, ConsumerEffects& out);
  // When `ReachDeadline` has something to do; infinite: not before another call.
  Time NextDeadline() const;

  // First come: what is handed out and (by itself: with the next ask; else by `Acknowledge`)
  // acknowledged, in all lanes: `ConsumerOptions::have` of the next life.
  std::vector<LaneAck> Acks() const;
  // Exact and rounds: where the next element is, as a text of a few hundred bytes. Null and `why`
  // when there is none: first come, or it has not begun.
  std::optional<std::string> Cursor(ErrorPtr& why) const;

  // For people.
  struct View {
    std::string state;      // "opening", "reading", "finished"...
    std::string waits_for;  // what the program waits for; empty: it does not wait
    int64_t handed_out = 0;
    int64_t round = -1;
    uint64_t buffered_bytes = 0;
    int32_t reads_in_flight = 0;
    int64_t dropped = 0;  // rounds: elements of last turns that were not whole
    int64_t stalls = 0;   // asks that had to wait
    // First come, acknowledged by hand: what the program has and has not acknowledged.
    int64_t unacknowledged = 0;
    uint64_t unacknowledged_bytes = 0;
  };
  View GetView() const;
  // The iteration and the consumer, once it is open.
  std::optional<IterationOpened> opened() const;
  // Why it has failed for good, also before it was open; null: it has not.
  ErrorPtr failed() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::dispatch
