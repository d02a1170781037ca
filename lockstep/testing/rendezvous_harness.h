// Members of a rendezvous with the messages between them in the test's hand. For tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/rendezvous/rendezvous_machine.h"

namespace lockstep::testing {

// The bytes of a value: a number, which says which value it is.
class NumberMemory : public rendezvous::Memory {
 public:
  NumberMemory(uint64_t number, uint64_t bytes)
      : Memory(reinterpret_cast<const std::byte*>(&number_), bytes), number_(number) {}
  uint64_t number() const { return number_; }

 private:
  const uint64_t number_;
};

inline rendezvous::Value Numbered(uint64_t number, uint64_t bytes = 8) {
  return {.bytes = bytes, .memory = std::make_shared<NumberMemory>(number, bytes)};
}

inline std::optional<uint64_t> NumberOf(const rendezvous::MemoryPtr& memory) {
  const auto* number = dynamic_cast<const NumberMemory*>(memory.get());
  return number == nullptr ? std::nullopt : std::optional(number->number());
}

// N machines on one virtual clock. What one says to another waits in a queue until the test
// delivers it; the bytes of what is not short stay with the sender, and are mapped or must be
// fetched, as `fetches` says. Plays the shell: it keeps fetches until the test ends them.
//
// Threads: one. Bounds: none, it is for tests.
class RendezvousHarness {
 public:
  using Machine = rendezvous::RendezvousMachine;
  using OpId = rendezvous::OpId;
  using StepId = rendezvous::StepId;
  static constexpr StepId kStep{7};

  // All have opened `kStep`.
  explicit RendezvousHarness(int members = 2, rendezvous::Options options = {}) {
    for (int i = 0; i < members; ++i) options.names.push_back("task/" + std::to_string(i));
    options_ = options;
    machines_.resize(members);
    for (int i = 0; i < members; ++i) {
      Restart(i);
      EXPECT_EQ(Open(i), nullptr);
    }
  }

  Machine& operator[](int member) { return *machines_[member]; }
  Time now() const { return now_; }
  static MemberIndex Of(int member) { return MemberIndex(member); }

  // Another incarnation, which knows nothing.
  void Restart(int member) {
    options_.self = Of(member);
    options_.first_lease += 1'000'000;
    machines_[member] = std::make_unique<Machine>(options_);
    for (auto& [pair, queue] : queues_) {
      if (pair.first == member || pair.second == member) queue.clear();
    }
  }
  // The others are told of its loss, and of its return.
  void LoseAndRestart(int member) {
    Restart(member);
    for (int i = 0; i < size(); ++i) {
      if (i == member) continue;
      Lose(i, member);
      machines_[i]->PeerBack(Of(member));
    }
  }
  void Lose(int at, int lost) {
    Act(at, [&](Machine& machine, rendezvous::Effects& out) {
      machine.PeerLost(
          now_, Of(lost),
          Error(rendezvous::Reason::kPeerLost, "task/" + std::to_string(lost) + " died"), out);
    });
  }

  static rendezvous::ErrorPtr Error(rendezvous::Reason reason, std::string text) {
    return rendezvous::MakeError(absl::StatusCode::kAborted, reason, std::move(text));
  }

  rendezvous::ErrorPtr Open(int member, StepId step = kStep) {
    return machines_[member]->OpenStep(now_, step);
  }
  void Close(int member, StepId step = kStep) {
    Act(member, [&](Machine& m, rendezvous::Effects& out) { m.CloseStep(now_, step, out); });
  }
  void Abort(int member, std::string text, StepId step = kStep) {
    Act(member, [&](Machine& m, rendezvous::Effects& out) {
      m.Abort(now_, step, Error(rendezvous::Reason::kStepAborted, text), out);
    });
  }

  rendezvous::ErrorPtr Send(int from, int to, std::string name, rendezvous::Value value,
                            StepId step = kStep) {
    rendezvous::ErrorPtr error;
    Act(from, [&](Machine& m, rendezvous::Effects& out) {
      error = m.Send(now_, {step, Of(to), std::move(name), std::move(value)}, out);
    });
    return error;
  }
  OpId SendTold(int from, int to, std::string name, rendezvous::Value value,
                Time deadline = Time::Infinite()) {
    const OpId op(++last_op_);
    Act(from, [&](Machine& m, rendezvous::Effects& out) {
      auto error =
          m.Send(now_, {kStep, Of(to), std::move(name), std::move(value)}, op, deadline, out);
      if (error) out.Fail(op, std::move(error));
    });
    return op;
  }
  OpId SendWhenRoom(int from, int to, std::string name, rendezvous::Value value,
                    Time deadline = Time::Infinite()) {
    const OpId op(++last_op_);
    Act(from, [&](Machine& m, rendezvous::Effects& out) {
      m.SendWhenRoom(now_, {kStep, Of(to), std::move(name), std::move(value)}, op, deadline, out);
    });
    return op;
  }
  OpId Receive(int at, int from, std::string name, Time deadline = Time::Infinite(),
               std::optional<uint64_t> into = {}, StepId step = kStep) {
    const OpId op(++last_op_);
    Act(at, [&](Machine& m, rendezvous::Effects& out) {
      m.Receive(now_,
                {.op = op,
                 .step = step,
                 .from = Of(from),
                 .name = std::move(name),
                 .into_bytes = into,
                 .deadline = deadline},
                out);
    });
    return op;
  }
  void Cancel(int at, OpId op) {
    Act(at, [&](Machine& m, rendezvous::Effects& out) { m.Cancel(now_, op, out); });
  }
  void Release(int at, OpId op) {
    const rendezvous::Completed& done = completed_.at(op);
    Act(at, [&](Machine& m, rendezvous::Effects& out) { m.Release(done.from, done.lease, out); });
  }
  // The bytes of this receive have come, or not.
  void Fetched(int at, OpId op, bool well = true) {
    fetching_.erase(op);
    Act(at, [&](Machine& m, rendezvous::Effects& out) {
      m.Fetched(now_, op, well ? nullptr : Error(rendezvous::Reason::kUnreachable, "broken"), out);
    });
  }
  void Close(int member, rendezvous::ErrorPtr why) {
    Act(member, [&](Machine& m, rendezvous::Effects& out) { m.Close(std::move(why), out); });
  }

