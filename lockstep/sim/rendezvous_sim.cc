#include "lockstep/sim/rendezvous_sim.h"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/rendezvous/rendezvous_machine.h"
#include "lockstep/sim/random.h"
#include "lockstep/sim/schedule.h"

namespace lockstep::sim {
namespace {

using namespace rendezvous;  // NOLINT: its whole world

constexpr size_t kTailMax = 60;
constexpr absl::Duration kFaultsLast = absl::Milliseconds(120);
constexpr absl::Duration kDrainsWithin = absl::Seconds(2);
constexpr int64_t kEventsMax = 400'000;

class NumberMemory : public Memory {
 public:
  NumberMemory(uint64_t number, uint64_t bytes)
      : Memory(reinterpret_cast<const std::byte*>(&number_), bytes), number_(number) {}
  uint64_t number() const { return number_; }

 private:
  const uint64_t number_;
};

// Values of one key between two lives.
struct StreamId {
  StepId step;
  int from = 0;
  int from_life = 0;
  int to = 0;
  int to_life = 0;
  std::string name;

  friend auto operator<=>(const StreamId&, const StreamId&) = default;
};

struct SentValue {
  StreamId stream;
  bool accepted = false;
  uint64_t order = 0;  // of acceptance
  bool received = false;
};

struct Stream {
  std::vector<uint64_t> accepted;                   // numbers
  std::vector<std::pair<OpId, uint64_t>> received;  // by which receive, the order of the value
  bool disturbed = false;                           // a fetch failed: the order may change
  bool mismatched = false;                          // a receive refused a value
};

struct SimOp {
  enum class Kind { kReceive, kTold, kRoom } kind = Kind::kReceive;
  int member = 0;
  StreamId stream;
  uint64_t number = 0;  // of the value, for sends
  bool done = false;
  bool last = false;  // of those that must be given a value
};

// A view, or a fetch, of another member's memory.
struct Look {
  int at = 0;
  int at_life = 0;
  int of = 0;
  int of_life = 0;
  LeaseId lease;
  uint64_t number = 0;
};

struct SimMember {
  std::unique_ptr<RendezvousMachine> machine;
  int life = 0;
  std::map<int, int> knows;  // of others, which life
  std::set<int> lost;
  std::set<StepId> open;
  std::set<StepId> over;  // closed or aborted
  Time wakes = Time::Infinite();
  bool alive() const { return machine != nullptr; }
};

struct InFlight {
  Time at;
  int from_life = 0;
  int to_life = 0;
  PeerMessage message;
};

std::string Text(const PeerMessage& message) {
  constexpr const char* kNames[] = {"want",   "unwant", "offer", "taken", "released",
                                    "credit", "refuse", "abort", "closed"};
  std::string text = kNames[message.index()];
  const auto add = [&](const auto& m) {
    if constexpr (requires { m.step; }) absl::StrAppend(&text, " step ", m.step.value());
    if constexpr (requires { m.name; }) absl::StrAppend(&text, " ", m.name);
    if constexpr (requires { m.first; }) {
      absl::StrAppend(&text, " ", m.first.value(), " to ", m.last.value());
    }
    if constexpr (requires { m.want; }) absl::StrAppend(&text, " ", m.want.value());
    if constexpr (requires { m.lease; }) absl::StrAppend(&text, " lease ", m.lease.value());
    if constexpr (requires { m.answers; }) {
      absl::StrAppend(&text, " answers ", m.answers.value());
    }
  };
  std::visit(add, message);
  return text;
}

class RendezvousSimulation {
 public:
  RendezvousSimulation(uint64_t seed, bool verbose)
      : scenario_(DrawRendezvousScenario(seed)), verbose_(verbose), random_(seed * 31 + 7) {
    result_.seed = seed;
    members_.resize(scenario_.members);
    for (int i = 0; i < scenario_.members; ++i) Start(i);
  }

