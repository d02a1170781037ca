#include "lockstep/sim/data_sim.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "lockstep/sim/data_world.h"

namespace lockstep::sim {

using dispatch::IterationOpened;
using dispatch::Mode;

DataWorld::DataWorld(const DataScenario& scenario, bool verbose)
    : scenario_(scenario),
      verbose_(verbose),
      random_(scenario.seed * 7919 + 11),
      chance_(scenario.seed * 104729 + 13),
      shape_(scenario) {
  result_.seed = scenario.seed;
}

// --- The clock ---

void DataWorld::At(Time when, std::function<void()> what) {
  queue_[{std::max(when, now_), ++order_}] = std::move(what);
}

absl::Duration DataWorld::Delay() {
  return absl::Microseconds(random_.Between(1, scenario_.delay_max_us));
}

void DataWorld::Note(uint64_t what) {
  result_.hash = (result_.hash ^ what ^ static_cast<uint64_t>(now_.nanoseconds())) * 0x100000001b3;
}

void DataWorld::Fail(std::string why) {
  if (result_.failure.empty()) result_.failure = std::move(why);
  Say(result_.failure);
}

void DataWorld::Say(const std::string& text) {
  if (verbose_) {
    std::fprintf(stderr, "%10.3f ms  %s\n", static_cast<double>(now_.nanoseconds()) / 1e6,
                 text.c_str());
  }
}

// --- The dispatcher ---

void DataWorld::StartDispatcher() {
  dispatch::Options options = scenario_.options;
  options.service = ++last_id_;
  service_ = options.service;
  const DataScenario scenario = scenario_;
  options.make_shape = [scenario](const std::string&, const std::string&) {
    return dispatch::ShapeOrError{.shape = std::make_shared<ToyShape>(scenario)};
  };
  dispatcher_ = std::make_unique<dispatch::Dispatcher>(options);
  for (const dispatch::TimedRecord& record : journal_) {
    if (!dispatcher_->Apply(record.at, record.record).ok()) {
      return Fail("a record of the journal cannot be applied");
    }
  }
  if (random_.Percent(50)) {
    // Compacted: a snapshot stands for what was recorded.
    const std::vector<dispatch::TimedRecord> snapshot = dispatcher_->Snapshot();
    auto second = std::make_unique<dispatch::Dispatcher>(options);
    for (const dispatch::TimedRecord& record : snapshot) {
      if (!second->Apply(record.at, record.record).ok()) {
        return Fail("a record of a snapshot cannot be applied");
      }
    }
    const std::vector<dispatch::TimedRecord> again = second->Snapshot();
    if (!std::equal(again.begin(), again.end(), snapshot.begin(), snapshot.end(),
                    [](const auto& x, const auto& y) { return x.record == y.record; })) {
      return Fail("the snapshot of what was restored from a snapshot is another one");
    }
    journal_ = snapshot;
    dispatcher_ = std::move(second);
  }
  undurable_ = 0;
  Say("the dispatcher starts");
  Feed(dispatch::Restored{});
}

void DataWorld::KillDispatcher() {
  if (dispatcher_ == nullptr) return;
  Say("the dispatcher dies");
  ++result_.kills;
  if (undurable_ == 0) CompareRestored();
  dispatcher_.reset();
  service_ = 0;
  alarm_ = Time::Infinite();
  calls_.clear();
  for (auto& worker : workers_) Cut(worker->link, false);
  for (auto& program : programs_) Cut(program->link, false);
  After(absl::Milliseconds(chance_.Between(1, 400)), [this] { StartDispatcher(); });
}

// What the journal gives is what there was.
void DataWorld::CompareRestored() {
  dispatch::Options options = scenario_.options;
  const DataScenario scenario = scenario_;
  options.make_shape = [scenario](const std::string&, const std::string&) {
    return dispatch::ShapeOrError{.shape = std::make_shared<ToyShape>(scenario)};
  };
  dispatch::Dispatcher other(options);
  for (const dispatch::TimedRecord& record : journal_) {
    if (!other.Apply(record.at, record.record).ok()) {
      return Fail("a record of the journal cannot be applied");
    }
  }
  const auto a = dispatcher_->Snapshot(), b = other.Snapshot();
  if (a.size() != b.size()) {
    return Fail(absl::StrCat("the journal gives another state: ", b.size(), " records instead of ",
                             a.size()));
  }
  for (size_t i = 0; i < a.size(); ++i) {
    // Ids of what is not recorded are counted, too.
    if (std::holds_alternative<dispatch::record::CountersKept>(a[i].record)) continue;
    if (a[i].record != b[i].record) {
      return Fail(absl::StrCat("the journal gives another state: record ", i, " of kind ",
                               a[i].record.index()));
    }
  }
}

void DataWorld::Feed(dispatch::Event event) {
  if (dispatcher_ == nullptr) return;
  dispatch::Effects effects;
  dispatcher_->Handle(now_, std::move(event), effects);
  ++result_.events;
  for (const dispatch::LogEntry& entry : effects.log) Say("dispatcher: " + entry.text);
  Persist(std::move(effects));
  SetAlarm();
}

void DataWorld::SetAlarm() {
  if (dispatcher_ == nullptr) return;
  const Time next = dispatcher_->NextDeadline();
  if (next.is_infinite() || (alarm_ <= next && alarm_ > now_)) return;
  alarm_ = std::max(next, now_);
  const uint64_t service = service_;
  At(alarm_, [this, service] {
    if (service != service_) return;
    alarm_ = Time::Infinite();
    Feed(dispatch::DeadlineReached{});
  });
}

void DataWorld::Watch(const dispatch::Record& record) {
  if (std::holds_alternative<dispatch::record::TaskAdded>(record)) ++tasks_added_;
  if (std::holds_alternative<dispatch::record::TaskStarted>(record) ||
      std::holds_alternative<dispatch::record::SeatingAgreed>(record)) {
    ++result_.agreements;
  }
  if (const auto* gone = std::get_if<dispatch::record::ConsumerGone>(&record);
      gone != nullptr && gone->lease_ended) {
    ++result_.leases_ended;
  }
  if (std::holds_alternative<dispatch::record::ConsumerAway>(record)) ++result_.away;
  if (std::holds_alternative<dispatch::record::IterationReopened>(record)) ++result_.reopened;
  if (std::holds_alternative<dispatch::record::HistoryReturned>(record)) ++result_.rewound;
}

// Records become durable in their order; only then is anything said that depends on them.
void DataWorld::Persist(dispatch::Effects effects) {
  const uint64_t service = service_;
  const auto shared = std::make_shared<dispatch::Effects>(std::move(effects));
  const auto speak = [this, shared] {
    for (dispatch::Reply& reply : shared->replies) {
      const auto found = calls_.find(reply.call.value());
      if (found == calls_.end()) {
        Fail(absl::StrCat("call ", reply.call.value(), " is answered that is not open"));
        continue;
      }
      const auto [link, life] = found->second;
      calls_.erase(found);
      const auto answer = std::make_shared<dispatch::Reply>(std::move(reply));
      After(Delay(), [this, link = link, life = life, answer] {
        if (link->life != life) return;
        const auto waiting = link->waiting.find(answer->call.value());
        if (waiting == link->waiting.end()) return;
        const AnswerTaker taker = std::move(waiting->second);
        link->waiting.erase(waiting);
        Note(answer->call.value());
        taker(answer->error, false, std::move(answer->answer));
      });
    }
  };
  if (scenario_.mutant == DataMutant::kSpeaksBeforeItPersists) speak();
  ++undurable_;
  // In their order.
  durable_at_ = std::max(durable_at_, now_ + absl::Microseconds(random_.Between(0, 2000)));
  if (shared->records.empty() && undurable_ == 1) durable_at_ = now_;
  const auto keep = [this, service, shared, speak] {
    if (service != service_) return;
    --undurable_;
    for (dispatch::Record& record : shared->records) {
      Watch(record);
      if (scenario_.mutant == DataMutant::kForgetsWhoIsGone &&
          std::holds_alternative<dispatch::record::ConsumerGone>(record)) {
        continue;
      }
      if (scenario_.mutant == DataMutant::kForgetsThePast &&
          std::holds_alternative<dispatch::record::HistoryReturned>(record)) {
        continue;
      }
      journal_.push_back({.at = now_, .record = std::move(record)});
    }
    if (scenario_.mutant != DataMutant::kSpeaksBeforeItPersists) speak();
  };
  if (durable_at_ == now_ && shared->records.empty() && undurable_ == 1) return keep();
  At(durable_at_, keep);
}

void DataWorld::Call(Link& link, dispatch::Event event, AnswerTaker taker) {
  const uint64_t call = ++last_call_;
  const uint64_t life = link.life;
  link.waiting[call] = std::move(taker);
  std::visit(
      [&](auto& request) {
        if constexpr (requires { request.call; }) request.call = CallId(call);
      },
      event);
  Link* const at = &link;
  if (dispatcher_ == nullptr) {
    After(Delay(), [at, call, life] {
      if (at->life != life) return;
      const auto found = at->waiting.find(call);
      if (found == at->waiting.end()) return;
      const AnswerTaker lost = std::move(found->second);
      at->waiting.erase(found);
      lost(nullptr, true, {});
    });
    return;
  }
  After(Delay(), [this, at, call, life, event = std::move(event)] {
    // What was sent may arrive although its sender is gone.
    if (dispatcher_ == nullptr) return;
    calls_[call] = {at, life};
    Feed(event);
  });
}

// The link is gone: nothing on it is answered any more; what was sent may still arrive.
void DataWorld::Cut(Link& link, bool tell) {
  ++link.life;
  std::map<uint64_t, AnswerTaker> lost;
  lost.swap(link.waiting);
  for (auto& [call, taker] : lost) {
    After(Delay(), [taker = std::move(taker)] { taker(nullptr, true, {}); });
  }
  if (!tell || dispatcher_ == nullptr) return;
  const uint64_t service = service_;
  std::vector<uint64_t> calls;
  for (const auto& [call, whose] : calls_) {
    if (whose.first == &link) calls.push_back(call);
  }
  const dispatch::WorkerId worker = link.worker;
  const dispatch::IterationId iteration = link.iteration;
  const dispatch::ConsumerId consumer = link.consumer;
  After(absl::Milliseconds(chance_.Between(0, 40)), [=, this] {
    if (service != service_) return;
    for (const uint64_t call : calls) {
      if (calls_.count(call) > 0) Feed(dispatch::CallLeft{.call = CallId(call)});
    }
    if (scenario_.mutant == DataMutant::kNeverSaysUnreachable) return;
    if (worker != dispatch::WorkerId()) Feed(dispatch::WorkerLinkEnded{.worker = worker});
    if (consumer != dispatch::ConsumerId()) {
      Feed(dispatch::ConsumerLinkEnded{.iteration = iteration, .consumer = consumer});
    }
  });
}

// --- Workers ---

void DataWorld::StartWorker(SimWorker& worker, bool same_address) {
  worker.alive = true;
  worker.id = dispatch::WorkerId(++last_id_);
  if (worker.address.empty() || !same_address) {
    worker.address = absl::StrCat("host-", worker.number, ":", last_id_);
  }
  worker.link.worker = worker.id;
  worker.service = 0;
  worker.after = 0;
  worker.resolved.clear();
  Say(absl::StrCat("worker ", worker.number, " starts as ", worker.id.value()));
  PollOfWorker(worker);
}

void DataWorld::KillWorker(SimWorker& worker) {
  if (!worker.alive) return;
  Say(absl::StrCat("worker ", worker.number, " dies"));
  ++result_.kills;
  worker.alive = false;
  Cut(worker.link, true);
}

DataWorld::SimWorker* DataWorld::FindWorker(dispatch::WorkerId id) {
  for (auto& worker : workers_) {
    if (worker->alive && worker->id == id) return worker.get();
  }
  return nullptr;
}

void DataWorld::PollOfWorker(SimWorker& worker) {
  if (!worker.alive) return;
  const dispatch::WorkerId id = worker.id;
  SimWorker* const at = &worker;
  dispatch::WorkerPoll poll{.worker = id,
                            .version = 1,
                            .address = worker.address,
                            .service = worker.service,
                            .after = worker.after,
                            .wait = absl::Milliseconds(200),
                            .resolved = worker.resolved};
  Call(worker.link, poll,
       [this, at, id](const dispatch::ErrorPtr& error, bool unavailable, dispatch::Answer answer) {
         if (!at->alive || at->id != id) return;
         absl::Duration pause = absl::Microseconds(1);
         if (unavailable || error != nullptr) {
           pause = absl::Milliseconds(random_.Between(1, 20));
         } else {
           const auto& orders = std::get<dispatch::WorkerOrders>(answer);
           at->service = orders.service;
           at->after = orders.version;
           at->resolved.clear();
           for (const dispatch::DatasetId dataset : orders.resolve) {
             at->resolved.push_back({.dataset = dataset, .manifest = "m", .files = 1});
             pause = absl::Milliseconds(random_.Between(1, 10));
           }
         }
         After(pause, [this, at, id] {
           if (at->alive && at->id == id) PollOfWorker(*at);
         });
       });
}

void DataWorld::Serve(Program& program, uint64_t life, const dispatch::SendRead& read) {
  Program* const at = &program;
  const uint64_t machine = program.life;
  const auto give = [this, at, machine](dispatch::ConsumerEvent event) {
    if (at->life != machine || at->machine == nullptr) return;
    dispatch::ConsumerEffects effects;
    at->machine->Handle(now_, std::move(event), effects);
    Carry(*at, std::move(effects));
  };
  (void)life;
  const int program_number = at->index;
  After(Delay(), [=, this] {
    SimWorker* worker = FindWorker(read.worker.worker);
    if (worker == nullptr || unreachable_.count({program_number, worker->number}) > 0) {
      After(Delay(), [=] {
        give(dispatch::ReadFailed{
            .read = read.read,
            .error = dispatch::MakeError(absl::StatusCode::kUnavailable, "unavailable", "gone"),
            .unreachable = true});
      });
      return;
    }
    if (now_ < calm_from_ && scenario_.fails && random_.Percent(5)) {
      After(Delay(), [=] {
        give(dispatch::ReadFailed{
            .read = read.read,
            .error = dispatch::MakeError(absl::StatusCode::kInternal, "function_died", "oops")});
      });
      return;
    }
    const int64_t count = shape_.Count(read.segment);
    dispatch::ReadAnswered answer{.read = read.read, .known = 0};
    int64_t index = read.from;
    if (scenario_.mutant == DataMutant::kWorkerSkipsAnElement && read.from > 0 &&
        random_.Percent(10)) {
      ++index;
    }
    const int64_t most = read.max_elements > 0 ? random_.Between(1, read.max_elements) : 0;
    while (index < count && static_cast<int64_t>(answer.elements.size()) < most) {
      answer.elements.push_back(
          {.payload = std::make_shared<const int64_t>(read.segment * 1000 + index), .bytes = 10});
      index += read.stride;
    }
    answer.next = index;
    const int64_t last = answer.elements.empty() ? read.from : index - read.stride + 1;
    answer.known = std::min(count, last + read.ahead + random_.Between(0, 2));
    if (read.max_elements == 0) answer.known = 0;
    answer.ended = read.max_elements > 0 && answer.known == count &&
                   (answer.elements.empty() || last + read.ahead > count || random_.Percent(50));
    const dispatch::WorkerId id = worker->id;
    After(Delay() + absl::Microseconds(random_.Between(0, 3000)), [=, this] {
      // A worker that dies before it has answered has not answered.
      if (FindWorker(id) == nullptr) {
        return give(dispatch::ReadFailed{
            .read = read.read,
            .error = dispatch::MakeError(absl::StatusCode::kUnavailable, "unavailable", "gone"),
            .unreachable = true});
      }
      give(answer);
    });
  });
}

// --- The course of a seed ---

void DataWorld::ScheduleFaults() {
  if (now_ >= calm_from_) return;
  After(absl::Milliseconds(chance_.Between(5, 250)), [this] {
    if (now_ >= calm_from_) return;
    OneFault();
    ScheduleFaults();
  });
}

void DataWorld::OneFault() {
  switch (chance_.Between(0, 6)) {
    case 0:
      if (scenario_.kills_workers) {
        SimWorker* worker = workers_[chance_.Index(workers_.size())].get();
        KillWorker(*worker);
        const bool same = chance_.Percent(50);
        After(absl::Milliseconds(chance_.Between(1, 2500)), [this, worker, same] {
          if (!worker->alive) StartWorker(*worker, same);
        });
      }
      break;
    case 1:
      if (scenario_.kills_consumers) {
        Program* program = programs_[chance_.Index(programs_.size())].get();
        if (program->machine != nullptr && program->wanted) {
          KillProgram(*program);
          const uint64_t life = program->life;
          After(absl::Milliseconds(chance_.Between(1, 2500)), [this, program, life] {
            if (program->life == life && program->wanted && program->machine == nullptr) {
              StartProgram(*program);
            }
          });
        }
      }
      break;
    case 2:
      if (scenario_.kills_dispatcher) KillDispatcher();
      break;
    case 3:
      if (scenario_.cuts) {
        Cut(programs_[chance_.Index(programs_.size())]->link, true);
        Cut(workers_[chance_.Index(workers_.size())]->link, true);
      }
      break;
    case 4:
      if (scenario_.cuts && !workers_.empty()) {
        const std::pair<int, int> pair(chance_.Index(programs_.size()),
                                       chance_.Index(workers_.size()));
        unreachable_.insert(pair);
        After(absl::Milliseconds(chance_.Between(1, 600)),
              [this, pair] { unreachable_.erase(pair); });
      }
      break;
    case 5:
      if (scenario_.churns && workers_.size() < 8) {
        workers_.push_back(std::make_unique<SimWorker>());
        workers_.back()->number = static_cast<int>(workers_.size()) - 1;
        StartWorker(*workers_.back(), false);
      }
      break;
    case 6:
      if (scenario_.churns && workers_.size() > 1) {
        KillWorker(*workers_.back());  // for good, but for the last that are left
      }
      break;
  }
}

void DataWorld::Step() {
  const auto first = queue_.begin();
  now_ = first->first.first;
  const std::function<void()> what = std::move(first->second);
  queue_.erase(first);
  what();
}

void DataWorld::Register() {
  // The dataset is registered before anything goes wrong.
  const uint64_t call = ++last_call_;
  Link register_link;
  calls_[call] = {&register_link, 0};
  register_link.waiting[call] = [this](const dispatch::ErrorPtr&, bool, dispatch::Answer answer) {
    dataset_ = std::get<dispatch::DatasetRegistered>(answer).dataset;
  };
  Feed(dispatch::RegisterDataset{.call = CallId(call),
                                 .identity = "d",
                                 .definition = "definition",
                                 .needs_manifest = scenario_.resolves});
  while (dataset_ == dispatch::DatasetId() && !queue_.empty()) Step();
}

void DataWorld::Populate() {
  spec_ = {.name = "train",
           .dataset = dataset_,
           .mode = scenario_.mode,
           .sharding = scenario_.sharding,
           .visitation = scenario_.visitation,
           .consumers = scenario_.mode == Mode::kFirstCome ? 0 : scenario_.consumers,
           .on_lost = scenario_.on_lost};
  if (scenario_.sharding == dispatch::Sharding::kStaticData) spec_.shares = 3;
  if (scenario_.sharding == dispatch::Sharding::kStaticFile) spec_.shares = 1;
  for (int i = 0; i < scenario_.workers; ++i) {
    workers_.push_back(std::make_unique<SimWorker>());
    workers_.back()->number = i;
    SimWorker* worker = workers_.back().get();
    After(absl::Milliseconds(random_.Between(0, 30)), [this, worker] {
      if (!worker->alive) StartWorker(*worker, false);
    });
  }
  for (int i = 0; i < scenario_.consumers; ++i) {
    programs_.push_back(std::make_unique<Program>());
    Program* program = programs_.back().get();
    program->name = absl::StrCat("trainer/", i);
    program->index = i;
    After(absl::Milliseconds(random_.Between(0, 30)), [this, program] {
      if (program->machine == nullptr) StartProgram(*program);
    });
  }
  if (scenario_.parts) unreachable_.emplace(0, 0);
  ScheduleFaults();
  At(calm_from_, [this] {
    // Nothing goes wrong any more, and all who died come back.
    Say("calm");
    unreachable_.clear();
    if (scenario_.parts) unreachable_.emplace(0, 0);
    for (auto& worker : workers_) {
      if (!worker->alive) StartWorker(*worker, true);
    }
    for (auto& program : programs_) {
      if (program->machine == nullptr && program->wanted) StartProgram(*program);
    }
  });
  if (scenario_.elastic) {
    At(calm_from_ - absl::Milliseconds(chance_.Between(1, scenario_.faults_until_ms)),
       [this] { GoElastic(); });
  }
}

DataResult DataWorld::Run() {
  calm_from_ = now_ + absl::Milliseconds(scenario_.faults_until_ms);
  StartDispatcher();
  Register();
  Populate();
  const Time limit = calm_from_ + absl::Seconds(60);
  bool closing = false;
  while (result_.ok() && !queue_.empty()) {
    Step();
    if (now_ > limit) {
      CheckProgress();
      break;
    }
    if (!closing && now_ > calm_from_ && AllDone() && dispatcher_ != nullptr) {
      if (ReadsTheEndAgain()) continue;
      closing = true;
      CheckVisits();
      CheckRounds();
      for (auto& program : programs_) {
        if (program->machine == nullptr) continue;
        dispatch::ConsumerEffects effects;
        program->machine->Close(now_, effects);
        Carry(*program, std::move(effects));
      }
      const Time end = now_ + absl::Seconds(55);
      // The dispatcher's timers alone, which is all that there is left but for polls.
      At(end, [this] {
        CheckEmpty();
        queue_.clear();
      });
      while (result_.ok() && !queue_.empty()) Step();
      break;
    }
  }
  if (!result_.ok()) {
    result_.report = absl::StrCat(
        "data seed ", scenario_.seed, " (", Describe(scenario_), "): ", result_.failure,
        "\nreplay: build/bin/lockstep_sim --data ", "--seed=", scenario_.seed, " --verbose\n");
  }
  return result_;
}

DataResult RunDataScenario(const DataScenario& scenario, bool verbose) {
  return DataWorld(scenario, verbose).Run();
}

DataResult RunDataSeed(uint64_t seed, bool verbose) {
  return RunDataScenario(DrawDataScenario(seed), verbose);
}

}  // namespace lockstep::sim
