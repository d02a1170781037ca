#include "lockstep/sim/preemption_simulation.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/client/hold_machine.h"
#include "lockstep/sim/describe.h"
#include "lockstep/sim/native_client.h"
#include "lockstep/sim/native_server.h"
#include "lockstep/sim/schedule.h"
#include "lockstep/sim/trace.h"
#include "lockstep/wire/native/from_view.h"

namespace lockstep::sim {
namespace {

using client::HoldMachine;
using coord::PreemptionPhase;
using coord::SyncState;

constexpr int64_t kStepsMost = 3'000'000;
// As in a job that exchanges gradients nobody is so many polls ahead of the slowest.
constexpr int64_t kAheadMax = 4;
// Faults are on for a while; then every preemption ends within this time.
constexpr absl::Duration kEndsWithin = absl::Minutes(30);

// What was seen of each preemption, by whomever.
class Judge {
 public:
  void SawStep(int64_t id, int64_t step, const std::string& where) {
    const auto [found, first] = sync_steps_.emplace(id, step);
    if (!first && found->second != step) {
      Fail(absl::StrCat("one step: preemption ", id, " has sync step ", found->second, ", and at ",
                        where, " ", step));
    }
  }
  void Saves(int64_t id, int32_t member, int64_t step) {
    const auto found = sync_steps_.find(id);
    if (found == sync_steps_.end() || found->second != step) {
      Fail(absl::StrCat("at the step: member ", member, " saves at ", step, " in preemption ", id,
                        ", whose sync step is ",
                        found == sync_steps_.end() ? "unknown" : absl::StrCat(found->second)));
    }
    if (const auto [before, first] = saves_[id].emplace(member, step); !first) {
      Fail(absl::StrCat("once: member ", member, " saves at ", step, " in preemption ", id,
                        ", and did at ", before->second));
    }
    ++saved_;
  }
  bool Saved(int64_t id, int32_t member) const {
    const auto found = saves_.find(id);
    return found != saves_.end() && found->second.contains(member);
  }
  void Fail(std::string failure) {
    if (failure_.empty()) failure_ = std::move(failure);
  }

  const std::string& failure() const { return failure_; }
  int64_t agreed() const { return static_cast<int64_t>(sync_steps_.size()); }
  int64_t saved() const { return saved_; }

 private:
  std::map<int64_t, int64_t> sync_steps_;
  std::map<int64_t, std::map<int32_t, int64_t>> saves_;
  int64_t saved_ = 0;
  std::string failure_;
};

// A member as lockstep/client makes it: a session, a watch, and threads that poll.
class Worker {
 public:
  struct Setup {
    int32_t index = 0;
    int64_t first = 0;
    int64_t stride = 1;
    std::optional<int64_t> last;
    absl::Duration step_time;
    absl::Duration begins_after;
    absl::Duration save_time;
    bool fails_to_save = false;
  };

  Worker(Schedule& schedule, NativeServer& server, Judge& judge, Random random, Setup setup)
      : schedule_(schedule),
        judge_(judge),
        random_(random),
        setup_(setup),
        session_(schedule, server, random_.Fork(), SessionId{random_.Next(), random_.Next()}),
        machine_({.stride = setup.stride, .last_step = setup.last}),
        step_(setup.first) {}

  void Start(const std::vector<std::unique_ptr<Worker>>& all) {
    all_ = &all;
    session_.Start();
    coord::JoinJob join{.index = setup_.index, .incarnation = Incarnation(random_.Next() | 1)};
    Request(std::move(join), [this](const coord::Reply& reply) {
      if (reply.error) return;  // the attempt failed by another before all had come
      joined_ = true;
      Request(coord::PollForError{}, [](const coord::Reply&) {});
      Watch(0);
      Beat();
      schedule_.After(setup_.begins_after, [this] { Poll(); });
    });
  }
  void Die() {
    alive_ = false;
    session_.Die();
  }
  void Hang() { hangs_ = true; }
  void BreakLink(bool silent) {
    if (!hangs_) session_.BreakLink(silent);
  }

  bool alive() const { return alive_; }
  bool works() const { return alive_ && joined_ && !hangs_ && !finished_; }
  bool waits() const { return alive_ && !hangs_ && waiting_; }
  int64_t step() const { return step_; }
  int32_t index() const { return setup_.index; }
  const std::string& failure() const { return session_.failure(); }

 private:
  void Request(coord::Event event, NativeSession::Done done) {
    session_.Request(std::move(event), [this, done = std::move(done)](const coord::Reply& reply) {
      if (alive_ && !hangs_) done(reply);
    });
  }

  void Beat() {
    if (!alive_ || hangs_) return;
    Request(coord::ReportProgress{.step = step_}, [](const coord::Reply&) {});
    schedule_.After(absl::Seconds(10), [this] { Beat(); });
  }