  RendezvousResult Run() {
    for (int i = 0; i < scenario_.members; ++i) WorkLater(i);
    if (scenario_.kills) {
      for (int64_t i = random_.Between(1, 4); i > 0; --i) {
        schedule_.After(random_.Between(absl::Milliseconds(5), kFaultsLast),
                        [this] { Kill(random_.Index(members_.size())); });
      }
    }
    RunUntil(Time() + kFaultsLast + absl::Milliseconds(200));
    calm_ = true;
    Drain();
    if (Healthy()) CloseEverything();
    return Result();
  }

 private:
  // --- The world ---

  void RunUntil(Time end) {
    while (Healthy() && schedule_.RunNext(end)) {
      if (++result_.events > kEventsMax) Break("circle: too many events");
    }
  }
  bool Healthy() const { return result_.failure.empty(); }
  void Break(std::string rule) {
    if (Healthy()) result_.failure = std::move(rule);
  }
  void Note(std::string text) {
    for (const char c : text) hash_ = (hash_ ^ static_cast<uint8_t>(c)) * 0x100000001b3;
    std::string line = absl::StrCat(absl::FormatDuration(schedule_.now() - Time()), "  ", text);
    if (verbose_) std::puts(line.c_str());
    tail_.push_back(std::move(line));
    if (tail_.size() > kTailMax) tail_.pop_front();
  }
  absl::Duration Delay() { return absl::Microseconds(random_.Between(1, scenario_.delay_max_us)); }

  void Start(int index) {
    SimMember& member = members_[index];
    ++member.life;
    Options options = scenario_.options;
    options.self = MemberIndex(index);
    options.first_lease = static_cast<uint64_t>(member.life) << 40;
    member.machine = std::make_unique<RendezvousMachine>(options);
    member.lost.clear();
    member.open.clear();
    member.over.clear();
    member.wakes = Time::Infinite();
    for (int other = 0; other < scenario_.members; ++other) {
      if (other == index) continue;
      member.knows[other] = std::max(1, members_[other].life);
      if (!members_[other].alive() && members_[other].life > 0) TellLossLater(index, other);
    }
  }

  void Kill(int index) {
    SimMember& member = members_[index];
    if (!member.alive()) return;
    Note(absl::StrCat("kill ", index));
    ++result_.kills;
    member.machine.reset();
    for (auto& [op, sim] : ops_) {
      if (sim.member == index) sim.done = true;
    }
    std::erase_if(looks_, [&](const auto& look) { return look.second.at == index; });
    for (int other = 0; other < scenario_.members; ++other) {
      if (other != index) TellLossLater(other, index);
    }
    schedule_.After(random_.Between(absl::Milliseconds(1), absl::Milliseconds(30)), [this, index] {
      Note(absl::StrCat("back ", index));
      Start(index);
      WorkLater(index);
      for (int other = 0; other < scenario_.members; ++other) {
        if (other != index) TellReturnLater(other, index, members_[index].life);
      }
    });
  }

  void TellLossLater(int at, int lost) {
    schedule_.After(random_.Between(absl::Microseconds(1), absl::Milliseconds(20)),
                    [this, at, lost, life = members_[lost].life] {
                      if (members_[at].alive() && members_[at].knows[lost] == life) Lose(at, lost);
                    });
  }
  void Lose(int at, int lost) {
    if (!members_[at].lost.insert(lost).second) return;
    Act(at, absl::StrCat("loses ", lost), [&](RendezvousMachine& machine, Effects& out) {
      machine.PeerLost(schedule_.now(), MemberIndex(lost),
                       MakeError(absl::StatusCode::kUnavailable, Reason::kPeerLost, "it died"),
                       out);
    });
  }
  void TellReturnLater(int at, int back, int life) {
    schedule_.After(random_.Between(absl::Microseconds(1), absl::Milliseconds(20)),
                    [this, at, back, life] {
                      SimMember& member = members_[at];
                      if (!member.alive() || member.knows[back] >= life) return;
                      Lose(at, back);
                      Note(absl::StrCat(at, " hears that ", back, " is back"));
                      member.machine->PeerBack(MemberIndex(back));
                      member.knows[back] = life;
                      member.lost.erase(back);
                    });
  }

