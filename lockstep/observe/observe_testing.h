// Jobs in several states, and golden files. For the tests of this folder.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lockstep/observe/suspects.h"
#include "lockstep/wire/native/status_messages.h"

namespace lockstep::observe {

using namespace wire::native;  // NOLINT: the messages are what these tests are about

inline constexpr int64_t kSecond = 1'000'000;

// Compares with the file; LOCKSTEP_UPDATE_GOLDEN=1 writes it instead.
inline void ExpectGolden(const std::string& name, const std::string& text) {
  const std::string path = std::string(LOCKSTEP_GOLDEN_DIR) + "/" + name;
  if (std::getenv("LOCKSTEP_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ostringstream expected;
  expected << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, expected.str()) << "in " << path;
}

inline MemberStatus Member(int32_t index, MemberCondition condition) {
  MemberStatus member = {.index = index,
                         .name = "task/" + std::to_string(index) + "#1",
                         .condition = condition,
                         .since_ago_us = 130 * kSecond,
                         .last_heard_ago_us = 12000 + index,
                         .peer = "127.0.0.1:" + std::to_string(40000 + index)};
  if (condition == MemberCondition::kMissing) {
    member.name = "task/" + std::to_string(index);
    member.last_heard_ago_us.reset();
    member.peer.clear();
  }
  return member;
}

inline StatusReply Server() {
  return {.server = {.version = "0.1.0",
                     .pid = 17,
                     .started_ago_us = 3700 * kSecond,
                     .listen = "127.0.0.1:7070"}};
}

// Four members, one of which was killed while the others wait for it.
inline JobStatus BrokenJob() {
  JobStatus job = {.job = "digits",
                   .size = 4,
                   .attempt = 2,
                   .state = AttemptState::kFailed,
                   .service_incarnation = 12345678901234567890u,
                   .started_ago_us = 130 * kSecond,
                   .keys = 12,
                   .key_bytes = 3456,
                   .waits = 5,
                   .grpc = "127.0.0.1:27002"};
  for (int32_t i = 0; i < 4; ++i) job.members.push_back(Member(i, MemberCondition::kConnected));
  job.members[2] = {.index = 2,
                    .name = "task/2#1",
                    .condition = MemberCondition::kLost,
                    .since_ago_us = 340000,
                    .last_heard_ago_us = 2300000,
                    .why = "its process was killed by signal 9",
                    .peer = "127.0.0.1:40002",
                    .host = "host7",
                    .pid = 4711};
  job.members[3].condition = MemberCondition::kSuspect;
  job.members[3].why = "stopped by a signal";
  job.barriers = {{.id = "loaded",
                   .counter = 3,
                   .opened_ago_us = 41 * kSecond,
                   .deadline_in_us = 19 * kSecond,
                   .waiting = {0, 1},
                   .awaited = {2, 3}}};
  job.key_waits = {
      {.key = "config/lr", .waiters = 2, .since_ago_us = 5 * kSecond, .members = {0, 1}}};
  job.errors = {{.at_ago_us = 100 * kSecond,
                 .code = 4,
                 .reason = "registration_failed",
                 .message = "only 3 of 4 came",
                 .attempt = 1},
                {.at_ago_us = 300000,
                 .code = 1,
                 .reason = "cluster_failed",
                 .message = "set to error with everybody else",
                 .origin = "task/0#1",
                 .consequence = true,
                 .attempt = 2},
                {.at_ago_us = 340000,
                 .code = 14,
                 .reason = "process_ended",
                 .message = "task/2#1: its process was killed by signal 9",
                 .origin = "task/2#1",
                 .attempt = 2}};
  return job;
}

// Eighty members, of which a few are not there.
inline JobStatus LongJob() {
  JobStatus job = {.job = "wide",
                   .size = 80,
                   .attempt = 1,
                   .state = AttemptState::kWaiting,
                   .started_ago_us = 20 * kSecond,
                   .grpc = "127.0.0.1:27003"};
  for (int32_t i = 0; i < 80; ++i) {
    const bool missing = i == 7 || i >= 75;
    job.members.push_back(
        Member(i, missing ? MemberCondition::kMissing : MemberCondition::kConnected));
  }
  job.members[11].condition = MemberCondition::kSuspect;
  job.members[11].why = "nothing heard for 41s";
  std::vector<int32_t> waiting;
  for (int32_t i = 0; i < 80; i += 2) waiting.push_back(i);
  job.barriers = {
      {.id = "all", .opened_ago_us = kSecond, .waiting = waiting, .awaited = {7, 11, 75, 76, 77}}};
  return job;
}

// Four members that run, of which one is told to die.
inline JobStatus PreemptedJob(PreemptionPhase phase) {
  JobStatus job = {.job = "digits",
                   .size = 4,
                   .attempt = 1,
                   .state = AttemptState::kRunning,
                   .started_ago_us = 600 * kSecond,
                   .grpc = "127.0.0.1:27002"};
  for (int32_t i = 0; i < 4; ++i) {
    job.members.push_back(Member(i, MemberCondition::kConnected));
    job.members.back().step = 117 + i % 2;
  }
  PreemptionStatus& preemption = job.preemption.emplace();
  preemption.state = {.version = 7,
                      .id = 2,
                      .phase = phase,
                      .outcome = PreemptionOutcome::kNone,
                      .notices = {{.source = "gce",
                                   .event = "e1",
                                   .subjects = {1},
                                   .death_in_us = 27 * kSecond,
                                   .text = "TERMINATE_ON_HOST_MAINTENANCE"}},
                      .death_in_us = 27 * kSecond,
                      .since_ago_us = 3 * kSecond};
  if (phase == PreemptionPhase::kPending) return job;
  for (int32_t i = 0; i < 4; ++i) {
    preemption.members.push_back({.member = i, .state = SyncState::kHeld, .step = 118 + i % 2});
  }
  return job;
}

// The same, over, with one member that saved, one that did not, and two that say nothing.
inline JobStatus EndedJob(PreemptionOutcome outcome) {
  JobStatus job = PreemptedJob(PreemptionPhase::kEnded);
  PreemptionStatus& preemption = *job.preemption;
  preemption.state.sync_step = 120;
  preemption.state.outcome = outcome;
  preemption.state.text = "1 of 4 members saved at step 120; task/2 silent; task/3 failed";
  preemption.members[0] = {
      .member = 0, .state = SyncState::kSaved, .step = 120, .text = "/ckpt/120"};
  preemption.members[1] = {.member = 1, .state = SyncState::kReached, .step = 120};
  preemption.members[2] = {
      .member = 2, .state = SyncState::kSilent, .text = "did not answer within 5.0s"};
  preemption.members[3] = {
      .member = 3, .state = SyncState::kFailed, .step = 120, .text = "disk full\n\x1B[2J"};
  return job;
}

// Of four processes that none has joined.
inline JobStatus StockJob() {
  JobStatus job = {.job = "digits", .size = 4, .attempt = 1, .state = AttemptState::kWaiting};
  for (int32_t i = 0; i < 4; ++i) {
    job.members.push_back(Member(i, MemberCondition::kMissing));
    MemberStatus& member = job.members.back();
    member.host = "host-b";
    member.pid = 1000 + i;
    member.process = ProcessState::kRunning;
    member.process_since_ago_us = 60 * kSecond;
    member.why = "its process has run for 60s, and has not joined";
  }
  return job;
}

// Where its processes may be.
inline ProcessLocation At(int32_t member, ProcessLocation::Doing doing, const std::string& place) {
  const bool runs = doing == ProcessLocation::Doing::kRuns;
  return {.member = member,
          .name = "task/" + std::to_string(member),
          .host = "host-b",
          .pid = 1000 + member,
          .doing = doing,
          .place = place,
          .one = (runs ? "runs " : "waits in ") + place,
          .many = (runs ? "run " : "wait in ") + place};
}
inline ProcessLocation Loads(int32_t member) {
  return At(member, ProcessLocation::Doing::kRuns, "load, loader.py:31");
}
inline ProcessLocation InAllReduce(int32_t member) {
  ProcessLocation process = At(member, ProcessLocation::Doing::kWaits, "all_reduce, train.py:88");
  process.for_others = true;
  process.still_us = 41 * kSecond;
  return process;
}
inline ProcessLocation InBarrier(int32_t member) {
  ProcessLocation process = At(member, ProcessLocation::Doing::kWaits, "barrier, train.py:92");
  process.for_others = true;
  process.still_us = 40 * kSecond;
  return process;
}

}  // namespace lockstep::observe
