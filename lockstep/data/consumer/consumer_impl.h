// The inside of ConsumerMachine. Pure.
#pragma once

#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/data/consumer/ask_timer.h"
#include "lockstep/data/consumer/consumer_machine.h"
#include "lockstep/data/consumer/dispatcher_calls.h"
#include "lockstep/data/consumer/lane_reader.h"
#include "lockstep/data/dispatch/cursor.h"

namespace lockstep::dispatch {

// Three files: consumer_machine.cc talks with the dispatcher, consumer_reading.cc reads,
// consumer_acks.cc acknowledges.
class ConsumerMachine::Impl {
 public:
  explicit Impl(ConsumerOptions options);

  void Open(Time now, ConsumerEffects& out);
  void Next(Time now, AskId ask, ConsumerEffects& out);
  void Cancel(AskId ask, ConsumerEffects& out);
  void Acknowledge(Time now, const ElementPlace& place, ConsumerEffects& out);
  void Close(Time now, ConsumerEffects& out);
  void Handle(Time now, ConsumerEvent event, ConsumerEffects& out);
  void ReachDeadline(Time now, ConsumerEffects& out);
  Time NextDeadline() const;
  std::vector<LaneAck> Acks() const { return AcksUpTo(std::numeric_limits<size_t>::max()); }
  std::optional<std::string> CursorText(ErrorPtr& why) const;
  View GetView() const;
  std::optional<IterationOpened> opened() const { return opened_; }
  ErrorPtr failed() const { return failure_; }

 private:
  enum class State { kIdle, kOpening, kReading, kFailed, kClosing, kClosed };
  using Kind = CallInFlight::Kind;
  struct Read {
    LaneId lane;
    int64_t seq = 0;
    WorkerId worker;
    int64_t from = 0;
    int64_t stride = 1;
    uint64_t bytes = 0;  // that it may bring
  };

  bool first_come() const { return options_.spec.mode == Mode::kFirstCome; }
  bool exact() const { return options_.spec.mode == Mode::kExact; }
  bool rounds() const { return options_.spec.mode == Mode::kRounds; }

  // consumer_machine.cc
  void Take(Time now, DispatcherAnswered& event, ConsumerEffects& out);
  void Take(Time now, ReadAnswered& event, ConsumerEffects& out);
  void Take(Time now, ReadFailed& event, ConsumerEffects& out);
  void TakeOpened(Time now, const IterationOpened& answer, ConsumerEffects& out);
  void TakeAssignment(Time now, Assignment assignment, ConsumerEffects& out);
  void TakeLanes(Time now, const Assignment& assignment, ConsumerEffects& out);
  void TakeGrant(Time now, LaneReader& lane, const Lane& from, const Grant& grant,
                 ConsumerEffects& out);
  bool FoundPlace(const Lane& from);
  void AddProgress(ConsumerPoll& poll) const;
  int64_t PlaceSegment() const;
  void Advance(Time now, ConsumerEffects& out);
  void SendOpen(Time now, ConsumerEffects& out);
  void SendClose(Time now, ConsumerEffects& out);
  void SendPolls(Time now, ConsumerEffects& out);
  ConsumerPoll MakePoll() const;
  void Fail(const ErrorPtr& why, ConsumerEffects& out);
  void EndAsks(const ErrorPtr& error, ConsumerEffects& out);
  void CancelReads(ConsumerEffects& out);
  void Urgent() { urgent_ = true; }
  void ReportSoon(Time now);

  bool JumpToSeat();
  // Whether the round goes on; otherwise it is over, or nothing can be said yet.
  enum class Turn { kGiven, kWaits, kOver };
  Turn TakeTurns(ConsumerEffects& out);

  // consumer_reading.cc
  void HandOutAll(Time now, ConsumerEffects& out);
  // Whether something was handed out.
  bool HandOutFirstCome(Time now, ConsumerEffects& out);
  bool HandOutExact(Time now, ConsumerEffects& out);
  bool HandOutRound(Time now, ConsumerEffects& out);
  void Give(LaneReader& lane, LaneSegment& segment, int64_t index, int64_t round,
            ConsumerEffects& out);