  // --- A machine and its effects ---

  template <class Do>
  void Act(int index, std::string what, const Do& act) {
    SimMember& member = members_[index];
    if (!member.alive() || !Healthy()) return;
    Note(absl::StrCat(index, ": ", what));
    Effects out;
    act(*member.machine, out);
    for (const Completed& completed : out.completed) NoteAcceptance(completed);
    for (Outgoing& outgoing : out.messages) Post(index, std::move(outgoing));
    for (Fetch& fetch : out.fetches) BeginFetch(index, fetch);
    for (const OpId op : out.stop_fetches) EndFetchLater(index, op);
    // Who sent to itself hears of it in the same moment as the receive.
    std::stable_partition(out.completed.begin(), out.completed.end(), [&](const Completed& done) {
      const auto op = ops_.find(done.op);
      return op != ops_.end() && op->second.kind == SimOp::Kind::kReceive;
    });
    for (Completed& completed : out.completed) Complete(index, completed);
    for (const Value& value : out.dropped) CheckDropped(index, value);
    Wake(index);
  }

  void Wake(int index) {
    SimMember& member = members_[index];
    const Time at = member.machine->NextDeadline();
    if (at >= member.wakes) return;
    member.wakes = at;
    schedule_.At(at, [this, index, at, life = member.life] {
      SimMember& woken = members_[index];
      if (!woken.alive() || woken.life != life || woken.wakes != at) return;
      woken.wakes = Time::Infinite();
      Act(index, "wakes", [&](RendezvousMachine& machine, Effects& out) {
        machine.ReachDeadline(schedule_.now(), out);
      });
    });
  }

  void Post(int from, Outgoing outgoing) {
    const int to = outgoing.to.value();
    SimMember& member = members_[from];
    if (member.lost.contains(to)) return;
    if (auto* offer = std::get_if<Offer>(&outgoing.message)) {
      if (offer->value.bytes > scenario_.options.inline_bytes_max) {
        offer->away = scenario_.fetches || random_.Percent(40);
        if (!offer->away) {
          offer->place = std::make_shared<uint64_t>(Number(offer->value));
        } else {
          away_[{from, member.life, offer->lease}] = Number(offer->value);
        }
        offer->value.memory = nullptr;
      }
    }
    auto& queue = network_[{from, to}];
    Note(absl::StrCat("   to ", to, ": ", Text(outgoing.message), " behind ", queue.size()));
    Time at = schedule_.now() + Delay();
    if (!queue.empty()) at = std::max(at, queue.back().at);
    queue.push_back({at, member.life, member.knows[to], std::move(outgoing.message)});
    if (queue.size() == 1) PumpAt(at, from, to);
  }
  void PumpAt(Time at, int from, int to) {
    schedule_.At(at, [this, from, to] { Pump(from, to); });
  }
  void Pump(int from, int to) {
    auto& queue = network_[{from, to}];
    InFlight& first = queue.front();
    SimMember& receiver = members_[to];
    const bool gone = first.to_life < receiver.life || first.from_life < receiver.knows[from] ||
                      !receiver.alive();
    const bool early =
        !gone && (first.to_life > receiver.life || first.from_life > receiver.knows[from]);
    if (early) return PumpAt(schedule_.now() + absl::Milliseconds(1), from, to);
    PeerMessage message = std::move(first.message);
    queue.pop_front();
    if (!queue.empty()) PumpAt(std::max(schedule_.now(), queue.front().at), from, to);
    if (gone || receiver.lost.contains(from)) return;
    if (const auto* abort = std::get_if<AbortStep>(&message)) {
      if (receiver.open.contains(abort->step) || !scenario_.forgets) {
        receiver.over.insert(abort->step);
      }
    }
    Act(to, absl::StrCat("takes of ", from, ": ", Text(message)),
        [&](RendezvousMachine& machine, Effects& out) {
          machine.Take(schedule_.now(), MemberIndex(from), std::move(message), out);
        });
  }