  void Watch(int64_t after) {
    Request(coord::WatchPreemption{.after = after, .answers = true},
            [this](const coord::Reply& reply) {
              if (reply.error) return;
              const auto& changed = std::get<coord::PreemptionChanged>(reply.answer);
              Take(*changed.state);
              Watch(changed.state->version);
            });
  }

  void Take(const coord::PreemptionState& state) {
    if (state.sync_step) {
      judge_.SawStep(state.id, *state.sync_step, absl::StrCat("member ", setup_.index));
    }
    HoldMachine::Effects effects;
    machine_.Take(schedule_.now(), wire::native::FromState(schedule_.now(), state), newest_,
                  effects);
    Tell(effects);
    if (std::exchange(waiting_, false)) Poll();
  }

  void Tell(const HoldMachine::Effects& effects) {
    const auto nothing = [](const coord::Reply&) {};
    if (effects.answer) {
      Request(coord::AnswerHold{.preemption = effects.answer->preemption,
                                .first = effects.answer->first,
                                .stride = effects.answer->stride,
                                .last_step = effects.answer->last_step,
                                .save_time = setup_.save_time},
              nothing);
    }
    if (effects.report) {
      Request(coord::ReportSave{.preemption = effects.report->preemption,
                                .state = wire::native::ToCoord(effects.report->state),
                                .step = effects.report->step},
              nothing);
    }
  }

  // Looked up now and then: there may be thousands.
  int64_t Slowest() {
    if (schedule_.now() < looked_ + absl::Milliseconds(100)) return slowest_;
    looked_ = schedule_.now();
    slowest_ = std::numeric_limits<int64_t>::max();
    for (const auto& each : *all_) {
      if (each->works()) slowest_ = std::min(slowest_, each->step_);
    }
    return slowest_;
  }

  // One poll, as `Preemption::Reached` does it, and what follows.
  void Poll() {
    if (!alive_ || hangs_ || finished_ || waiting_) return;
    if (step_ > Slowest() + kAheadMax * 30) {
      schedule_.After(setup_.step_time, [this] { Poll(); });
      return;
    }
    newest_ = std::max(newest_, step_);
    if (step_ < machine_.hold()) return NextStep();
    HoldMachine::Effects effects;
    const HoldMachine::Verdict verdict = machine_.Poll(schedule_.now(), step_, effects);
    Tell(effects);
    if (verdict == HoldMachine::Verdict::kNo) return NextStep();
    if (verdict == HoldMachine::Verdict::kWait) {
      waiting_ = true;
      const Time until = machine_.WaitsUntil();
      schedule_.At(until, [this, until] {
        if (!waiting_ || machine_.WaitsUntil() != until) return;
        waiting_ = false;
        Poll();
      });
      return;
    }
    const int64_t id = machine_.state().id;
    if (!judge_.Saved(id, setup_.index) || hit_ != std::pair(id, step_)) {
      judge_.Saves(id, setup_.index, step_);
      hit_ = {id, step_};
    }
    schedule_.After(setup_.save_time, [this, step = step_] {
      if (!alive_ || hangs_) return;
      HoldMachine::Effects done;
      if (setup_.fails_to_save) {
        machine_.FailedToSave(step, "disk full", done);
      } else {
        machine_.Saved(schedule_.now(), step, "/ckpt", done);
      }
      Tell(done);
      NextStep();
    });
  }

  void NextStep() {
    step_ += setup_.stride;
    if (setup_.last && step_ > *setup_.last) {
      finished_ = true;
      HoldMachine::Effects effects;
      machine_.Finish(effects);
      Tell(effects);
      return;
    }
    const absl::Duration time = random_.Between(setup_.step_time / 2, setup_.step_time * 2);
    schedule_.After(time, [this] { Poll(); });
  }

  Schedule& schedule_;
  Judge& judge_;
  Random random_;
  const Setup setup_;
  NativeSession session_;
  const std::vector<std::unique_ptr<Worker>>* all_ = nullptr;
  HoldMachine machine_;
  int64_t step_;
  Time looked_;
  int64_t slowest_ = 0;
  int64_t newest_ = HoldMachine::kNoStep;
  std::pair<int64_t, int64_t> hit_;
  bool alive_ = true;
  bool joined_ = false;
  bool hangs_ = false;
  bool finished_ = false;
  bool waiting_ = false;
};

class PreemptionSimulation {
 public:
  PreemptionSimulation(uint64_t seed, const PreemptionSimOptions& options)
      : scenario_(DrawPreemptionScenario(seed, options.size)),
        random_(~seed),
        trace_(options.verbose),
        server_(
            schedule_, random_.Fork(), scenario_.world,
            options.make_machine
                ? options.make_machine
                : [](const coord::CoordinatorOptions&
                         coordinator) { return std::make_unique<DurableCoordinator>(coordinator); },
            trace_, false),
        tool_(schedule_, server_, random_.Fork(), SessionId{random_.Next(), random_.Next()}) {}

