#include "lockstep/observe/preemption_text.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/observe/observe_testing.h"
#include "lockstep/observe/status_text.h"
#include "lockstep/observe/tables.h"
#include "nlohmann/json.hpp"

namespace lockstep::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(PreemptionText, SaysInStatusWhoDiesWhenAndWhoHasNotSaved) {
  StatusReply status = Server();
  status.jobs = {PreemptedJob(PreemptionPhase::kPending), PreemptedJob(PreemptionPhase::kHolding),
                 PreemptedJob(PreemptionPhase::kAgreed), EndedJob(PreemptionOutcome::kPartlySaved)};
  status.jobs[1].preemption->members[3] = {.member = 3, .state = SyncState::kAsked};
  status.jobs[2].preemption->state.sync_step = 120;
  status.jobs[2].preemption->members[0].state = SyncState::kSaved;
  ExpectGolden("preemption.txt", StatusTable(status));
}

TEST(PreemptionText, IsNotThereWithoutOne) {
  JobStatus job = PreemptedJob(PreemptionPhase::kHolding);
  job.preemption.reset();
  EXPECT_EQ(PreemptionText(job), "");
  EXPECT_EQ(SyncText(job, 1), "");
  EXPECT_TRUE(SyncLines(job).empty());
  EXPECT_THAT(MembersTable(job), Not(HasSubstr("PREEMPTION")));
  EXPECT_TRUE(nlohmann::json::parse(MembersJson(job))["preemption"].is_null());
}

TEST(PreemptionText, HasAColumnOfMembers) {
  ExpectGolden("preemption_members.txt", MembersTable(EndedJob(PreemptionOutcome::kPartlySaved)));
  const JobStatus job = PreemptedJob(PreemptionPhase::kHolding);
  EXPECT_EQ(SyncText(job, 0), "held at step 118");
  EXPECT_EQ(SyncText(job, 1), "dies in 27s; held at step 119");
  EXPECT_EQ(SyncText(PreemptedJob(PreemptionPhase::kPending), 1), "dies in 27s");
  const auto json = nlohmann::json::parse(MembersJson(job));
  EXPECT_EQ(json["preemption"]["state"]["phase"], "holding");
  EXPECT_EQ(json["preemption"]["members"][1]["step"], 119);
}

TEST(PreemptionText, SaysWhenADeathIsUnknownPassedOrWithdrawn) {
  JobStatus job = PreemptedJob(PreemptionPhase::kAgreed);
  PreemptionState& state = job.preemption->state;
  state.death_in_us = -3 * kSecond;
  EXPECT_EQ(LeftText(state), "due 3.0s ago");
  state.death_in_us.reset();
  EXPECT_EQ(LeftText(state), "nobody says when");
  state.withdrawn = true;
  EXPECT_THAT(PreemptionText(job), HasSubstr("withdrawn: no member will die"));
  EXPECT_EQ(SyncText(job, 1), "held at step 119");
  state.notices[0].subjects.clear();
  EXPECT_EQ(SubjectsText(job, state), "everybody");
}

TEST(PreemptionText, WhoAgreedIsWhoSaidWhereItIs) {
  const JobStatus job = EndedJob(PreemptionOutcome::kPartlySaved);
  EXPECT_THAT(MembersThatAgreed(job), ElementsAre(0, 1, 3));
  EXPECT_THAT(MembersThatSync(job, SyncState::kSilent), ElementsAre(2));
}

TEST(PreemptionText, IsShortForTenThousandMembers) {
  JobStatus job = PreemptedJob(PreemptionPhase::kAgreed);
  job.members.clear();
  job.preemption->members.clear();
  job.preemption->state.notices.resize(100, job.preemption->state.notices.front());
  for (int32_t i = 0; i < 10000; ++i) {
    job.members.push_back(Member(i, MemberCondition::kConnected));
    const SyncState state = i % 2 == 0 ? SyncState::kSaved : SyncState::kReached;
    job.preemption->members.push_back({.member = i, .state = state, .step = 120});
  }
  const std::string text = PreemptionText(job);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 10) << text;
  EXPECT_THAT(text, HasSubstr("+97 more notices"));
  EXPECT_THAT(text, HasSubstr("more at step 120"));
}

}  // namespace
}  // namespace lockstep::observe