  static uint64_t Number(const Value& value) {
    const auto* memory = dynamic_cast<const NumberMemory*>(value.memory.get());
    return memory == nullptr ? 0 : memory->number();
  }

  // --- Looking at others' memory ---

  uint64_t Lent(const Look& look) const {
    const SimMember& owner = members_[look.of];
    const Value* value = owner.machine->Lent(MemberIndex(look.at), look.lease);
    return value == nullptr ? 0 : Number(*value);
  }
  // Its sender lives, and counts on the one who looks.
  bool Holds(const Look& look) const {
    const SimMember& owner = members_[look.of];
    const auto knows = owner.knows.find(look.at);
    return owner.alive() && owner.life == look.of_life && members_[look.at].alive() &&
           members_[look.at].life == look.at_life && !owner.lost.contains(look.at) &&
           !members_[look.at].lost.contains(look.of) && knows->second == look.at_life;
  }
  void CheckDropped(int index, const Value& value) {
    const uint64_t number = Number(value);
    if (number == 0) return;
    for (const auto& [id, look] : looks_) {
      if (look.number == number && look.of == index && Holds(look)) {
        Break(absl::StrCat("leases: ", index, " drops value ", number, " that ", look.at,
                           " looks at"));
      }
    }
  }

  void BeginFetch(int at, const Fetch& fetch) {
    const int of = fetch.from.value();
    const auto away = away_.find({of, members_[at].knows[of], fetch.lease});
    const uint64_t number = away == away_.end() ? 0 : away->second;
    if (number == 0) Break("fetches: of a lease that nobody gave");
    looks_[fetch.op] = {at, members_[at].life, of, members_[at].knows[of], fetch.lease, number};
    if (!random_.Percent(5))
      EndFetchLater(at, fetch.op);
    else
      schedule_.After(absl::Milliseconds(20), [this, at, op = fetch.op] { EndFetch(at, op); });
  }
  void EndFetchLater(int at, OpId op) {
    schedule_.After(Delay(), [this, at, op] { EndFetch(at, op); });
  }
  void EndFetch(int at, OpId op) {
    const auto found = looks_.find(op);
    if (found == looks_.end() || !members_[at].alive()) return;
    const Look look = found->second;
    bool well = members_[look.of].alive() && members_[look.of].life == look.of_life;
    if (Holds(look) && Lent(look) != look.number) {
      Break(absl::StrCat("leases: value ", look.number, " is gone while ", at, " fetches it"));
    }
    if (!calm_ && random_.Percent(15)) well = false;
    looks_.erase(found);
    fetched_[op] = look.number;
    ++(well ? result_.fetched : result_.put_back);
    if (!well) streams_[ops_.at(op).stream].disturbed = true;
    Act(at, absl::StrCat("fetched ", op.value(), well ? "" : " not"),
        [&](RendezvousMachine& machine, Effects& out) {
          machine.Fetched(
              schedule_.now(), op,
              well ? nullptr
                   : MakeError(absl::StatusCode::kUnavailable, Reason::kUnreachable, "broken"),
              out);
        });
  }
  void Release(OpId op) {
    const auto found = looks_.find(op);
    if (found == looks_.end()) return;
    const Look look = found->second;
    if (Holds(look) && Lent(look) != look.number) {
      Break(
          absl::StrCat("leases: value ", look.number, " is gone while ", look.at, " looks at it"));
    }
    looks_.erase(found);
    Act(look.at, absl::StrCat("releases ", op.value()),
        [&](RendezvousMachine& machine, Effects& out) {
          machine.Release(MemberIndex(look.of), look.lease, out);
        });
  }

  // --- What is completed ---

