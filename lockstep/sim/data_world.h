// The parts of the data service's simulation: clock, dispatcher with its journal, links, workers,
// consumers with what their programs keep. Pure.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/data/consumer/consumer_machine.h"
#include "lockstep/data/dispatch/cursor.h"
#include "lockstep/data/dispatch/dispatcher.h"
#include "lockstep/sim/data_sim.h"
#include "lockstep/sim/random.h"

namespace lockstep::sim {

// Elements are numbers: 1000 * segment + index.
class ToyShape : public dispatch::Shape {
 public:
  explicit ToyShape(const DataScenario& scenario)
      : seed_(scenario.seed),
        segments_(scenario.segments),
        elements_(scenario.elements),
        filters_(scenario.filters),
        files_(std::max<int64_t>(1, scenario.segments / 2)) {}

  int64_t segments() const override { return segments_; }
  std::optional<int64_t> ElementsOf(int64_t segment) const override {
    if (filters_) return std::nullopt;
    return Count(segment);
  }
  int64_t ElementsMost(int64_t /*segment*/) const override { return elements_; }
  int64_t files() const override { return std::max<int64_t>(files_, 1); }
  int64_t FileOf(int64_t segment) const override { return segment / 2; }

  int64_t Count(int64_t segment) const {
    if (!filters_) return elements_;
    Random random(seed_ * 1000003 + static_cast<uint64_t>(segment));
    return random.Between(0, elements_);
  }
  std::vector<int64_t> All() const {
    std::vector<int64_t> all;
    for (int64_t segment = 0; segment < segments_; ++segment) {
      for (int64_t i = 0; i < Count(segment); ++i) all.push_back(segment * 1000 + i);
    }
    return all;
  }

 private:
  uint64_t seed_;
  int64_t segments_;
  int64_t elements_;
  bool filters_;
  int64_t files_;
};

using AnswerTaker = std::function<void(dispatch::ErrorPtr, bool unavailable, dispatch::Answer)>;

class DataWorld {
 public:
  DataWorld(const DataScenario& scenario, bool verbose);
  DataResult Run();
  // What is next in the queue.
  void Step();
  void Register();
  void Populate();

 private:
  // One process's way to the dispatcher. What is in flight when it is cut has no answer.
  struct Link {
    uint64_t life = 0;
    std::map<uint64_t, AnswerTaker> waiting;  // by call
    dispatch::WorkerId worker;
    dispatch::IterationId iteration;
    dispatch::ConsumerId consumer;
  };
  struct SimWorker {
    int number = 0;
    bool alive = false;
    dispatch::WorkerId id;
    std::string address;
    Link link;
    uint64_t service = 0;
    int64_t after = 0;
    std::vector<dispatch::ResolveReport> resolved;
  };
  struct Entry {
    int64_t element = 0;
    dispatch::ElementPlace place;
    std::string cursor;  // behind it
  };
  // What a program keeps on disk, and the life that it has at the moment.
  struct Program {
    std::string name;
    int32_t index = -1;
    bool wanted = true;  // it comes back when it dies
    bool done = false;
    bool ended = false;  // some life of it was told the end
    std::vector<Entry> kept;
    std::unique_ptr<dispatch::ConsumerMachine> machine;
    uint64_t life = 0;
    Link link;
    uint64_t last_ask = 0;
    Time asked_at;
    bool waits = false;
    Time wake = Time::Infinite();
    bool fresh = false;  // begins without its cursor
    bool evicted = false;
    int64_t held = 0;  // taken since it acknowledged last
    std::vector<uint64_t> cancelled;
    std::set<uint64_t> reads;
  };

  // The clock.
  void At(Time when, std::function<void()> what);
  void After(absl::Duration delay, std::function<void()> what) {
    At(now_ + delay, std::move(what));
  }
  absl::Duration Delay();
  void Note(uint64_t what);
  void Fail(std::string why);
  void Say(const std::string& text);

  // The dispatcher.
  void StartDispatcher();
  void KillDispatcher();
  void Feed(dispatch::Event event);
  void Persist(dispatch::Effects effects);
  void Watch(const dispatch::Record& record);
  void SetAlarm();
  void CompareRestored();
  void Call(Link& link, dispatch::Event event, AnswerTaker taker);
  void Cut(Link& link, bool tell);

  // Workers.
  void StartWorker(SimWorker& worker, bool same_address);
  void KillWorker(SimWorker& worker);
  void PollOfWorker(SimWorker& worker);
  SimWorker* FindWorker(dispatch::WorkerId id);
  void Serve(Program& program, uint64_t life, const dispatch::SendRead& read);

  // Consumers.
  void StartProgram(Program& program);
  void KillProgram(Program& program);
  void Carry(Program& program, dispatch::ConsumerEffects effects);
  void CarryRequest(Program& program, const dispatch::SendToDispatcher& request);
  void Take(Program& program, const dispatch::HandOut& hand);
  void Wake(Program& program);
  void AskNext(Program& program);
  void AcknowledgeAll(Program& program);
  void TakeError(Program& program, const dispatch::ErrorPtr& error);
  bool AcknowledgesFirst(Program& program, const dispatch::ErrorPtr& error);
  void ForgetVoid(Program& program, const dispatch::IterationOpened& opened);
  std::vector<dispatch::LaneAck> Have(const Program& program) const;

  // The course of a seed.
  void ScheduleFaults();
  void OneFault();
  bool GoElastic();
  void CheckProgress();
  void CheckVisits();
  void CheckRounds();
  void CheckEmpty();
  bool AllDone() const;
  // Nothing may be missing, whoever was lost and for however long.
  bool IsStrict() const {
    return scenario_.mode != dispatch::Mode::kRounds ||
           scenario_.on_lost == dispatch::OnLost::kWait;
  }
  void ForgetSome(Program& program);
  bool ReadsTheEndAgain();
  void TellEnd(const Program& program);

  const DataScenario scenario_;
  const bool verbose_;
  Random random_;
  Random chance_;  // for faults
  ToyShape shape_;
  DataResult result_;
  Time now_;
  Time calm_from_;
  std::map<std::pair<Time, uint64_t>, std::function<void()>> queue_;
  uint64_t order_ = 0;

  std::unique_ptr<dispatch::Dispatcher> dispatcher_;
  uint64_t service_ = 0;
  std::vector<dispatch::TimedRecord> journal_;
  int64_t undurable_ = 0;
  Time durable_at_;
  Time alarm_ = Time::Infinite();
  uint64_t last_call_ = 0;
  std::map<uint64_t, std::pair<Link*, uint64_t>> calls_;  // call: whose, of which life

  dispatch::DatasetId dataset_;
  dispatch::IterationSpec spec_;
  std::vector<std::unique_ptr<SimWorker>> workers_;
  std::vector<std::unique_ptr<Program>> programs_;
  std::vector<std::unique_ptr<Program>> past_;  // of the iteration before the elastic one
  std::set<std::pair<int, int>> unreachable_;   // (program, worker)
  uint64_t last_id_ = 100;
  int64_t tasks_added_ = 0;
  bool resumed_ = false;
  bool read_again_ = false;  // by one, when all was over
  int64_t cut_at_ = 0;       // elements that each had taken when all went on elsewhere
  std::vector<std::string> elastic_cursors_;
  int past_width_ = 0;
};

}  // namespace lockstep::sim
