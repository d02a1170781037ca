// A dispatcher with a clock of its own, for tests: requests go in, and their answers are looked up.
// Pure.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/data/dispatch/dispatcher.h"

namespace lockstep::dispatch {

class ToyShape : public Shape {
 public:
  ToyShape(int64_t segments, int64_t elements, int64_t files)
      : segments_(segments), elements_(elements), files_(files) {}
  int64_t segments() const override { return segments_; }
  std::optional<int64_t> ElementsOf(int64_t /*segment*/) const override { return elements_; }
  int64_t ElementsMost(int64_t /*segment*/) const override { return elements_; }
  int64_t files() const override { return files_; }
  int64_t FileOf(int64_t segment) const override { return files_ == 0 ? 0 : segment % files_; }

 private:
  int64_t segments_, elements_, files_;
};

class Service {
 public:
  explicit Service(int64_t segments = 100, Options options = {}, int64_t files = 0) {
    if (options.make_shape == nullptr) {
      options.make_shape = [=](const std::string&, const std::string&) {
        return ShapeOrError{.shape = std::make_shared<ToyShape>(segments, 10, files)};
      };
    }
    options_ = options;
    dispatcher_ = std::make_unique<Dispatcher>(options_);
  }

  // The answer to the request, once there is one.
  template <class Request>
  CallId Send(Request request) {
    request.call = CallId(++last_call_);
    Feed(std::move(request));
    return CallId(last_call_);
  }
  void Feed(Event event) {
    Effects out;
    dispatcher_->Handle(now_, std::move(event), out);
    for (Reply& reply : out.replies) {
      EXPECT_EQ(replies_.count(reply.call), 0u) << "a call is answered twice";
      replies_[reply.call] = std::move(reply);
    }
    for (Record& record : out.records) journal_.push_back({now_, std::move(record)});
  }
  bool Answered(CallId call) const { return replies_.count(call) > 0; }
  const Reply& ReplyTo(CallId call) const { return replies_.at(call); }
  template <class A>
  A Get(CallId call) const {
    EXPECT_TRUE(Answered(call));
    if (!Answered(call)) return A{};
    EXPECT_EQ(ReplyTo(call).error, nullptr) << ReplyTo(call).error->message;
    return std::holds_alternative<A>(ReplyTo(call).answer) ? std::get<A>(ReplyTo(call).answer)
                                                           : A{};
  }
  ErrorPtr ErrorOf(CallId call) const {
    EXPECT_TRUE(Answered(call));
    return Answered(call) ? ReplyTo(call).error : nullptr;
  }
  void Pass(absl::Duration time) {
    const Time end = now_ + time;
    while (dispatcher_->NextDeadline() <= end) {
      now_ = std::max(now_, dispatcher_->NextDeadline());
      Feed(DeadlineReached{});
    }
    now_ = end;
  }
  // Dies, and comes back from its journal; compacted when so asked.
  void Restart(bool compacted = false) {
    if (compacted) journal_ = dispatcher_->Snapshot();
    ++options_.service;
    dispatcher_ = std::make_unique<Dispatcher>(options_);
    for (const TimedRecord& record : journal_) {
      EXPECT_TRUE(dispatcher_->Apply(record.at, record.record).ok());
    }
    Feed(Restored{});
  }

  DatasetId Register(const std::string& identity = "d0", const std::string& name = "",
                     bool needs_manifest = false) {
    return Get<DatasetRegistered>(Send(RegisterDataset{.name = name,
                                                       .identity = identity,
                                                       .definition = "graph " + identity,
                                                       .needs_manifest = needs_manifest}))
        .dataset;
  }
  CallId PollWorker(uint64_t worker, WorkerPoll poll = {}) {
    poll.worker = WorkerId(worker);
    poll.version = poll.version == 0 ? 1 : poll.version;
    if (poll.address.empty()) poll.address = "host:" + std::to_string(worker);
    return Send(std::move(poll));
  }
  CallId Open(const IterationSpec& spec, const std::string& consumer, uint64_t life = 1,
              int32_t index = -1) {
    return Send(OpenIteration{
        .spec = spec, .consumer = consumer, .life = ConsumerLife(life), .index = index});
  }
  CallId Poll(const IterationOpened& opened, ConsumerPoll poll = {}, uint64_t life = 1) {
    poll.iteration = opened.iteration;
    poll.consumer = opened.consumer;
    poll.life = ConsumerLife(life);
    poll.number = ++polls_;
    return Send(std::move(poll));
  }
  // What the consumer is told now.
  Assignment Assigned(const IterationOpened& opened, uint64_t life = 1) {
    return Get<Assignment>(Poll(opened, {}, life));
  }
  View Look() const { return dispatcher_->GetView(now_); }
  Dispatcher& dispatcher() { return *dispatcher_; }
  const std::vector<TimedRecord>& journal() const { return journal_; }
  Time now() const { return now_; }

 private:
  Options options_;
  std::unique_ptr<Dispatcher> dispatcher_;
  Time now_ = Time::FromNanoseconds(1'000'000'000);
  uint64_t last_call_ = 0;
  int64_t polls_ = 0;
  std::map<CallId, Reply> replies_;
  std::vector<TimedRecord> journal_;
};

}  // namespace lockstep::dispatch