  void Accepted(uint64_t number) {
    SentValue& value = values_.at(number);
    Stream& stream = streams_[value.stream];
    value.accepted = true;
    value.order = stream.accepted.size();
    stream.accepted.push_back(number);
  }
  void NoteAcceptance(const Completed& completed) {
    const auto op = ops_.find(completed.op);
    if (op == ops_.end() || op->second.kind != SimOp::Kind::kRoom || completed.error) return;
    if (!values_.at(op->second.number).accepted) Accepted(op->second.number);
    ++result_.roomed;
  }

  void Complete(int index, Completed& completed) {
    const auto found = ops_.find(completed.op);
    if (found == ops_.end()) return Break("once: an operation that was never begun is completed");
    SimOp& op = found->second;
    if (op.done) return Break(absl::StrCat("once: operation ", completed.op.value(), " twice"));
    op.done = true;
    Note(absl::StrCat("   ", completed.op.value(), " ",
                      completed.error ? std::string(ReasonName(completed.error->reason)) : "OK"));
    if (completed.error) {
      ++result_.failed;
      if (completed.error->reason == Reason::kSizeMismatch) streams_[op.stream].mismatched = true;
      if (op.last && (completed.error->reason != Reason::kPeerLost)) {
        Break(absl::StrCat("lost: operation ", completed.op.value(), " at ", index, " in step ",
                           op.stream.step.value(), " of ", op.stream.from, ": ",
                           completed.error->message));
      }
      return;
    }
    if (op.kind == SimOp::Kind::kReceive) return Received(index, op, completed);
    if (op.kind != SimOp::Kind::kTold) return;
    ++result_.told;
    if (!values_.at(op.number).received && !streams_[op.stream].mismatched) {
      Break(absl::StrCat("told: value ", op.number, " was not received"));
    }
  }

  void Received(int index, const SimOp& op, const Completed& completed) {
    ++result_.received;
    if (members_[index].over.contains(op.stream.step)) {
      Break(absl::StrCat("over: ", index, " receives in step ", op.stream.step.value()));
    }
    uint64_t number = Number(completed.value);
    if (const auto fetched = fetched_.find(completed.op); fetched != fetched_.end()) {
      number = fetched->second;
    } else if (completed.place != nullptr) {
      number = *static_cast<const uint64_t*>(completed.place.get());
    }
    const auto found = values_.find(number);
    if (found == values_.end()) return Break("values: received what nobody sent");
    SentValue& value = found->second;
    if (value.received) Break(absl::StrCat("values: ", number, " is received twice"));
    value.received = true;
    const StreamId& sent = value.stream;
    if (sent.step != op.stream.step || sent.from != op.stream.from || sent.to != index ||
        sent.name != op.stream.name || sent.to_life != members_[index].life) {
      Break(absl::StrCat("values: ", number, " is received under another key"));
    }
    streams_[sent].received.emplace_back(completed.op, value.order);
    if (completed.lease == LeaseId()) return;
    ++result_.mapped;
    looks_[completed.op] = {index,          members_[index].life, sent.from,
                            sent.from_life, completed.lease,      number};
    if (completed.value.memory != nullptr) Break("leases: of what came along");
    schedule_.After(random_.Between(absl::Microseconds(1), absl::Milliseconds(15)),
                    [this, id = completed.op] { Release(id); });
  }

  // --- The program of a member ---

  void WorkLater(int index) {
    schedule_.After(random_.Between(absl::Microseconds(1), absl::Microseconds(1500)),
                    [this, index, life = members_[index].life] {
                      if (members_[index].life != life || !members_[index].alive()) return;
                      if (schedule_.now() > Time() + kFaultsLast) return;
                      Work(index);
                      WorkLater(index);
                    });
  }
  StepId SomeStep() {
    const int64_t first = absl::ToInt64Milliseconds(schedule_.now() - Time()) / 25;
    return StepId(first + random_.Between(0, 3));
  }
  std::string SomeName() { return absl::StrCat("n", random_.Between(1, scenario_.names)); }