  PreemptionResult Run() {
    const NativeScenario& world = scenario_.world;
    const int64_t first = scenario_.resumes ? random_.Between(0, 40) * 30 : 0;
    for (int32_t i = 0; i < world.coordinator.size; ++i) Begin(i, first);
    for (const auto& worker : workers_) worker->Start(workers_);
    tool_.Start();
    faults_end_ = schedule_.now() + world.faults_last;
    FaultLater();
    for (int i = 0; i < scenario_.notices; ++i) {
      schedule_.After(random_.Between(absl::ZeroDuration(), world.faults_last),
                      [this, i] { Notify(i); });
    }
    const Time end = faults_end_ + kEndsWithin;
    while (Healthy() && schedule_.RunNext(end)) {
      if (schedule_.now() > faults_end_ + absl::Minutes(2) && Ended() && server_.up()) break;
    }
    if (Healthy()) Settle();
    return Result();
  }

 private:
  void Begin(int32_t index, int64_t first) {
    constexpr int64_t kStrides[] = {1, 2, 3, 5, 6, 10};
    Worker::Setup setup{.index = index,
                        .first = first,
                        .stride = scenario_.unequal_strides ? kStrides[random_.Index(6)] : 1,
                        .step_time = random_.Between(absl::Milliseconds(1), absl::Milliseconds(40)),
                        .save_time = random_.Between(absl::ZeroDuration(), absl::Seconds(3))};
    if (scenario_.starts_late && random_.Percent(30)) {
      setup.begins_after = random_.Between(absl::ZeroDuration(), absl::Seconds(20));
    }
    if (scenario_.finishes && random_.Percent(40)) {
      setup.last = first + random_.Between(0, 400);
    }
    setup.fails_to_save = scenario_.fails_to_save && random_.Percent(30);
    workers_.push_back(std::make_unique<Worker>(schedule_, server_, judge_, random_.Fork(), setup));
  }

  void Say(coord::NotifyPreemption notice) {
    tool_.Request(std::move(notice), [](const coord::Reply&) {});
  }

  void Notify(int number) {
    coord::NotifyPreemption notice{.source = random_.Percent(50) ? "operator" : "gce",
                                   .event = absl::StrCat("event ", number)};
    const int subjects = static_cast<int>(random_.Between(0, 2));
    for (int i = 0; i < subjects; ++i) {
      notice.subjects.emplace_back(random_.Index(workers_.size()));
    }
    if (random_.Percent(70)) {
      notice.left = random_.Percent(20) ? random_.Between(absl::Minutes(14), absl::Minutes(17))
                                        : random_.Between(-absl::Seconds(1), absl::Minutes(2));
    }
    Say(notice);
    const auto soon = [this] { return random_.Between(absl::ZeroDuration(), absl::Seconds(3)); };
    if (random_.Percent(30)) schedule_.After(soon(), [this, notice] { Say(notice); });
    if (random_.Percent(15)) {
      coord::NotifyPreemption moved = notice;
      moved.act = coord::NotifyPreemption::Act::kExtend;
      moved.left = random_.Between(absl::ZeroDuration(), absl::Minutes(3));
      schedule_.After(soon(), [this, moved] { Say(moved); });
    }
    if (random_.Percent(15)) {
      coord::NotifyPreemption withdrawn = notice;
      withdrawn.act = coord::NotifyPreemption::Act::kWithdraw;
      schedule_.After(soon(), [this, withdrawn] { Say(withdrawn); });
    }
  }

  void FaultLater() {
    schedule_.After(random_.Between(absl::Milliseconds(1), 2 * scenario_.world.fault_period),
                    [this] {
                      if (schedule_.now() >= faults_end_) return;
                      Fault();
                      FaultLater();
                    });
  }

  void Fault() {
    const NativeScenario& world = scenario_.world;
    Worker& worker = *workers_[random_.Index(workers_.size())];
    switch (random_.Index(5)) {
      case 0:
        if (world.crashes) server_.Crash();
        return;
      case 1:
        if (world.breaks && worker.alive()) worker.BreakLink(false);
        return;
      case 2:
        if (world.silences && worker.alive()) worker.BreakLink(true);
        return;
      case 3:
        if (!scenario_.hangs || !random_.Percent(10)) return;
        trace_.Note(schedule_.now(), absl::StrCat("hang ", worker.index()));
        worker.Hang();
        return;
      default:
        if (!world.kills || !worker.alive() || !random_.Percent(20)) return;
        trace_.Note(schedule_.now(), absl::StrCat("kill ", worker.index()));
        worker.Die();
    }
  }

