// `lockstep preempt`, against servers that say what the test wants to hear.
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/cli/command_testing.h"
#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/preemption_messages.h"
#include "nlohmann/json.hpp"

namespace lockstep::cli {
namespace {

using link::testing::TestServer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using namespace wire::native;  // NOLINT: the messages are what this file is about

// A server of job "digits", of the workers 0 and 1 and a ps.
class Server {
 public:
  using Watch = std::function<absl::StatusOr<WatchPreemptionReply>(const WatchPreemption&)>;

  explicit Server(Watch watch = {}) : watch_(std::move(watch)) {}

  Ran Run(std::vector<std::string> words, const std::string& job = "digits") {
    words.insert(words.begin(), {"preempt", "--job", job});
    return RunCommand(server_, words);
  }
  const NotifyPreemption& asked() const { return *asked_; }
  bool was_asked() const { return asked_.has_value(); }
  void Refuse(absl::Status status) { refusal_ = std::move(status); }
  // In this condition are all.
  void SetCondition(MemberCondition condition, ProcessState process = ProcessState::kUnspecified) {
    condition_ = condition;
    process_ = process;
  }
  void SetMembers(std::vector<SyncMember> members) { members_ = std::move(members); }

 private:
  template <class Reply>
  static void Give(link::Responder& responder, const absl::StatusOr<Reply>& reply) {
    if (!reply.ok()) return responder.Fail(reply.status());
    responder.Answer(Encode(*reply));
  }

  void Serve(const link::Request& request, link::Responder responder) {
    switch (request.kind) {
      case link::KindOf<OpenSession>::kKind:
        if (Decode<OpenSession>(request.payload)->job != "digits") {
          return responder.Fail(WithReason(
              absl::NotFoundError("no job 'other' here; there are digits"), "unknown_job"));
        }
        return responder.Answer(Encode(OpenSessionReply{.size = 3}));
      case link::KindOf<StatusRequest>::kKind:
        return responder.Answer(Encode(StatusReply{.jobs = {Job()}}));
      case link::KindOf<NotifyPreemption>::kKind:
        asked_ = *Decode<NotifyPreemption>(request.payload);
        if (!refusal_.ok()) return responder.Fail(refusal_);
        return responder.Answer(Encode(NotifyPreemptionReply{.preemption = 3}));
      case link::KindOf<WatchPreemption>::kKind:
        // What is not answered waits.
        if (const auto reply = watch_(*Decode<WatchPreemption>(request.payload));
            !absl::IsDeadlineExceeded(reply.status())) {
          return Give(responder, reply);
        }
        parked_.push_back(std::move(responder));
        return;
      default:
        ADD_FAILURE() << "asked for " << request.kind;
    }
  }

  JobStatus Job() const {
    JobStatus job = {.job = "digits", .size = 3};
    job.members = {{.index = 0, .name = "worker/0#1"},
                   {.index = 1, .name = "worker/1#2"},
                   {.index = 2, .name = "ps/0"}};
    for (MemberStatus& member : job.members) {
      member.condition = condition_;
      member.process = process_;
    }
    job.preemption = PreemptionStatus{.state = {.id = 3}, .members = members_};
    return job;
  }