  void Work(int index) {
    const int64_t what = random_.Between(0, 99);
    SimMember& member = members_[index];
    if (what < 14) return Open(index, SomeStep());
    if (what < 17) {
      if (!member.open.empty()) CloseStep(index, *member.open.begin());
      return;
    }
    if (what < 18) {
      if (scenario_.aborts && random_.Percent(40)) Abort(index, SomeStep());
      return;
    }
    if (what < 22) return CancelSomething(index);
    const StepId step = member.open.empty()
                            ? SomeStep()
                            : *std::next(member.open.begin(), random_.Index(member.open.size()));
    const int64_t times = random_.Percent(20) ? random_.Between(1, 12) : 1;
    const int other = random_.Index(members_.size());
    const std::string name = SomeName();
    for (int64_t i = 0; i < times; ++i) {
      what < 60 ? Send(index, other, step, name) : Receive(index, other, step, name, false);
    }
  }

  void Open(int index, StepId step) {
    Act(index, absl::StrCat("opens ", step.value()), [&](RendezvousMachine& machine, Effects&) {
      if (!machine.OpenStep(schedule_.now(), step)) members_[index].open.insert(step);
    });
  }
  void CloseStep(int index, StepId step) {
    members_[index].over.insert(step);
    Act(index, absl::StrCat("closes ", step.value()),
        [&](RendezvousMachine& machine, Effects& out) {
          machine.CloseStep(schedule_.now(), step, out);
        });
    members_[index].open.erase(step);
  }
  void Abort(int index, StepId step) {
    if (!members_[index].open.contains(step)) return;
    ++result_.aborted;
    members_[index].over.insert(step);
    Act(index, absl::StrCat("aborts ", step.value()),
        [&](RendezvousMachine& machine, Effects& out) {
          machine.Abort(schedule_.now(), step,
                        MakeError(absl::StatusCode::kAborted, Reason::kStepAborted, "a fault"),
                        out);
        });
  }
  void CancelSomething(int index) {
    std::vector<OpId> mine;
    for (auto op = ops_.rbegin(); op != ops_.rend() && mine.size() < 8; ++op) {
      if (op->second.member == index && !op->second.done) mine.push_back(op->first);
    }
    if (mine.empty()) return;
    const OpId op = random_.Pick(mine);
    Act(index, absl::StrCat("cancels ", op.value()), [&](RendezvousMachine& machine, Effects& out) {
      machine.Cancel(schedule_.now(), op, out);
    });
  }

  Time SomeDeadline() {
    if (random_.Percent(60)) return Time::Infinite();
    return schedule_.now() + random_.Between(absl::Microseconds(1), absl::Milliseconds(20));
  }
  StreamId StreamOf(StepId step, int from, int to, int at, std::string name) {
    const auto life = [&](int of) { return of == at ? members_[of].life : members_[at].knows[of]; };
    return {step, from, life(from), to, life(to), std::move(name)};
  }

  void Send(int index, int to, StepId step, const std::string& name) {
    const uint64_t number = ++last_number_;
    const uint64_t small = scenario_.options.inline_bytes_max;
    const uint64_t bytes =
        random_.Percent(60) ? random_.Between(0, small) : random_.Between(small + 1, 4 * small);
    StreamId stream = StreamOf(step, index, to, index, name);
    values_[number] = {.stream = stream};
    rendezvous::Post post = {
        step,
        MemberIndex(to),
        name,
        {.bytes = bytes, .memory = std::make_shared<NumberMemory>(number, bytes)}};
    const int64_t how = random_.Between(0, 2);
    const OpId op = how == 0 ? OpId() : OpId(++last_op_);
    if (how > 0) {
      ops_[op] = {.kind = how == 1 ? SimOp::Kind::kTold : SimOp::Kind::kRoom,
                  .member = index,
                  .stream = stream,
                  .number = number};
    }
    Act(index,
        absl::StrCat("sends ", number, " of ", bytes, " to ", to, " ", name, " in ", step.value(),
                     " op ", op.value()),
        [&](RendezvousMachine& machine, Effects& out) {
          const Time now = schedule_.now();
          if (how == 2) return machine.SendWhenRoom(now, std::move(post), op, SomeDeadline(), out);
          ErrorPtr error = how == 0 ? machine.Send(now, std::move(post), out)
                                    : machine.Send(now, std::move(post), op, SomeDeadline(), out);
          if (!error) {
            Accepted(number);
          } else if (how == 1) {
            out.Fail(op, std::move(error));
          }
        });
  }

