// The consumers of the data service's simulation, and the rules.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/sim/data_world.h"

namespace lockstep::sim {

using dispatch::IterationOpened;
using dispatch::LaneAck;
using dispatch::Mode;
using dispatch::Visitation;

// --- Programs ---

std::vector<LaneAck> DataWorld::Have(const Program& program) const {
  std::map<std::pair<dispatch::LaneId, int64_t>, int64_t> upto;
  for (const Entry& entry : program.kept) {
    int64_t& elements = upto[{entry.place.lane, entry.place.seq}];
    elements = std::max(elements, entry.place.element + 1);
  }
  std::vector<LaneAck> have;
  for (const auto& [grant, elements] : upto) {
    have.push_back({.lane = grant.first, .seq = grant.second, .elements = elements});
  }
  return have;
}

// What it kept last is gone with it: it goes on from an older cursor.
void DataWorld::ForgetSome(Program& program) {
  if (!scenario_.older_cursors || !IsStrict() || scenario_.mode == Mode::kFirstCome) return;
  if (!program.wanted || program.kept.empty() || !chance_.Percent(40)) return;
  const auto kept = static_cast<int64_t>(program.kept.size());
  // Who was told the end and comes back without a cursor, is told it again.
  const int64_t least = program.ended ? 1 : 0;
  program.kept.resize(static_cast<size_t>(chance_.Between(std::min(least, kept), kept)));
}

// All is over, and one comes back from an older cursor.
bool DataWorld::ReadsTheEndAgain() {
  const bool may = scenario_.older_cursors && IsStrict() && scenario_.mode != Mode::kFirstCome;
  if (!may || std::exchange(read_again_, true)) return false;
  Program& program = *programs_[chance_.Index(programs_.size())];
  if (program.kept.size() < 2) return false;
  const auto most = static_cast<int64_t>(program.kept.size()) - 1;
  program.wanted = false;
  KillProgram(program);
  program.wanted = true;
  program.kept.resize(static_cast<size_t>(chance_.Between(1, most)));
  StartProgram(program);
  return true;
}

// Whoever sees that the process has ended, may say so when its successor is there already.
void DataWorld::TellEnd(const Program& program) {
  if (!scenario_.sees_ends || program.link.consumer == dispatch::ConsumerId()) return;
  dispatch::ConsumerEnded fact{.iteration = program.link.iteration,
                               .consumer = program.link.consumer,
                               .life = dispatch::ConsumerLife(program.life)};
  const int64_t late_ms = chance_.Percent(50) ? 60 : 2500;
  After(absl::Milliseconds(chance_.Between(0, late_ms)), [this, fact]() mutable {
    if (dispatcher_ == nullptr) return;
    if (scenario_.mutant == DataMutant::kRobsTheLiving) {
      const auto process = dispatcher_->ProcessOf(fact.iteration, fact.consumer);
      if (process) fact.life = process->life;
    }
    Feed(fact);
  });
}

void DataWorld::StartProgram(Program& program) {
  // It had begun, and comes back with nothing: its turns up to its new seat are lost.
  if (!IsStrict() && program.life > 0 && program.kept.empty()) {
    program.evicted = true;
  }
  program.life = ++last_id_;
  program.waits = false;
  program.held = 0;
  // Who comes back asks until it is told the end once more.
  program.done = false;
  program.reads.clear();
  dispatch::ConsumerOptions options{
      .spec = spec_,
      .consumer = program.name,
      .life = dispatch::ConsumerLife(program.life),
      .index = scenario_.mode == Mode::kFirstCome ? -1 : program.index,
      .definition = "d",
      .acknowledge_by_itself = scenario_.acknowledges_by_itself,
      .unacknowledged_max = scenario_.unacknowledged_max};
  if (resumed_)
    options.spec.cursor =
        elastic_cursors_[static_cast<size_t>(program.index) % elastic_cursors_.size()];
  if (scenario_.mode == Mode::kFirstCome) {
    options.have = Have(program);
  } else if (!program.kept.empty() && !program.fresh) {
    options.rejoin = program.kept.back().cursor;
  }
  Random small(program.life);
  options.read_bytes_max = static_cast<uint64_t>(small.Between(10, 400));
  options.one_read_bytes_max = static_cast<uint64_t>(small.Between(10, 100));
  options.read_elements_max = small.Between(1, 8);
  options.reads_max = static_cast<int32_t>(small.Between(1, 4));
  options.poll_wait = absl::Milliseconds(small.Between(20, 300));
  options.report_every = absl::Milliseconds(small.Between(1, 100));
  program.machine = std::make_unique<dispatch::ConsumerMachine>(std::move(options));
  Say(absl::StrCat(program.name, " starts as ", program.life,
                   program.fresh ? ", without its cursor" : ""));
  dispatch::ConsumerEffects effects;
  program.machine->Open(now_, effects);
  Carry(program, std::move(effects));
  AskNext(program);
}

void DataWorld::KillProgram(Program& program) {
  if (program.machine == nullptr) return;
  Say(absl::StrCat(program.name, " dies"));
  ++result_.kills;
  program.machine.reset();
  TellEnd(program);
  ForgetSome(program);
  program.life = ++last_id_;
  program.waits = false;
  Cut(program.link, true);
}

void DataWorld::AskNext(Program& program) {
  if (program.machine == nullptr || program.waits || program.done) return;
  program.waits = true;
  program.asked_at = now_;
  dispatch::ConsumerEffects effects;
  program.machine->Next(now_, dispatch::AskId(++program.last_ask), effects);
  Carry(program, std::move(effects));
}

void DataWorld::CarryRequest(Program& program, const dispatch::SendToDispatcher& request) {
  Program* const at = &program;
  const uint64_t life = program.life;
  const dispatch::RequestId id = request.request;
  const auto taker = [this, at, life, id](const dispatch::ErrorPtr& error, bool unavailable,
                                          dispatch::Answer answer) {
    if (at->life != life || at->machine == nullptr) return;
    if (const auto* opened = std::get_if<IterationOpened>(&answer); opened != nullptr) {
      at->link.iteration = opened->iteration;
      at->link.consumer = opened->consumer;
      ForgetVoid(*at, *opened);
    }
    dispatch::ConsumerEffects effects;
    at->machine->Handle(
        now_,
        dispatch::DispatcherAnswered{
            .request = id, .error = error, .unavailable = unavailable, .answer = std::move(answer)},
        effects);
    Carry(*at, std::move(effects));
  };
  std::visit(
      [&](auto what) {
        if constexpr (requires { what.blocked_round; }) {
          if (scenario_.mutant == DataMutant::kBlocksLate && what.round >= 0) {
            // Says that it has not begun what it has.
            what.blocked_round = what.round;
            --what.round;
          }
          if (scenario_.mutant == DataMutant::kAcknowledgesAhead) {
            for (LaneAck& ack : what.acks) ack.elements += 3;
          }
          if (scenario_.mutant == DataMutant::kNeverSaysUnreachable) what.unreachable.clear();
        }
        Call(program.link, std::move(what), taker);
      },
      request.what);
}

// The program's own clock.
void DataWorld::Wake(Program& program) {
  if (program.machine == nullptr) return;
  const Time next = program.machine->NextDeadline();
  if (next.is_infinite() || (program.wake <= next && program.wake > now_)) return;
  program.wake = std::max(next, now_ + absl::Microseconds(1));
  Program* const at = &program;
  const uint64_t life = program.life;
  At(program.wake, [this, at, life] {
    if (at->life != life || at->machine == nullptr) return;
    at->wake = Time::Infinite();
    dispatch::ConsumerEffects effects;
    at->machine->ReachDeadline(now_, effects);
    Carry(*at, std::move(effects));
  });
}

void DataWorld::Carry(Program& program, dispatch::ConsumerEffects effects) {
  ++result_.events;
  for (const dispatch::SendToDispatcher& request : effects.requests) {
    CarryRequest(program, request);
  }
  for (const dispatch::SendRead& read : effects.reads) Serve(program, program.life, read);
  const uint64_t life = program.life;
  for (const dispatch::HandOut& hand : effects.handed_out) {
    if (program.life != life) return;
    Take(program, hand);
  }
  if (program.life == life) Wake(program);
}

void DataWorld::AcknowledgeAll(Program& program) {
  if (program.machine == nullptr || program.held == 0) return;
  program.held = 0;
  dispatch::ConsumerEffects effects;
  program.machine->Acknowledge(now_, program.kept.back().place, effects);
  Carry(program, std::move(effects));
}

// Whether the program is to acknowledge what it holds, and does so after a while.
bool DataWorld::AcknowledgesFirst(Program& program, const dispatch::ErrorPtr& error) {
  if (error->reason != dispatch::reason::kAckNeeded) return false;
  ++result_.acks_demanded;
  if (program.held == 0) Fail(program.name + " is to acknowledge what it does not hold");
  Program* const at = &program;
  After(absl::Microseconds(random_.Between(0, scenario_.step_us)), [this, at, life = program.life] {
    if (at->life != life) return;
    AcknowledgeAll(*at);
    if (at->life == life) AskNext(*at);
  });
  return true;
}

void DataWorld::TakeError(Program& program, const dispatch::ErrorPtr& error) {
  Program* const at = &program;
  const uint64_t life = program.life;
  const std::string& reason = error->reason;
  Say(absl::StrCat(program.name, ": ", reason, ": ", error->message));
  if (AcknowledgesFirst(program, error)) return;
  if (error->message.find("its process has ended") != std::string::npos ||
      error->message.find("its place waits for another process") != std::string::npos) {
    return Fail(program.name + " lives, and is taken for one that has ended");
  }
  const bool expected = reason == dispatch::reason::kUnknownConsumer ||
                        reason == dispatch::reason::kConsumerLeaseEnded ||
                        reason == dispatch::reason::kConsumerReplaced ||
                        reason == dispatch::reason::kConsumerIndexTaken ||
                        reason == dispatch::reason::kCancelled;
  if (reason == dispatch::reason::kCursorMismatch && program.ended) {
    return Fail(absl::StrCat(program.name, " was at the end, and is refused: ", error->message));
  }
  if (reason == dispatch::reason::kCursorMismatch && !IsStrict()) {
    program.fresh = true;
    program.evicted = true;
  } else if (!expected) {
    return Fail(absl::StrCat(program.name, " fails with ", reason, ": ", error->message));
  }
  After(absl::Milliseconds(random_.Between(1, 30)), [this, at, life] {
    if (at->life != life || at->done) return;
    KillProgram(*at);
    if (at->wanted) StartProgram(*at);
  });
}

void DataWorld::Take(Program& program, const dispatch::HandOut& hand) {
  Program* const at = &program;
  const uint64_t life = program.life;
  program.waits = false;
  if (hand.error != nullptr) return TakeError(program, hand.error);
  if (hand.end) {
    Say(absl::StrCat(program.name, " has all"));
    program.done = true;
    program.ended = true;
    // Told so while it holds what it has not acknowledged.
    After(absl::Microseconds(random_.Between(0, scenario_.step_us)), [this, at, life] {
      if (at->life == life) AcknowledgeAll(*at);
    });
    return;
  }
  const int64_t element = *static_cast<const int64_t*>(hand.element.payload.get());
  Note(static_cast<uint64_t>(element));
  ++result_.elements;
  result_.rounds = std::max(result_.rounds, hand.place.round);
  result_.longest_stall_us =
      std::max(result_.longest_stall_us, absl::ToInt64Microseconds(now_ - program.asked_at));
  if (element != hand.place.segment * 1000 + hand.place.element) {
    return Fail(absl::StrCat("element ", element, " is handed out as segment ", hand.place.segment,
                             ", element ", hand.place.element));
  }
  Entry entry{.element = element, .place = hand.place};
  if (scenario_.mode != Mode::kFirstCome) {
    dispatch::ErrorPtr why;
    const std::optional<std::string> cursor = program.machine->Cursor(why);
    if (!cursor) return Fail("there is no cursor: " + why->message);
    entry.cursor = *cursor;
  }
  program.kept.push_back(std::move(entry));
  program.fresh = false;
  if (!scenario_.acknowledges_by_itself && scenario_.mode == Mode::kFirstCome) ++program.held;
  After(absl::Microseconds(random_.Between(0, scenario_.step_us)), [this, at, life] {
    if (at->life != life || at->machine == nullptr) return;
    if (at->held >= scenario_.acks_each) AcknowledgeAll(*at);
    if (at->life == life) AskNext(*at);
  });
}

// What was given to others is void here.
void DataWorld::ForgetVoid(Program& program, const IterationOpened& opened) {
  if (!opened.lease_had_ended || scenario_.visitation != Visitation::kExactlyOnce) return;
  std::map<dispatch::LaneId, std::map<int64_t, int64_t>> counted;
  for (const LaneAck& ack : opened.counted) counted[ack.lane][ack.seq] = ack.elements;
  const auto is_void = [&](const Entry& entry) {
    const auto lane = counted.find(entry.place.lane);
    if (lane == counted.end()) return false;
    if (entry.place.seq > lane->second.rbegin()->first) return true;
    const auto grant = lane->second.find(entry.place.seq);
    return grant != lane->second.end() && entry.place.element >= grant->second;
  };
  program.kept.erase(std::remove_if(program.kept.begin(), program.kept.end(), is_void),
                     program.kept.end());
}

// All are stopped where each has taken as many elements, and others go on from there.
bool DataWorld::GoElastic() {
  if (dataset_ == dispatch::DatasetId() || result_.leases_ended > 0) return false;
  size_t steps = programs_.front()->kept.size();
  for (const auto& program : programs_) steps = std::min(steps, program->kept.size());
  if (steps == 0) return false;
  const dispatch::ElementPlace& first = programs_.front()->kept[steps - 1].place;
  for (const auto& program : programs_) {
    const dispatch::ElementPlace& place = program->kept[steps - 1].place;
    if (program->evicted) return false;
    if (scenario_.mode == Mode::kRounds &&
        (place.round != first.round || place.task != first.task)) {
      Fail("after as many elements the consumers are not in the same round");
      return false;
    }
  }
  Say(absl::StrCat("all go on elsewhere from step ", steps));
  cut_at_ = static_cast<int64_t>(steps);
  past_width_ = static_cast<int>(programs_.size());
  for (auto& program : programs_) {
    program->wanted = false;
    KillProgram(*program);
    program->kept.resize(steps);
    elastic_cursors_.push_back(program->kept.back().cursor);
    Say("at " + elastic_cursors_.back());
  }
  past_ = std::move(programs_);
  programs_.clear();
  spec_.repetition = 1;
  spec_.consumers = static_cast<int32_t>(chance_.Between(1, 5));
  resumed_ = true;
  ++result_.resumed;
  for (int i = 0; i < spec_.consumers; ++i) {
    programs_.push_back(std::make_unique<Program>());
    programs_.back()->name = absl::StrCat("trainer/", i);
    programs_.back()->index = i;
    StartProgram(*programs_.back());
  }
  workers_.push_back(std::make_unique<SimWorker>());
  workers_.back()->number = static_cast<int>(workers_.size()) - 1;
  StartWorker(*workers_.back(), false);
  return true;
}

// --- The rules ---

bool DataWorld::AllDone() const {
  return std::all_of(programs_.begin(), programs_.end(),
                     [](const auto& program) { return program->done; });
}

void DataWorld::CheckProgress() {
  if (AllDone()) return;
  std::string waiting;
  for (const auto& program : programs_) {
    if (program->done) continue;
    absl::StrAppend(&waiting, " ", program->name, " (", program->kept.size(), " elements",
                    program->machine == nullptr
                        ? std::string(", dead")
                        : absl::StrCat(", ", program->machine->GetView().state, ", waits for ",
                                       program->machine->GetView().waits_for, ", round ",
                                       program->machine->GetView().round, ", ",
                                       program->machine->GetView().buffered_bytes, " bytes, ",
                                       program->machine->GetView().reads_in_flight, " reads"),
                    ")");
  }
  Fail(absl::StrCat("the iteration does not end although nothing goes wrong any more:", waiting));
}

void DataWorld::CheckVisits() {
  if (scenario_.mode == Mode::kExact) {
    std::vector<int64_t> order;
    const auto weave = [&](const std::vector<std::unique_ptr<Program>>& programs) {
      for (size_t step = 0; !programs.empty(); ++step) {
        for (const auto& program : programs) {
          if (step >= program->kept.size()) return;
          order.push_back(program->kept[step].element);
        }
      }
    };
    weave(past_);
    weave(programs_);
    if (order != shape_.All()) {
      const std::vector<int64_t> all = shape_.All();
      size_t at = 0;
      while (at < order.size() && at < all.size() && order[at] == all[at]) ++at;
      Fail(absl::StrCat("the order is not that of a local run: ", order.size(), " of ", all.size(),
                        " elements, and element ", at, " is ", at < order.size() ? order[at] : -1));
    }
    return;
  }
  std::map<int64_t, int64_t> times;
  for (const auto* programs : {&past_, &programs_}) {
    for (const auto& program : *programs) {
      for (const Entry& entry : program->kept) ++times[entry.element];
    }
  }
  const int64_t passes = scenario_.sharding == dispatch::Sharding::kOff ? tasks_added_ : 1;
  int64_t missing = 0;
  for (const int64_t element : shape_.All()) {
    const int64_t seen = times[element];
    if (seen < passes) ++missing;
    const bool too_often = seen > passes;
    if (scenario_.mode == Mode::kRounds) {
      if (too_often) return Fail(absl::StrCat("element ", element, " is doubled"));
      continue;
    }
    if (scenario_.visitation != Visitation::kAtLeastOnce && too_often) {
      return Fail(absl::StrCat("element ", element, " is seen ", seen, " times, not ", passes));
    }
    if (scenario_.visitation != Visitation::kAtMostOnce && seen < passes) {
      return Fail(
          absl::StrCat("element ", element, " is lost: seen ", seen, " times, not ", passes));
    }
  }
  if (scenario_.mode != Mode::kRounds || (!IsStrict() && result_.leases_ended > 0)) return;
  int64_t widest = std::max<int64_t>(past_width_, static_cast<int64_t>(programs_.size()));
  for (const auto& program : programs_) {
    if (program->evicted) return;
  }
  if (missing > tasks_added_ * (widest - 1)) {
    Fail(absl::StrCat(missing, " elements are missing, more than the last turns of ", tasks_added_,
                      " tasks can leave"));
  }
}

void DataWorld::CheckRounds() {
  if (scenario_.mode != Mode::kRounds) return;
  for (const auto* programs : {&past_, &programs_}) {
    std::map<int64_t, std::vector<dispatch::TaskId>> longest;
    std::map<dispatch::LaneId, std::map<std::pair<int64_t, int64_t>, int64_t>> lanes;
    for (const auto& program : *programs) {
      std::map<int64_t, std::vector<dispatch::TaskId>> turns;
      for (const Entry& entry : program->kept) {
        turns[entry.place.round].push_back(entry.place.task);
        lanes[entry.place.lane][{entry.place.seq, entry.place.element}] = entry.place.round;
      }
      for (const auto& [round, tasks] : turns) {
        std::vector<dispatch::TaskId>& other = longest[round];
        const size_t common = std::min(other.size(), tasks.size());
        if (!std::equal(tasks.begin(), tasks.begin() + static_cast<std::ptrdiff_t>(common),
                        other.begin())) {
          return Fail(absl::StrCat("in round ", round, " ", program->name,
                                   " takes other turns than another consumer"));
        }
        if (tasks.size() > other.size()) other = tasks;
      }
    }
    for (const auto& [lane, elements] : lanes) {
      int64_t before = 0;
      for (const auto& [place, round] : elements) {
        if (round < before) {
          return Fail(absl::StrCat("in lane ", lane.value(), " an element of round ", round,
                                   " stands behind one of round ", before));
        }
        before = round;
      }
    }
  }
}

void DataWorld::CheckEmpty() {
  if (dispatcher_ == nullptr) return;
  const dispatch::View view = dispatcher_->GetView(now_);
  if (!view.iterations.empty() || !view.datasets.empty()) {
    return Fail(absl::StrCat("after all was collected there are ", view.iterations.size(),
                             " iterations and ", view.datasets.size(), " datasets"));
  }
  if (dispatcher_->Snapshot().size() != 1) return Fail("after all was collected a record is kept");
  if (view.parked > workers_.size()) return Fail("calls are parked that nobody made");
}

}  // namespace lockstep::sim
