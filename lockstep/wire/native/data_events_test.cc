#include "lockstep/wire/native/data_events.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/data_definition.h"

namespace lockstep::wire::native {
namespace {

using dispatch::ConsumerId;
using dispatch::ConsumerLife;
using dispatch::DatasetId;
using dispatch::IterationId;
using dispatch::LaneId;
using dispatch::TaskId;
using dispatch::WorkerId;

template <class Message>
Message Back(const std::string& bytes) {
  auto message = Decode<Message>(bytes);
  EXPECT_TRUE(message.ok()) << message.status();
  return *std::move(message);
}

TEST(DataEvents, AnAssignmentArrivesAsItWas) {
  dispatch::Assignment sent;
  sent.service = 7;
  sent.version = 8;
  sent.phase = dispatch::Phase::kReading;
  sent.error = dispatch::MakeError(absl::StatusCode::kNotFound, "source_missing", "gone");
  sent.lanes.push_back(
      {.lane = LaneId(1),
       .task = TaskId(2),
       .starting_round = 3,
       .base_round = 4,
       .base_element = 5,
       .first_element = -1,
       .grants = {{.seq = 6, .segment = 7, .from = 8, .worker = WorkerId(9), .elements = 10},
                  {.seq = 7, .segment = 8}},
       .closed = true});
  sent.workers.push_back({WorkerId(9), "host:1", "card"});
  sent.block_round = 11;
  sent.seatings.push_back({.first_round = 12, .consumers = 13, .index = -1});
  sent.next_segment = 14;
  sent.returned.emplace_back(15, 16);
  sent.waits_for = "the worker at host:1";

  auto reply = Back<ConsumerPollReply>(EncodeAnswer(sent));
  const auto got = AnswerOf(reply);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->service, sent.service);
  EXPECT_EQ(got->version, sent.version);
  EXPECT_EQ(got->waits_for, sent.waits_for);
  EXPECT_EQ(got->phase, sent.phase);
  ASSERT_NE(got->error, nullptr);
  EXPECT_EQ(got->error->reason, "source_missing");
  EXPECT_EQ(got->error->message, "gone");
  ASSERT_EQ(got->lanes.size(), 1U);
  const dispatch::Lane& lane = got->lanes[0];
  EXPECT_EQ(lane.lane, LaneId(1));
  EXPECT_EQ(lane.task, TaskId(2));
  EXPECT_EQ(lane.starting_round, 3);
  EXPECT_EQ(lane.base_round, 4);
  EXPECT_EQ(lane.base_element, 5);
  EXPECT_EQ(lane.first_element, -1);
  EXPECT_TRUE(lane.closed);
  ASSERT_EQ(lane.grants.size(), 2U);
  EXPECT_EQ(lane.grants[0].worker, WorkerId(9));
  EXPECT_EQ(lane.grants[0].from, 8);
  EXPECT_EQ(lane.grants[0].elements, 10);
  EXPECT_EQ(lane.grants[1].elements, -1);
  ASSERT_EQ(got->workers.size(), 1U);
  EXPECT_EQ(got->workers[0].host_card, "card");
  EXPECT_EQ(got->block_round, sent.block_round);
  EXPECT_EQ(got->seatings, sent.seatings);
  EXPECT_EQ(got->next_segment, 14);
  EXPECT_EQ(got->returned, sent.returned);
}

TEST(DataEvents, APollArrivesAsItWas) {
  dispatch::ConsumerPoll sent;
  sent.iteration = IterationId(1);
  sent.consumer = ConsumerId(2);
  sent.life = ConsumerLife(3);
  sent.number = 4;
  sent.service = 5;
  sent.after = 6;
  sent.wait = absl::Seconds(7);
  sent.acks = {{LaneId(8), 9, 10, true}};
  sent.progress = {{LaneId(11), 12, 13}};
  sent.counts = {{LaneId(14), 15, 16}};
  sent.unreachable = {WorkerId(17)};
  sent.failures = {
      {.lane = LaneId(18),
       .seq = 19,
       .segment = 20,
       .worker = WorkerId(21),
       .error = dispatch::MakeError(absl::StatusCode::kDataLoss, "record_poisoned", "bad")}};
  sent.round = 22;
  sent.blocked_round = 23;
  sent.finished = true;
  sent.end = {26, 27, 28};
  sent.waits_for = "segment 24";
  sent.element_time = absl::Milliseconds(25);

  auto message = Back<ConsumerPoll>(Encode(MessageOf(sent)));
  const auto got = EventOf(message, CallId(99));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->call, CallId(99));
  EXPECT_EQ(got->iteration, sent.iteration);
  EXPECT_EQ(got->consumer, sent.consumer);
  EXPECT_EQ(got->life, sent.life);
  EXPECT_EQ(got->number, 4);
  EXPECT_EQ(got->service, 5U);
  EXPECT_EQ(got->after, 6);
  EXPECT_EQ(got->wait, sent.wait);
  ASSERT_EQ(got->acks.size(), 1U);
  EXPECT_EQ(got->acks[0].elements, 10);
  EXPECT_TRUE(got->acks[0].done);
  ASSERT_EQ(got->progress.size(), 1U);
  EXPECT_EQ(got->progress[0].needs, 13);
  ASSERT_EQ(got->counts.size(), 1U);
  EXPECT_EQ(got->counts[0].elements, 16);
  EXPECT_EQ(got->unreachable, sent.unreachable);
  ASSERT_EQ(got->failures.size(), 1U);
  EXPECT_EQ(got->failures[0].worker, WorkerId(21));
  EXPECT_EQ(got->failures[0].error->reason, "record_poisoned");
  EXPECT_EQ(got->round, 22);
  EXPECT_EQ(got->blocked_round, 23);
  EXPECT_TRUE(got->finished);
  EXPECT_EQ(got->end, sent.end);
  EXPECT_EQ(got->waits_for, "segment 24");
  EXPECT_EQ(got->element_time, sent.element_time);
}