  // The next message of `from` to `to`; false when there is none.
  bool DeliverOne(int from, int to) {
    auto& queue = queues_[{from, to}];
    if (queue.empty()) return false;
    rendezvous::PeerMessage message = std::move(queue.front());
    queue.pop_front();
    Act(to, [&](Machine& m, rendezvous::Effects& out) {
      m.Take(now_, Of(from), std::move(message), out);
    });
    return true;
  }
  void DeliverAll() {
    for (bool more = true; more;) {
      more = false;
      for (int from = 0; from < size(); ++from) {
        for (int to = 0; to < size(); ++to) more |= DeliverOne(from, to);
      }
    }
  }
  // Messages come, and receives that wait say so.
  void Run() {
    DeliverAll();
    Advance(options_.want_after);
    DeliverAll();
  }
  void Advance(absl::Duration by) {
    now_ = now_ + by;
    for (int i = 0; i < size(); ++i) {
      Act(i, [&](Machine& m, rendezvous::Effects& out) { m.ReachDeadline(now_, out); });
    }
  }

  // Messages of one kind that are on their way.
  template <class Message>
  size_t Count(int from, int to) {
    size_t count = 0;
    for (const auto& message : queues_[{from, to}]) {
      count += std::holds_alternative<Message>(message);
    }
    return count;
  }

  // How many receives of others wait there, as far as this member knows.
  size_t Wanted(int at) const {
    size_t wanted = 0;
    for (const auto& row : machines_[at]->GetView(now_, SIZE_MAX).wanted) wanted += row.count;
    return wanted;
  }

  bool done(OpId op) const { return completed_.contains(op); }
  const rendezvous::Completed& Result(OpId op) const {
    static const rendezvous::Completed kNone;
    const auto found = completed_.find(op);
    if (found != completed_.end()) return found->second;
    ADD_FAILURE() << "operation " << op << " was not completed";
    return kNone;
  }
  // The number of a received value; 0 when it failed or is not done.
  uint64_t Got(OpId op) const {
    if (!done(op) || Result(op).error) return 0;
    const rendezvous::Completed& result = Result(op);
    if (const auto number = NumberOf(result.value.memory)) return *number;
    return result.place ? *static_cast<const uint64_t*>(result.place.get()) : 0;
  }
  // Why it failed; empty when it did not, or is not done.
  std::string Why(OpId op) const {
    if (!done(op) || !Result(op).error) return "";
    return std::string(rendezvous::ReasonName(Result(op).error->reason));
  }
  std::string Text(OpId op) const {
    return done(op) && Result(op).error ? Result(op).error->message : "";
  }

  bool fetches = false;  // of what is not short; otherwise it is mapped
  std::map<OpId, rendezvous::Fetch> fetching_;
  std::vector<OpId> stopped_;
  std::vector<std::string> log_;

 private:
  int size() const { return static_cast<int>(machines_.size()); }

  template <class Do>
  void Act(int member, const Do& act) {
    rendezvous::Effects out;
    act(*machines_[member], out);
    for (auto& [to, message] : out.messages) {
      if (auto* offer = std::get_if<rendezvous::Offer>(&message)) Ship(*offer);
      queues_[{member, to.value()}].push_back(std::move(message));
    }
    for (auto& fetch : out.fetches) {
      const OpId op = fetch.op;
      fetching_.emplace(op, std::move(fetch));
    }
    for (const OpId op : out.stop_fetches) stopped_.push_back(op);
    for (auto& completed : out.completed) {
      const OpId op = completed.op;
      EXPECT_TRUE(completed_.emplace(op, std::move(completed)).second) << "twice: " << op;
    }
    for (auto& line : out.log) log_.push_back(std::move(line));
  }

  void Ship(rendezvous::Offer& offer) const {
    if (offer.value.bytes <= options_.inline_bytes_max) return;
    offer.away = fetches;
    if (!fetches) offer.place = std::make_shared<uint64_t>(*NumberOf(offer.value.memory));
    offer.value.memory = nullptr;
  }

  rendezvous::Options options_;
  Time now_;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::map<std::pair<int, int>, std::deque<rendezvous::PeerMessage>> queues_;
  std::map<OpId, rendezvous::Completed> completed_;
  uint64_t last_op_ = 0;
};

}  // namespace lockstep::testing
