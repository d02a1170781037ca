#include "lockstep/observe/data_text.h"

#include "gtest/gtest.h"
#include "lockstep/observe/observe_testing.h"
#include "nlohmann/json.hpp"

namespace lockstep::observe {
namespace {

using namespace wire::native;  // NOLINT: the messages are what this test is about

DataStatusReply Busy() {
  DataStatusReply status;
  status.datasets = {{.dataset = 3,
                      .name = "c4",
                      .identity = "0123456789abcdef0123456789abcdef",
                      .needs_manifest = true,
                      .resolved = true,
                      .iterations = 1},
                     {.dataset = 4,
                      .name = "evals",
                      .identity = "fedcba9876543210fedcba9876543210",
                      .needs_manifest = true}};
  status.workers = {{.worker = 71,
                     .address = "10.0.0.7:9000",
                     .host = "host7",
                     .pid = 4711,
                     .tags = {"cpu"},
                     .tasks = 1,
                     .grants = 2,
                     .silent_us = 120'000,
                     .element_time_ns = 41'500},
                    {.worker = 72,
                     .address = "10.0.0.8:9000",
                     .host = "host8",
                     .pid = 12,
                     .silent_us = 9'000'000}};
  status.workers_wanted = 4;
  IterationStatus train{
      .iteration = 9,
      .spec = {.name = "train", .dataset = 3, .mode = ReadingMode::kRounds, .consumers = 2},
      .phase = IterationPhase::kReading,
      .granted = 34,
      .round = 12,
      .waits_for = "consumer 1 (host2:5) waits for segment 17 of 10.0.0.8:9000"};
  train.consumers = {
      {.consumer = 1, .name = "c-0", .index = 0, .host = "host1", .pid = 4, .round = 12},
      {.consumer = 2,
       .name = "c-1\n",
       .index = 1,
       .host = "host2",
       .pid = 5,
       .round = 11,
       .silent_us = 2'000'000,
       .waits_for = "segment 17 of 10.0.0.8:9000"}};
  train.tasks = {{.task = 1, .worker = 71, .starting_round = 0},
                 {.task = 2, .worker = 71, .stand_in = true, .starting_round = 3},
                 {.task = 5, .worker = 72}};
  IterationStatus eval{.iteration = 10,
                       .spec = {.name = "eval", .repetition = 2, .dataset = 4},
                       .phase = IterationPhase::kFailed,
                       .error = DataError{.code = 5,
                                          .reason = "source_missing",
                                          .message = {"/data/*.npy matches no file"}},
                       .segments = 40,
                       .done = 17,
                       .dropped = 1};
  status.iterations = {train, eval};
  return status;
}

TEST(DataTable, ShowsIterationsWorkersAndDatasets) {
  ExpectGolden("data.txt", DataTable(Busy(), ""));
}

TEST(DataTable, ShowsOneIterationInFull) {
  ExpectGolden("data_iteration.txt", DataTable(Busy(), "train"));
}

TEST(DataTable, ShowsWhoHoldsElementsAndWhoseOwnPlaceWaits) {
  DataStatusReply status = Busy();
  status.iterations[0].consumers[0].unacknowledged = 120;
  status.iterations[0].consumers[1].away = true;
  const std::string text = DataTable(status, "train");
  EXPECT_NE(text.find("120 unacknowledged"), std::string::npos) << text;
  EXPECT_NE(text.find("lost: waiting for a successor to take its place"), std::string::npos)
      << text;
}

TEST(DataTable, IsShortWhenNothingHappens) { EXPECT_EQ(DataTable({}, ""), "no workers\n"); }

TEST(DataJson, HasEverything) {
  const auto json = nlohmann::json::parse(DataJson(Busy(), ""));
  EXPECT_EQ(json["iterations"][0]["spec"]["mode"], "rounds");
  EXPECT_EQ(json["iterations"][0]["consumers"][1]["round"], 11);
  EXPECT_EQ(json["workers"][0]["address"], "10.0.0.7:9000");
  EXPECT_EQ(json["datasets"].size(), 2U);
  EXPECT_EQ(nlohmann::json::parse(DataJson(Busy(), "eval"))["iterations"].size(), 1U);
}

TEST(DataTable, ANumberOfSegmentsThatIsNotKnownIsNotShown) {
  DataStatusReply status;
  IterationStatus& iteration = status.iterations.emplace_back();
  iteration.spec.name = "train";
  iteration.spec.mode = wire::native::ReadingMode::kExact;
  iteration.segments = -1;  // of an older server
  EXPECT_EQ(DataTable(status, "").find("of -1"), std::string::npos);
  iteration.segments = 1;
  iteration.phase = IterationPhase::kFinished;
  EXPECT_NE(DataTable(status, "").find("all of 1 segment "), std::string::npos);
}

}  // namespace
}  // namespace lockstep::observe