  std::optional<coord::PreemptionView> View() const {
    return server_.up() ? server_.View().preemption : std::nullopt;
  }
  bool Ended() const {
    const auto view = View();
    return !view || view->state.phase == PreemptionPhase::kEnded;
  }

  bool Healthy() {
    if (failure_.empty()) failure_ = judge_.failure();
    if (failure_.empty()) failure_ = server_.failure();
    for (const auto& worker : workers_) {
      if (failure_.empty() && worker->alive()) failure_ = worker->failure();
    }
    if (failure_.empty() && server_.steps() > kStepsMost) failure_ = "circle: too many steps";
    return failure_.empty();
  }

  // Nothing goes wrong any more, and time has passed.
  void Settle() {
    if (!Ended()) {
      failure_ = absl::StrCat("liveness: preemption ", View()->state.id, " is still ",
                              coord::PreemptionPhaseName(View()->state.phase));
      return;
    }
    for (const auto& worker : workers_) {
      if (worker->waits()) {
        failure_ = absl::StrCat("liveness: member ", worker->index(), " waits at the hold");
        return;
      }
    }
    const auto view = View();
    if (!view) return;
    opened_ = view->state.id;
    for (const coord::SyncMember& member : view->members) {
      const bool saved = judge_.Saved(view->state.id, member.member.value());
      const bool says_so = member.state == SyncState::kSaved || member.state == SyncState::kFailed;
      if (says_so && !saved) {
        failure_ = absl::StrCat("honest: member ", member.member.value(), " counts as ",
                                coord::SyncStateName(member.state), ", and never saved");
      }
    }
    const bool all = view->state.outcome == coord::PreemptionOutcome::kSaved;
    for (const coord::SyncMember& member : view->members) {
      if (all && member.state != SyncState::kSaved) {
        failure_ = absl::StrCat("honest: all have saved, but member ", member.member.value(),
                                " is ", coord::SyncStateName(member.state));
      }
    }
  }

  PreemptionResult Result() {
    PreemptionResult result{.seed = scenario_.world.seed,
                            .failure = failure_,
                            .steps = server_.steps(),
                            .hash = trace_.hash(),
                            .opened = opened_,
                            .agreed = judge_.agreed(),
                            .saved = judge_.saved(),
                            .crashes = server_.crashes(),
                            .virtual_time = schedule_.now() - Time()};
    if (!failure_.empty()) {
      result.report = absl::StrCat(
          "the last ", Trace::kTraceLinesMax, " events of preemption seed ", result.seed, ":\n",
          trace_.Tail(), "preemption seed ", result.seed, " (", Describe(scenario_),
          ")\nfailed at step ", server_.steps(), ", ", FormatTime(schedule_.now()), ": ", failure_,
          "\nreplay: build/bin/lockstep_sim --preemption --seed=", result.seed, " --verbose\n");
    }
    return result;
  }

  const PreemptionScenario scenario_;
  Random random_;
  Schedule schedule_;
  Trace trace_;
  Judge judge_;
  NativeServer server_;
  NativeSession tool_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Time faults_end_;
  int64_t opened_ = 0;
  std::string failure_;
};

}  // namespace

PreemptionScenario DrawPreemptionScenario(uint64_t seed, int32_t size) {
  PreemptionScenario scenario{.world = DrawNativeScenario(seed)};
  Random random(seed * 0x9e3779b97f4a7c15 + 2);
  coord::CoordinatorOptions& options = scenario.world.coordinator;
  options.size = size > 0 ? size : static_cast<int32_t>(random.Between(1, 7));
  options.heartbeat_timeout = absl::Minutes(2);
  options.preempt_awaits_all = random.Percent(30);
  if (random.Percent(30)) options.preempt_save_estimate = absl::Seconds(random.Between(1, 30));
  scenario.notices = static_cast<int>(random.Between(1, 8));
  scenario.unequal_strides = random.Percent(40);
  scenario.resumes = random.Percent(50);
  scenario.starts_late = random.Percent(40);
  scenario.hangs = random.Percent(30);
  scenario.finishes = random.Percent(30);
  scenario.fails_to_save = random.Percent(20);
  return scenario;
}

std::string Describe(const PreemptionScenario& scenario) {
  std::string text = absl::StrCat(Describe(scenario.world), " notices=", scenario.notices);
  for (const auto& [name, on] : {std::pair("unequal_strides", scenario.unequal_strides),
                                 {"resumes", scenario.resumes},
                                 {"starts_late", scenario.starts_late},
                                 {"hangs", scenario.hangs},
                                 {"finishes", scenario.finishes},
                                 {"fails_to_save", scenario.fails_to_save}}) {
    if (on) absl::StrAppend(&text, " ", name);
  }
  return text;
}

PreemptionResult RunPreemptionSeed(uint64_t seed, const PreemptionSimOptions& options) {
  return PreemptionSimulation(seed, options).Run();
}

}  // namespace lockstep::sim
