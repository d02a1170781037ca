#include "lockstep/server/data_speakers.h"

#include "gtest/gtest.h"

namespace lockstep::server {
namespace {

using dispatch::ConsumerId;
using dispatch::IterationId;
using dispatch::WorkerId;
using link::LinkId;

TEST(DataSpeakers, WhoHasSpokenOverAnotherLinkSinceDoesNotLeaveWithTheFormer) {
  DataSpeakers speakers;
  const DataSpeakers::ConsumerKey consumer(IterationId(1), ConsumerId(2));
  speakers.Speaks(LinkId(1), WorkerId(7));
  speakers.Speaks(LinkId(1), consumer);
  speakers.Speaks(LinkId(2), consumer);
  EXPECT_TRUE(speakers.IsUsed(LinkId(1)));
  const DataSpeakers::OfLink gone = speakers.EndLink(LinkId(1));
  EXPECT_EQ(gone.workers.size(), 1u);
  EXPECT_EQ(gone.consumers.size(), 1u);
  EXPECT_TRUE(speakers.Leaves(LinkId(1), WorkerId(7)));
  EXPECT_FALSE(speakers.HasLink(WorkerId(7)));
  EXPECT_FALSE(speakers.Leaves(LinkId(1), consumer));
  EXPECT_TRUE(speakers.HasLink(consumer));
  EXPECT_FALSE(speakers.IsUsed(LinkId(1)));
  EXPECT_TRUE(speakers.EndLink(LinkId(1)).workers.empty());
}

TEST(DataSpeakers, AConsumerThatClosesUsesItsLinkNoMore) {
  DataSpeakers speakers;
  const DataSpeakers::ConsumerKey consumer(IterationId(1), ConsumerId(2));
  speakers.Speaks(LinkId(1), consumer);
  speakers.Closes(LinkId(1), consumer);
  EXPECT_FALSE(speakers.IsUsed(LinkId(1)));
  EXPECT_FALSE(speakers.HasLink(consumer));
}

}  // namespace
}  // namespace lockstep::server
