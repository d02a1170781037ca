#include "lockstep/server/rendezvous_totals.h"

#include "gtest/gtest.h"
#include "lockstep/wire/native/codec.h"

namespace lockstep::server {
namespace {

using wire::native::Encode;
using wire::native::RendezvousReport;

Time At(int64_t seconds) { return Time() + absl::Seconds(seconds); }

RendezvousReport Waiting(const std::string& look) {
  return {.look = look,
          .waiting = {{.age_us = 5'000'000}, {.age_us = 9'000'000}},
          .waits = 2,
          .held_values = 3,
          .held_bytes = 4000};
}

TEST(RendezvousTotals, OfMembersWhileNobodyLooks) {
  RendezvousTotalsOfKeys keys;
  keys.Add("lockstep/rendezvous/card/0", "", At(1));
  keys.Add("lockstep/rendezvous/card/1", "", At(1));
  EXPECT_EQ(keys.totals().members, 2);
  EXPECT_FALSE(keys.totals().look.has_value());
}

TEST(RendezvousTotals, AddUpTheAnswersToTheLastLook) {
  RendezvousTotalsOfKeys keys;
  keys.Add("lockstep/rendezvous/card/0", "", At(1));
  keys.Add("lockstep/rendezvous/look", "second", At(7));
  keys.Add("lockstep/rendezvous/report/0", Encode(Waiting("second")), At(8));
  RendezvousReport other = Waiting("second");
  other.waiting = {{.age_us = 40'000'000}};
  keys.Add("lockstep/rendezvous/report/1", Encode(other), At(8));
  keys.Add("lockstep/rendezvous/report/2", Encode(Waiting("first")), At(3));
  keys.Add("lockstep/rendezvous/report/3", "garbage", At(8));
  keys.Add("lockstep/rendezvous/reporters", Encode(Waiting("second")), At(8));
  ASSERT_TRUE(keys.totals().look.has_value());
  EXPECT_EQ(keys.totals().look->at, At(7));
  EXPECT_EQ(keys.totals().look->answers, 2);
  EXPECT_EQ(keys.totals().look->waits, 4);
  EXPECT_EQ(keys.totals().look->held_values, 6);
  EXPECT_EQ(keys.totals().look->held_bytes, 8000);
  EXPECT_EQ(keys.totals().look->oldest_wait_us, 40'000'000);
}

}  // namespace
}  // namespace lockstep::server
