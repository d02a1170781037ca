// The inside of ConsumerMachine: the consumer's life from its opening to its end, and its talk with
// the dispatcher. Pure.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/consumer/ask_queue.h"
#include "lockstep/data/consumer/consumer_machine.h"
#include "lockstep/data/consumer/current_assignment.h"
#include "lockstep/data/consumer/dispatcher_calls.h"
#include "lockstep/data/consumer/lane_set.h"
#include "lockstep/data/consumer/poll_schedule.h"
#include "lockstep/data/consumer/read_ahead.h"
#include "lockstep/data/consumer/reading_order.h"

namespace lockstep::dispatch {

// The parts know their own: AskQueue the program's asks, LaneSet what there is to read, ReadAhead
// the workers' answers, ReadingOrder which element is next, DispatcherCalls the requests.
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
  std::vector<LaneAck> Acks() const { return order_->Acks(); }
  std::optional<std::string> CursorText(ErrorPtr& why);
  View GetView() const;
  std::optional<IterationOpened> opened() const { return opened_; }
  ErrorPtr failed() const { return failure_; }

 private:
  enum class State { kIdle, kOpening, kReading, kFailed, kClosing, kClosed };
  using Kind = CallInFlight::Kind;

  void Take(Time now, DispatcherAnswered& event, ConsumerEffects& out);
  void Take(Time now, ReadAnswered& event, ConsumerEffects& out);
  void Take(Time now, ReadFailed& event, ConsumerEffects& out);
  void TakeOpened(const IterationOpened& answer);
  void TakeAssignment(Time now, ConsumerEffects& out);

  void Advance(Time now, ConsumerEffects& out);
  void HandOutAll(Time now, ConsumerEffects& out);
  void SendOpen(ConsumerEffects& out);
  void SendClose(ConsumerEffects& out);
  void SendPolls(Time now, ConsumerEffects& out);
  ConsumerPoll MakePoll(int64_t number) const;
  void Fail(const ErrorPtr& why, ConsumerEffects& out);
  std::string StateName() const;
  std::string WaitsFor() const;

  const ConsumerOptions options_;
  State state_ = State::kIdle;
  ErrorPtr failure_;
  std::optional<IterationOpened> opened_;
  DispatcherCalls calls_;
  PollSchedule polls_;
  CurrentAssignment assignment_;
  LaneSet lanes_;
  ReadAhead reads_;
  const std::unique_ptr<ReadingOrder> order_;
  AskQueue asks_;
  bool keeps_cursors_ = false;  // it was asked for one
};

}  // namespace lockstep::dispatch
