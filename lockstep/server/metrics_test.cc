#include "lockstep/server/metrics.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using wire::native::JobStatus;
using wire::native::MemberCondition;

TEST(Metrics, TellOfJobsWithoutNamingMembers) {
  ServerView view;
  view.status.server = {.version = "0.1.0", .started_ago_us = 1'500'000};
  JobStatus job = {.job = "digits", .size = 3, .attempt = 2, .keys = 5, .waits = 7};
  job.members = {
      {.name = "task/0#1",
       .condition = MemberCondition::kConnected,
       .last_heard_ago_us = 2'500'000},
      {.name = "task/1#1", .condition = MemberCondition::kConnected, .last_heard_ago_us = 10},
      {.name = "task/2#1", .condition = MemberCondition::kLost, .last_heard_ago_us = 99'000'000}};
  job.barriers = {{.id = "b", .opened_ago_us = 3'000'000}, {.id = "c", .opened_ago_us = 1}};
  job.barriers_open = 10'000;
  view.status.jobs = {job};
  view.journal = JournalPlace{.newest = 12, .durable = 11};
  view.counts = {{.sessions = 2, .connections = 4}};
  view.counters.Count(coord::Event(coord::SetKey{}));
  view.counters.Count(coord::Event(coord::Heartbeat{}));
  view.counters.Count(coord::Error{.reason = coord::Reason::kBarrierTimedOut});
  view.fan_out = {.answers = 48, .bytes = 9'000, .fallbacks = 3};
  const std::string text = MetricsText(view);
  for (const char* line : {
           "lockstep_build_info{version=\"0.1.0\"} 1\n",
           "lockstep_uptime_seconds 1.5\n",
           "lockstep_ready 1\n",
           "lockstep_journal_durable_sequence 11\n",
           "lockstep_members{condition=\"connected\",job=\"digits\"} 2\n",
           "lockstep_members{condition=\"lost\",job=\"digits\"} 1\n",
           "lockstep_open_barriers{job=\"digits\"} 10000\n",
           "lockstep_oldest_barrier_seconds{job=\"digits\"} 3\n",
           "lockstep_oldest_heartbeat_seconds{job=\"digits\"} 2.5\n",
           "lockstep_parked_waits{job=\"digits\"} 7\n",
           "lockstep_sessions{job=\"digits\"} 2\n",
           "lockstep_connections{job=\"digits\"} 4\n",
           "lockstep_requests_total{kind=\"set_key\"} 1\n",
           "lockstep_requests_total{kind=\"heartbeat\"} 1\n",
           "lockstep_requests_total{kind=\"stop\"} 0\n",
           "lockstep_errors_total{reason=\"barrier_timed_out\"} 1\n",
           "lockstep_fan_out_answers_total 48\n",
           "lockstep_fan_out_bytes_total 9000\n",
           "lockstep_fan_out_fallbacks_total 3\n",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("task/")));
  EXPECT_THAT(text, Not(HasSubstr("reason=\"key_exists\""))) << "only those that have happened";
}

TEST(Metrics, TellOfPreemptions) {
  ServerView view;
  using wire::native::PreemptionPhase;
  JobStatus job = {.job = "digits"};
  job.preemption.emplace().state = {
      .id = 2, .phase = PreemptionPhase::kAgreed, .notices = {{}, {}}};
  view.status.jobs = {job, {.job = "quiet"}};
  coord::PreemptionState state = {.phase = coord::PreemptionPhase::kAgreed};
  view.counters.Count(state);
  state.phase = coord::PreemptionPhase::kEnded;
  state.outcome = coord::PreemptionOutcome::kSaved;
  view.counters.Count(state);
  const std::string text = MetricsText(view);
  for (const char* line : {
           "lockstep_preemption_phase{job=\"digits\",phase=\"agreed\"} 1\n",
           "lockstep_preemption_phase{job=\"digits\",phase=\"none\"} 0\n",
           "lockstep_preemption_phase{job=\"quiet\",phase=\"none\"} 1\n",
           "lockstep_preemption_notices{job=\"digits\"} 2\n",
           "lockstep_preemption_notices{job=\"quiet\"} 0\n",
           "lockstep_preemptions_ended_total{outcome=\"saved\"} 1\n",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("outcome=\"none\"")));
}

TEST(Metrics, TellOfTheRendezvousAsOfTheLastLook) {
  ServerView view;
  view.at = Time() + absl::Seconds(100);
  view.status.jobs = {{.job = "digits"}, {.job = "quiet"}};
  view.counts = {{.rendezvous = {.members = 3,
                                 .look = RendezvousLookTotals{.at = Time() + absl::Seconds(88),
                                                              .answers = 2,
                                                              .waits = 4,
                                                              .held_values = 5,
                                                              .held_bytes = 6000,
                                                              .oldest_wait_us = 7'500'000}}},
                 {.rendezvous = {.members = 1}}};
  const std::string text = MetricsText(view);
  for (const char* line : {
           "lockstep_rendezvous_members{job=\"digits\"} 3\n",
           "lockstep_rendezvous_members{job=\"quiet\"} 1\n",
           "lockstep_rendezvous_look_age_seconds{job=\"digits\"} 12\n",
           "lockstep_rendezvous_look_answers{job=\"digits\"} 2\n",
           "lockstep_rendezvous_waits{job=\"digits\"} 4\n",
           "lockstep_rendezvous_oldest_wait_seconds{job=\"digits\"} 7.5\n",
           "lockstep_rendezvous_held_values{job=\"digits\"} 5\n",
           "lockstep_rendezvous_held_bytes{job=\"digits\"} 6000\n",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("lockstep_rendezvous_waits{job=\"quiet\"}"))) << "nobody looked";
}

TEST(Metrics, TellOfTorchsStores) {
  ServerView view;
  view.status.jobs = {{.job = "digits"}, {.job = "none"}};
  view.status.jobs[0].torch_store = {.attempt = 3,
                                     .connections = 4,
                                     .keys = 5,
                                     .queues = 6,
                                     .bytes = 700,
                                     .waits = 8,
                                     .keys_awaited = 9,
                                     .awaited = {{.key = "/a", .since_ago_us = 2'500'000}}};
  view.counts.resize(2);
  view.counts[0].torch_commands[tcpstore::Command(tcpstore::Set{}).index()] = 10;
  view.counts[0].torch_commands[tcpstore::Command(tcpstore::Barrier{}).index()] = 11;
  const std::string text = MetricsText(view);
  for (const char* line : {
           "lockstep_torch_store_attempt{job=\"digits\"} 3\n",
           "lockstep_torch_store_connections{job=\"digits\"} 4\n",
           "lockstep_torch_store_keys{job=\"digits\"} 5\n",
           "lockstep_torch_store_queues{job=\"digits\"} 6\n",
           "lockstep_torch_store_bytes{job=\"digits\"} 700\n",
           "lockstep_torch_store_waits{job=\"digits\"} 8\n",
           "lockstep_torch_store_awaited_keys{job=\"digits\"} 9\n",
           "lockstep_torch_store_oldest_wait_seconds{job=\"digits\"} 2.5\n",
           "lockstep_torch_store_commands_total{command=\"set\",job=\"digits\"} 10\n",
           "lockstep_torch_store_commands_total{command=\"barrier\",job=\"digits\"} 11\n",
       }) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("lockstep_torch_store_keys{job=\"none\"}"))) << "it has none";
  EXPECT_THAT(text, Not(HasSubstr("command=\"ping\""))) << "only those that came";
}

