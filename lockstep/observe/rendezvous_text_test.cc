#include "lockstep/observe/rendezvous_text.h"

#include "gtest/gtest.h"
#include "lockstep/observe/observe_testing.h"
#include "nlohmann/json.hpp"

namespace lockstep::observe {
namespace {

RendezvousAnswers StuckRing() {
  return {.job = "digits",
          .reports = {{.member = 0,
                       .name = "trainer/0",
                       .waiting = {{.step = 7,
                                    .peer = 2,
                                    .peer_name = "trainer/2",
                                    .name = "grad/w0",
                                    .count = 1,
                                    .age_us = 31'000'000}},
                       .unclaimed = {{.step = 7,
                                      .peer = 1,
                                      .peer_name = "trainer/1",
                                      .name = "grad/w1",
                                      .count = 2,
                                      .bytes = 3 << 20,
                                      .age_us = 5'000'000}},
                       .peers = {{.peer = 1, .name = "trainer/1", .transport = "shm"},
                                 {.peer = 2,
                                  .name = "trainer/2",
                                  .transport = "tcp",
                                  .why = "it is on another host"}},
                       .steps = 1,
                       .waits = 1,
                       .arena_reserved_bytes = 64 << 20},
                      {.member = 1,
                       .name = "trainer/1",
                       .held = {{.step = 8,
                                 .peer = 2,
                                 .peer_name = "trainer/2",
                                 .name = "act\n/3",
                                 .count = 1000,
                                 .bytes = 100,
                                 .age_us = 40'000}},
                       .peers = {{.peer = 2,
                                  .name = "trainer/2",
                                  .why = "its process was killed by SIGKILL",
                                  .lost = true}},
                       .steps = 2,
                       .held_values = 1000,
                       .held_bytes = 100'000}},
          .silent = {"trainer/3#1"}};
}

TEST(RendezvousTable, SaysWhoWaitsForWhom) {
  ExpectGolden("rendezvous.txt", RendezvousTable(StuckRing()));
}

TEST(RendezvousTable, IsShortWhenNothingHappens) {
  EXPECT_EQ(RendezvousTable({.job = "digits"}),
            "job digits: 0 members exchange tensors\n"
            "MEMBER  STEPS  WAITS  HELD  BYTES  ARENA  PEERS\n");
}

TEST(RendezvousJson, HasEverything) {
  const auto json = nlohmann::json::parse(RendezvousJson(StuckRing()));
  EXPECT_EQ(json["members"][0]["waiting"][0]["name"], "grad/w0");
  EXPECT_EQ(json["members"][1]["held"][0]["name"], "act\n/3");
  EXPECT_EQ(json["silent"][0], "trainer/3#1");
}

}  // namespace
}  // namespace lockstep::observe