TEST(DataEvents, AnIterationIsOpenedAsItWasAsked) {
  dispatch::OpenIteration sent;
  sent.spec = {.name = "train",
               .repetition = 1,
               .dataset = DatasetId(2),
               .mode = dispatch::Mode::kRounds,
               .sharding = dispatch::Sharding::kStaticFile,
               .visitation = dispatch::Visitation::kAtMostOnce,
               .consumers = 3,
               .shares = 4,
               .worker_addresses = {"a:1"},
               .cursor = "cursor"};
  sent.consumer = "me";
  sent.life = ConsumerLife(5);
  sent.index = 6;
  sent.have = {{LaneId(7), 8, 9, false}};
  sent.from = dispatch::ReadingPlace{12, 10, 13};
  sent.host = "host";
  sent.pid = 11;
  auto message = Back<OpenIteration>(Encode(MessageOf(sent)));
  const auto got = EventOf(message, CallId(1));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->spec.name, "train");
  EXPECT_EQ(got->from, sent.from);
  EXPECT_EQ(got->spec.mode, sent.spec.mode);
  EXPECT_EQ(got->spec.sharding, sent.spec.sharding);
  EXPECT_EQ(got->spec.visitation, sent.spec.visitation);
  EXPECT_EQ(got->spec.shares, 4);
  EXPECT_EQ(got->spec.worker_addresses, sent.spec.worker_addresses);
  EXPECT_EQ(got->spec.cursor, "cursor");
  EXPECT_EQ(got->consumer, "me");
  EXPECT_EQ(got->index, 6);
  EXPECT_EQ(got->have.size(), 1U);
  EXPECT_EQ(got->pid, 11);

  message.spec.mode = static_cast<ReadingMode>(77);
  EXPECT_FALSE(EventOf(message, CallId(1)).ok());
}

TEST(DataEvents, WhoOpenedIsToldWhatCounts) {
  const dispatch::IterationOpened sent = {.iteration = IterationId(1),
                                          .consumer = ConsumerId(2),
                                          .name = "train",
                                          .index = 3,
                                          .lease_had_ended = true,
                                          .counted = {{LaneId(4), 5, 6, false}}};
  auto reply = Back<OpenIterationReply>(EncodeAnswer(sent));
  const auto got = AnswerOf(reply);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->index, 3);
  EXPECT_TRUE(got->lease_had_ended);
  ASSERT_EQ(got->counted.size(), 1U);
  EXPECT_EQ(got->counted[0].elements, 6);
}

TEST(DataDefinition, ComesBackAsItWas) {
  plan::Definition sent;
  sent.nodes.push_back({.id = 3,
                        .op = "array",
                        .attrs = {{"a", int64_t{-5}},
                                  {"b", 1.5},
                                  {"c", true},
                                  {"d", std::string("\xff\x00x", 3)},
                                  {"e", std::vector<int64_t>{1, -2}},
                                  {"f", std::vector<std::string>{"", "\xfe"}}},
                        .where = "train.py:3"});
  sent.nodes.push_back({.id = 4, .op = "batch", .inputs = {3}});
  const auto got = DecodeDefinition(EncodeDefinition(sent));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(*got, sent);
  EXPECT_FALSE(DecodeDefinition("\x12\x7f").ok());
}

TEST(DataManifest, ComesBackAsItWas) {
  const plan::Manifest sent = {
      .files = {{.node = 1, .path = "/d/\xff", .bytes = 2, .mtime_ns = 3, .records = 4}},
      .specs = {{1, "float32[3]"}}};
  const auto got = DecodeManifest(EncodeManifest(sent));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(*got, sent);
}

}  // namespace
}  // namespace lockstep::wire::native