TEST(Metrics, OfOneJobLeaveOutWhatAddsUpAll) {
  ServerView view;
  view.status.server.version = "1.2";
  view.status.jobs = {{.job = "digits"}};
  view.counts.resize(1);
  const std::string text = JobMetricsText(view);
  EXPECT_THAT(text, HasSubstr("lockstep_build_info{version=\"1.2\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("lockstep_job_size{job=\"digits\"}"));
  for (const char* name : {"lockstep_jobs", "lockstep_links", "lockstep_requests_total",
                           "lockstep_data_", "lockstep_uptime", "lockstep_memory"}) {
    EXPECT_THAT(text, Not(HasSubstr(name))) << name;
  }
}

TEST(Metrics, SayWhenTheServerIsNotReady) {
  ServerView view;
  view.not_ready = {"the server is shutting down"};
  EXPECT_THAT(MetricsText(view), HasSubstr("lockstep_ready 0\n"));
}

TEST(Counters, EveryEventHasAName) {
  for (size_t i = 0; i < kEventKinds; ++i) EXPECT_NE(EventName(i), "") << i;
  EXPECT_EQ(EventName(coord::Event(coord::ArriveAtBarrier{}).index()), "arrive_at_barrier");
  EXPECT_EQ(EventName(coord::Event(coord::Stop{}).index()), "stop");
}

}  // namespace
}  // namespace lockstep::server