  const Watch watch_;
  std::optional<NotifyPreemption> asked_;
  absl::Status refusal_;
  std::vector<SyncMember> members_;
  MemberCondition condition_ = MemberCondition::kUnspecified;
  ProcessState process_ = ProcessState::kUnspecified;
  std::vector<link::Responder> parked_;
  TestServer server_{[this](const link::Request& request, link::Responder responder) {
    Serve(request, std::move(responder));
  }};
};

PreemptionState State(int64_t version, PreemptionPhase phase) {
  return {.version = version,
          .id = 3,
          .phase = phase,
          .notices = {{.source = "operator", .subjects = {1}}},
          .death_in_us = 30'000'000};
}

absl::StatusOr<WatchPreemptionReply> Told(PreemptionState state) {
  return WatchPreemptionReply{.state = std::move(state)};
}

TEST(Preempt, UseA11_OfAJobOfWhichNobodyRunsIsRefused) {
  Server server;
  server.SetCondition(MemberCondition::kLeft, ProcessState::kEnded);
  const Ran ran = server.Run({});
  EXPECT_EQ(ran.code, kExitFailed);
  EXPECT_THAT(ran.err, HasSubstr("no member of job 'digits' is running, so nothing can be saved"));
  EXPECT_FALSE(server.was_asked());
  EXPECT_EQ(server.Run({"--cancel"}).code, kExitOk) << "what was said can be taken back";
  // A stock torch program never joins.
  server.SetCondition(MemberCondition::kMissing, ProcessState::kRunning);
  EXPECT_EQ(server.Run({}).code, kExitOk);
}

TEST(Preempt, TellsWhoDiesAndWhen) {
  Server server;
  const Ran ran = server.Run({"--member", "worker/1", "--member", "ps/0,0", "--in", "30s",
                              "--reason", "the rack is moved"});
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("preemption 3"));
  EXPECT_EQ(server.asked().act, NoticeAct::kNotify);
  EXPECT_EQ(server.asked().source, "operator");
  EXPECT_EQ(server.asked().event.size(), 16u);
  EXPECT_THAT(server.asked().subjects, ElementsAre(1, 2, 0));
  EXPECT_EQ(server.asked().left_us, 30'000'000);
  EXPECT_EQ(server.asked().text, "the rack is moved");
}

TEST(Preempt, IsOfEverybodyOrOfAHost) {
  Server server;
  const Ran ran = server.Run({"-o", "json"});
  EXPECT_EQ(nlohmann::json::parse(ran.out)["preemption"], 3);
  EXPECT_THAT(server.asked().subjects, IsEmpty());
  EXPECT_EQ(server.asked().left_us, std::nullopt);
  const std::string first = server.asked().event;
  EXPECT_EQ(server.Run({"--host", "gpu-3", "--in", "0s"}).code, kExitOk);
  EXPECT_EQ(server.asked().host, "gpu-3");
  EXPECT_EQ(server.asked().left_us, 0);
  EXPECT_NE(server.asked().event, first) << "another notice";
}

TEST(Preempt, IsCancelledAndMoved) {
  Server server;
  EXPECT_THAT(server.Run({"--cancel"}).out, HasSubstr("preemption 3: all notices are withdrawn"));
  EXPECT_EQ(server.asked().act, NoticeAct::kWithdraw);
  EXPECT_EQ(server.asked().event, "") << "all of them";
  EXPECT_THAT(server.Run({"--extend", "60s"}).out,
              HasSubstr("preemption 3: members will die 60s from now"));
  EXPECT_EQ(server.asked().act, NoticeAct::kExtend);
  EXPECT_EQ(server.asked().event, "");
  EXPECT_EQ(server.asked().left_us, 60'000'000);
}

TEST(Preempt, SaysWhatIsWrongWithItsArguments) {
  Server server;
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"--in", "30"}, "not a duration such as 5s"},
      {{"--in", "-3s"}, "must not be below zero"},
      {{"--wait", "0s"}, "must be above zero"},
      {{"--cancel", "--extend", "3s"}, "excludes"},
      {{"--cancel", "--member", "0"}, "excludes"},
      {{"--extend", "3s", "--in", "3s"}, "excludes"}};
  for (const auto& [words, text] : wrong) {
    const Ran ran = server.Run(words);
    EXPECT_EQ(ran.code, kExitUsage) << text;
    EXPECT_THAT(ran.err, HasSubstr(text));
  }
  EXPECT_EQ(RunWith({}, {"preempt"}).code, kExitUsage) << "of which job?";
  EXPECT_FALSE(server.was_asked());
}

TEST(Preempt, NamesWhoThereIsInsteadOfWhoIsNot) {
  Server server;
  for (const char* unknown : {"worker/2", "3", "-1", "worker/0#2", "x"}) {
    const Ran ran = server.Run({std::string("--member=") + unknown});
    EXPECT_EQ(ran.code, kExitNotFound) << unknown;
    EXPECT_THAT(ran.err, HasSubstr("it has worker/0-1,ps/0"));
  }
  EXPECT_FALSE(server.was_asked());
  EXPECT_EQ(server.Run({"--member", "worker/0#1"}).code, kExitOk);
}

TEST(Preempt, SaysWhatToDoAboutARefusal) {
  Server server;
  server.Refuse(
      WithReason(absl::NotFoundError("job 'digits' has no open preemption"), "no_preemption"));
  const Ran ran = server.Run({"--cancel"});
  EXPECT_EQ(ran.code, kExitNotFound);
  EXPECT_THAT(ran.err, HasSubstr("`lockstep status digits` shows the last one"));
  const Ran unknown = server.Run({}, "other");
  EXPECT_EQ(unknown.code, kExitNotFound);
  EXPECT_THAT(unknown.err, HasSubstr("there are digits"));
}

TEST(Preempt, PrintsALineForEachPhaseUntilTheEnd) {
  Server server([](const WatchPreemption& request) {
    EXPECT_FALSE(request.answers);
    PreemptionState state = State(request.after + 1, PreemptionPhase::kAgreed);
    if (request.after == 0) return Told(State(1, PreemptionPhase::kHolding));
    state.sync_step = 120;
    if (request.after == 2) state.withdrawn = true;
    if (request.after < 3) return Told(state);
    state.phase = PreemptionPhase::kEnded;
    state.outcome = PreemptionOutcome::kSaved;
    state.text = "3 of 3 members saved at step 120";
    return Told(state);
  });
  server.SetMembers({{.member = 0, .state = SyncState::kSaved, .step = 120, .text = "/ckpt/120"},
                     {.member = 1, .state = SyncState::kSaved, .step = 120},
                     {.member = 2, .state = SyncState::kSilent}});
  const Ran ran = server.Run({"--member", "1", "--in", "30s", "--wait"});
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  std::vector<std::string> lines;
  std::istringstream in(ran.out);
  for (std::string line; std::getline(in, line);) {
    ASSERT_EQ(line.substr(8, 3), "s  ") << "the time";
    lines.push_back(line.substr(11));
  }
  EXPECT_THAT(
      lines,
      ElementsAre("opened: preemption 3 of worker/1, 30s left",
                  "holding: asking 3 members for their next step",
                  "agreed: all save at step 120, by 2 members, without ps/0, silent so far",
                  "withdrawn: no member will die; all members save nevertheless and continue",
                  "  silent     ps/0", "  saved      worker/0-1 at step 120: /ckpt/120",
                  "ended: saved: 3 of 3 members saved at step 120"));
}