  // consumer_acks.cc
  bool by_hand() const { return first_come() && !options_.acknowledge_by_itself; }
  void AcknowledgeHanded(Time now);
  void NoteAcked(Time now, LaneSegment& segment, int64_t elements);
  std::vector<LaneAck> AcksUpTo(size_t most) const;
  // By hand: nobody holds anything but the program itself, which has all of it.
  bool HasAllThereIs() const;
  bool HasAllGiven() const;
  // By hand: why the program gets nothing before it acknowledges; null: it gets more.
  ErrorPtr WhyAcknowledgeFirst() const;
  void SkipHanded(LaneReader& lane);
  void FillAcks(ConsumerPoll& poll) const;
  bool MoreAcksWait() const;
  void ForgetFront(LaneReader& lane);

  // consumer_reading.cc
  void NoteCount(LaneReader& lane, LaneSegment& segment, int64_t count);
  void PlanReads(Time now, ConsumerEffects& out);
  void PlanLane(Time now, LaneReader& lane, int64_t wanted, int64_t stride, int64_t ahead,
                bool first, ConsumerEffects& out);
  bool PlanSegment(Time now, LaneReader& lane, LaneSegment& segment, int64_t wanted, int64_t stride,
                   int64_t ahead, bool needed, ConsumerEffects& out);
  const Seating* SeatingAt(int64_t round) const;
  // Where the lane's turn of this round begins.
  int64_t TurnAt(const LaneReader& lane, int64_t round) const;
  // The round of the lane's next turn.
  int64_t NextTurn(const LaneReader& lane) const;
  int64_t NeededFrom(const LaneReader& lane) const;  // position: nothing before it is needed
  void DropRead(LaneReader& lane, ConsumerEffects& out);
  LaneProgress ProgressOf(const LaneReader& lane) const;

  const ConsumerOptions options_;
  State state_ = State::kIdle;
  ErrorPtr failure_;
  std::optional<IterationOpened> opened_;
  dispatch::Cursor start_;
  std::optional<dispatch::Cursor> rejoin_;
  int32_t index_ = -1;

  // With the dispatcher.
  DispatcherCalls calls_;
  int64_t poll_number_ = 0;
  RequestId newest_answered_;
  std::optional<Assignment> assignment_;
  std::vector<WorkerId> unreachable_;
  std::vector<SegmentFailure> failures_;
  bool urgent_ = false;
  std::map<LaneId, int64_t> told_needs_;
  Time report_at_ = Time::Infinite();
  Time advanced_at_;  // when it was looked last at what can be done

  // With workers.
  std::map<LaneId, LaneReader> lanes_;
  std::map<ReadId, Read> reads_;
  uint64_t last_read_ = 0;
  uint64_t buffered_bytes_ = 0;
  uint64_t asked_bytes_ = 0;

  // With the program.
  std::deque<AskId> asks_;
  int64_t handed_out_ = 0;
  int64_t stalls_ = 0;
  int64_t dropped_ = 0;
  int64_t unacknowledged_ = 0;  // by hand
  uint64_t unacknowledged_bytes_ = 0;
  bool told_has_all_ = false;
  AskTimer timer_;
  mutable bool keeps_cursors_ = false;  // it was asked for one
  bool finished_ = false;               // exact and rounds: it has read to the end
  // Exact: the end, once it is there. Rounds: behind what it was given last.
  ReadingPlace end_;

  // Exact: the position of its next element.
  int64_t position_ = 0;
  // Exact: where it goes on is found among the grants; which grant that is, once that is known.
  bool found_place_ = false;
  int64_t place_seq_ = -1;
  // Rounds.
  int64_t round_ = 0;
  int64_t begun_ = -1;
  LaneId turn_over_{-1};  // of this round: lanes up to this one have had their turn
  int64_t place_ = 0;     // how many
  int64_t skip_turns_ = 0;
  std::optional<int64_t> block_;
};

}  // namespace lockstep::dispatch