  void Receive(int index, int from, StepId step, const std::string& name, bool last) {
    const OpId op(++last_op_);
    ops_[op] = {.member = index, .stream = StreamOf(step, from, index, index, name), .last = last};
    Ask ask = {.op = op, .step = step, .from = MemberIndex(from), .name = name};
    if (!last) ask.deadline = SomeDeadline();
    if (!last && random_.Percent(2)) ask.into_bytes = 1;
    Act(index,
        absl::StrCat("receives ", op.value(), " from ", from, " ", name, " in ", step.value()),
        [&](RendezvousMachine& machine, Effects& out) {
          machine.Receive(schedule_.now(), std::move(ask), out);
        });
  }

  // --- The end ---

  bool Usable(int index, StepId step) const {
    const SimMember& member = members_[index];
    return member.alive() && member.open.contains(step) && !member.over.contains(step);
  }

  // Nothing goes wrong any more: what was sent is received by whoever asks. That makes room for
  // more, so that it takes several rounds.
  void Drain() {
    bool more = true;
    while (more && Healthy()) {
      RunUntil(schedule_.now() + kDrainsWithin);
      CheckWaits();
      CheckWants();
      std::vector<std::pair<StreamId, int64_t>> left;
      for (const auto& [id, stream] : streams_) {
        if (Undisturbed(id, stream)) left.emplace_back(id, Left(stream));
      }
      more = false;
      for (const auto& [id, count] : left) {
        for (int64_t i = 0; i < count; ++i) Receive(id.to, id.from, id.step, id.name, true);
        more |= count > 0;
      }
    }
    for (auto& [id, stream] : streams_) CheckOrder(id, stream);
  }
  // Both ends live and use the step, and no limit took anything.
  bool Undisturbed(const StreamId& id, const Stream& stream) const {
    return members_[id.from].life == id.from_life && members_[id.to].life == id.to_life &&
           Usable(id.from, id.step) && Usable(id.to, id.step) && !scenario_.forgets &&
           !stream.mismatched;
  }
  int64_t Left(const Stream& stream) const {
    return std::count_if(stream.accepted.begin(), stream.accepted.end(),
                         [&](uint64_t number) { return !values_.at(number).received; });
  }
  void CheckWaits() {
    for (const auto& [op, sim] : ops_) {
      if (sim.done || sim.kind != SimOp::Kind::kReceive) continue;
      const StreamId& id = sim.stream;
      const auto stream = streams_.find(id);
      if (stream == streams_.end() || !Undisturbed(id, stream->second)) continue;
      if (sim.last || Left(stream->second) > 0) {
        return Break(absl::StrCat("lost: operation ", op.value(), " at ", id.to, " in step ",
                                  id.step.value(), " waits for what ", id.from, " sent under ",
                                  id.name));
      }
    }
  }

  // Nothing is on its way, and who waits has said so: each member knows how many receives of the
  // others wait for its values, no more and no less.
  void CheckWants() {
    std::vector<View> views;
    for (const SimMember& member : members_) {
      views.push_back(member.machine->GetView(schedule_.now(), kEventsMax));
    }
    for (int from = 0; from < scenario_.members; ++from) {
      for (int to = 0; to < scenario_.members; ++to) {
        if (from == to || !Knows(from, to) || !Knows(to, from)) continue;
        const Tally waiting = TallyOf(views[to].waiting, from);
        const Tally wanted = TallyOf(views[from].wanted, to);
        if (waiting != wanted) {
          Break(absl::StrCat("wants: of ", to, " wait at ", from, ":", InWords(wanted),
                             ", and its receives are:", InWords(waiting)));
        }
      }
    }
  }
  bool Knows(int at, int other) const {
    const SimMember& member = members_[at];
    return !member.lost.contains(other) && member.knows.at(other) == members_[other].life;
  }
  using Tally = std::map<std::pair<StepId, std::string>, size_t>;
  static Tally TallyOf(const std::vector<KeyRow>& rows, int peer) {
    Tally tally;
    for (const KeyRow& row : rows) {
      if (row.peer == MemberIndex(peer)) tally[{row.step, row.name}] = row.count;
    }
    return tally;
  }
  static std::string InWords(const Tally& tally) {
    std::string text;
    for (const auto& [key, count] : tally) {
      absl::StrAppend(&text, " ", count, " of ", key.second, " in step ", key.first.value());
    }
    return tally.empty() ? " none" : text;
  }