TEST(Preempt, EndsByTheOutcome) {
  PreemptionOutcome outcome = PreemptionOutcome::kUnspecified;
  Server server([&](const WatchPreemption&) {
    PreemptionState state = State(5, PreemptionPhase::kEnded);
    state.outcome = outcome;
    state.sync_step = 7;
    return Told(state);
  });
  for (const PreemptionOutcome well :
       {PreemptionOutcome::kSaved, PreemptionOutcome::kSynced, PreemptionOutcome::kFinished,
        PreemptionOutcome::kCancelled}) {
    outcome = well;
    EXPECT_EQ(server.Run({"--wait"}).code, kExitOk);
  }
  for (const PreemptionOutcome ill :
       {PreemptionOutcome::kPartlySaved, PreemptionOutcome::kNotSaved,
        PreemptionOutcome::kCannotSaveInTime, PreemptionOutcome::kNoCommonStep,
        PreemptionOutcome::kNobodyAnswered}) {
    outcome = ill;
    const Ran ran = server.Run({"--wait"});
    EXPECT_EQ(ran.code, kExitNotSaved);
    EXPECT_THAT(ran.out, HasSubstr("agreed: all save at step 7")) << "though it was over quickly";
    EXPECT_THAT(ran.out, HasSubstr("ended: " + std::string(NameOf(ill))));
  }
}

TEST(Preempt, IsOneObjectALineForPrograms) {
  Server server([](const WatchPreemption& request) {
    PreemptionState state = State(request.after + 1, PreemptionPhase::kHolding);
    if (request.after == 1) state.phase = PreemptionPhase::kEnded;
    state.outcome = PreemptionOutcome::kCancelled;
    return Told(state);
  });
  const Ran ran = server.Run({"--wait", "-o", "json"});
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  std::istringstream in(ran.out);
  std::vector<std::string> phases;
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line);
    EXPECT_GE(json["elapsed_us"], 0);
    EXPECT_TRUE(json["members"].is_array());
    phases.push_back(json["state"]["phase"]);
  }
  EXPECT_THAT(phases, ElementsAre("holding", "ended"));
}

TEST(Preempt, SaysWhoIsAwaitedWhenItHasNotEndedInTime) {
  Server server([](const WatchPreemption& request) -> absl::StatusOr<WatchPreemptionReply> {
    if (request.after > 0) return absl::DeadlineExceededError("waits");
    return Told(State(1, PreemptionPhase::kHolding));
  });
  server.SetMembers({{.member = 2, .state = SyncState::kAsked}});
  const Ran ran = server.Run({"--wait", "100ms"});
  EXPECT_EQ(ran.code, kExitTimeout);
  EXPECT_THAT(ran.out, HasSubstr("holding"));
  EXPECT_THAT(ran.err, HasSubstr("preemption 3 has not ended within 100ms: asked ps/0"));
}

TEST(Preempt, GoesOnWhenTheServerComesBack) {
  int asked = 0;
  Server server([&](const WatchPreemption& request) -> absl::StatusOr<WatchPreemptionReply> {
    if (++asked == 1) return Told(State(4, PreemptionPhase::kHolding));
    if (asked == 2) return absl::UnavailableError("going away");
    EXPECT_EQ(request.after, 4);
    PreemptionState state = State(5, PreemptionPhase::kEnded);
    state.outcome = PreemptionOutcome::kSaved;
    return Told(state);
  });
  const Ran ran = server.Run({"--wait"});
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("the server is back"));
}

TEST(Preempt, SaysWhenItWasLostSightOf) {
  int64_t id = 2;
  Server server([&](const WatchPreemption&) {
    PreemptionState state = State(1, PreemptionPhase::kEnded);
    state.id = id;
    return Told(state);
  });
  const Ran older = server.Run({"--wait"});
  EXPECT_EQ(older.code, kExitFailed);
  EXPECT_THAT(older.err, HasSubstr("lost track of preemption 3"));
  id = 4;
  const Ran newer = server.Run({"--wait"});
  EXPECT_EQ(newer.code, kExitFailed);
  EXPECT_THAT(newer.err, HasSubstr("preemption 3 has ended, and 4 has begun"));
  EXPECT_THAT(newer.out, Not(HasSubstr("ended")));
}

}  // namespace
}  // namespace lockstep::cli