  void CheckOrder(const StreamId& id, Stream& stream) {
    if (stream.disturbed) return;
    std::sort(stream.received.begin(), stream.received.end());
    for (size_t i = 1; i < stream.received.size(); ++i) {
      if (stream.received[i].second < stream.received[i - 1].second) {
        Break(absl::StrCat("order: values of ", id.from, " under ", id.name, " in step ",
                           id.step.value(), ": operation ", stream.received[i].first.value()));
      }
    }
  }

  void CloseEverything() {
    for (int i = 0; i < scenario_.members; ++i) {
      while (!members_[i].open.empty()) CloseStep(i, *members_[i].open.begin());
    }
    RunUntil(schedule_.now() + kDrainsWithin);
    RunUntil(schedule_.now() + 2 * absl::Minutes(11));
    for (const auto& [op, sim] : ops_) {
      if (!sim.done) Break(absl::StrCat("once: operation ", op.value(), " never ends"));
    }
    for (int i = 0; i < scenario_.members; ++i) {
      const RendezvousMachine& machine = *members_[i].machine;
      const View view = machine.GetView(schedule_.now(), 10);
      size_t left = machine.ops() + machine.steps() + machine.held_values() + machine.held_bytes() +
                    view.waits;
      for (const PeerRow& peer : view.peers) left += peer.held + peer.lent + peer.wants;
      if (left > 0) {
        Break(absl::StrCat("left: at ", i, " ops ", machine.ops(), " steps ", machine.steps(),
                           " values ", machine.held_values(), " bytes ", machine.held_bytes(),
                           " waits ", view.waits, " of ", left));
      }
    }
  }

  RendezvousResult Result() {
    result_.hash = hash_;
    if (Healthy()) return result_;
    result_.report = absl::StrCat("the last ", tail_.size(), " events:\n");
    for (const std::string& line : tail_) absl::StrAppend(&result_.report, line, "\n");
    absl::StrAppend(&result_.report, "rendezvous seed ", result_.seed, " (", Describe(scenario_),
                    ")\nfailed at event ", result_.events, ": ", result_.failure,
                    "\nreplay: build/bin/lockstep_sim --rendezvous --seed=", result_.seed,
                    " --verbose\n");
    return result_;
  }

  const RendezvousScenario scenario_;
  const bool verbose_;
  Random random_;
  Schedule schedule_;
  std::vector<SimMember> members_;
  std::map<std::pair<int, int>, std::deque<InFlight>> network_;
  std::map<OpId, SimOp> ops_;
  std::map<uint64_t, SentValue> values_;
  std::map<StreamId, Stream> streams_;
  std::map<OpId, Look> looks_;
  std::map<std::tuple<int, int, LeaseId>, uint64_t> away_;
  std::map<OpId, uint64_t> fetched_;
  std::deque<std::string> tail_;
  RendezvousResult result_;
  uint64_t hash_ = 0xcbf29ce484222325;
  uint64_t last_op_ = 0;
  uint64_t last_number_ = 0;
  bool calm_ = false;
};

}  // namespace

RendezvousResult RunRendezvousSeed(uint64_t seed, bool verbose) {
  return RendezvousSimulation(seed, verbose).Run();
}

}  // namespace lockstep::sim
