#include "lockstep/agent/torch_stream.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"

namespace lockstep::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = TorchStream::Kind;

class TorchStreamTest : public ::testing::Test {
 protected:
  // What goes on now: numbers and bytes.
  std::vector<std::string> Take() {
    std::vector<std::string> taken;
    while (auto next = stream_.TakeNext()) taken.push_back(absl::StrCat(next->number, next->bytes));
    return taken;
  }

  TorchStream stream_;
};

TEST_F(TorchStreamTest, ACommandWaitsForTheAnswerBeforeIt) {
  stream_.Push(Kind::kAsk, "add");
  stream_.Push(Kind::kTell, "set");
  EXPECT_THAT(Take(), ElementsAre("1add"));
  EXPECT_TRUE(stream_.Answered(1));
  EXPECT_FALSE(stream_.Answered(1));
  EXPECT_THAT(Take(), ElementsAre("2set"));
}

TEST_F(TorchStreamTest, WhatHasNoAnswerIsNotWaitedFor) {
  for (size_t i = 0; i + 1 < TorchStream::kUnderWayMax; ++i) stream_.Push(Kind::kTell, "");
  stream_.Push(Kind::kAsk, "get");
  stream_.Push(Kind::kTell, "set");
  EXPECT_EQ(Take().size(), TorchStream::kUnderWayMax);
  EXPECT_TRUE(stream_.Answered(1));
  EXPECT_THAT(Take(), IsEmpty());
  EXPECT_TRUE(stream_.Answered(TorchStream::kUnderWayMax));
  EXPECT_THAT(Take(), ElementsAre("65set"));
}

TEST_F(TorchStreamTest, NotManyAreUnderWay) {
  for (size_t i = 0; i < TorchStream::kUnderWayMax; ++i) stream_.Push(Kind::kTell, "");
  stream_.Push(Kind::kAsk, "get");
  EXPECT_EQ(Take().size(), TorchStream::kUnderWayMax);
  EXPECT_TRUE(stream_.Answered(1));
  EXPECT_THAT(Take(), ElementsAre("65get"));
}

TEST_F(TorchStreamTest, AWaitIsTakenBackHere) {
  stream_.Push(Kind::kWait, "wait");
  EXPECT_THAT(Take(), ElementsAre("1wait"));
  stream_.Push(Kind::kCancel, "cancel");
  stream_.Push(Kind::kAsk, "get");
  EXPECT_THAT(Take(), ElementsAre("1cancel", "2get"));
  EXPECT_FALSE(stream_.Answered(1));  // too late
}

TEST_F(TorchStreamTest, AWaitThatWasAnsweredIsNotTakenBack) {
  stream_.Push(Kind::kWait, "wait");
  EXPECT_THAT(Take(), ElementsAre("1wait"));
  EXPECT_EQ(stream_.wait(), 1);
  EXPECT_TRUE(stream_.Answered(1));
  EXPECT_EQ(stream_.wait(), 0);
  stream_.Push(Kind::kCancel, "cancel");
  EXPECT_THAT(Take(), ElementsAre("0cancel"));
}

TEST_F(TorchStreamTest, ACancellationWaitsForChangesBeforeIt) {
  stream_.Push(Kind::kAsk, "add");
  stream_.Push(Kind::kCancel, "cancel");
  EXPECT_THAT(Take(), ElementsAre("1add"));
  EXPECT_TRUE(stream_.Answered(1));
  EXPECT_THAT(Take(), ElementsAre("0cancel"));
}

TEST_F(TorchStreamTest, ACancellationOvertakesWhatHasNoAnswer) {
  for (size_t i = 0; i < TorchStream::kUnderWayMax; ++i) stream_.Push(Kind::kTell, "set");
  EXPECT_EQ(Take().size(), TorchStream::kUnderWayMax);
  stream_.Push(Kind::kTell, "set");
  stream_.Push(Kind::kWait, "wait");
  stream_.Push(Kind::kCancel, "cancel");
  stream_.Push(Kind::kAsk, "get");
  EXPECT_THAT(Take(), ElementsAre("0cancel"));
  EXPECT_TRUE(stream_.Answered(1));
  EXPECT_THAT(Take(), ElementsAre("65set"));
  EXPECT_TRUE(stream_.Answered(2));
  EXPECT_THAT(Take(), ElementsAre("66get"));
}

TEST_F(TorchStreamTest, BehindAWaitNothingElseGoesOn) {
  stream_.Push(Kind::kWait, "wait");
  stream_.Push(Kind::kAsk, "get");
  EXPECT_THAT(Take(), ElementsAre("1wait"));
  EXPECT_TRUE(stream_.Answered(1));
  EXPECT_THAT(Take(), ElementsAre("2get"));
}

TEST_F(TorchStreamTest, ALongCommandIsUnderWayAlone) {
  const std::string longer(TorchStream::kTogetherBytesMax + 1, 'x');
  stream_.Push(Kind::kTell, "a");
  stream_.Push(Kind::kTell, longer);
  stream_.Push(Kind::kTell, "b");
  EXPECT_THAT(Take(), ElementsAre("1a"));
  EXPECT_TRUE(stream_.Answered(1));
  EXPECT_THAT(Take(), ElementsAre("2" + longer));
  EXPECT_TRUE(stream_.Answered(2));
  EXPECT_THAT(Take(), ElementsAre("3b"));
}

TEST_F(TorchStreamTest, ACommandNamesTheOneBeforeItThatIsUnderWay) {
  for (int i = 0; i < 3; ++i) stream_.Push(Kind::kTell, "");
  EXPECT_EQ(stream_.TakeNext()->after, 0);
  EXPECT_EQ(stream_.TakeNext()->after, 1);
  EXPECT_TRUE(stream_.Answered(1));
  EXPECT_TRUE(stream_.Answered(2));
  EXPECT_EQ(stream_.TakeNext()->after, 0);
}

TEST_F(TorchStreamTest, TakesMoreUntilItIsFull) {
  for (size_t i = 0; i < TorchStream::kQueuedMax; ++i) {
    EXPECT_TRUE(stream_.takes_more());
    stream_.Push(Kind::kTell, "");
  }
  EXPECT_FALSE(stream_.takes_more());
  Take();
  EXPECT_TRUE(stream_.takes_more());
  EXPECT_TRUE(stream_.was_heard());
  stream_.Push(Kind::kTell, std::string(TorchStream::kQueuedBytesMax, 'x'));
  EXPECT_FALSE(stream_.takes_more());
}

TEST_F(TorchStreamTest, BehindAQuestionNothingMoreIsTaken) {
  stream_.Push(Kind::kAsk, "get");
  EXPECT_FALSE(stream_.takes_more());
  Take();
  EXPECT_FALSE(stream_.takes_more());
  EXPECT_TRUE(stream_.Answered(1));
  EXPECT_TRUE(stream_.takes_more());
  EXPECT_TRUE(stream_.idle());
}

TEST_F(TorchStreamTest, BehindARefusedCommandNothingGoesOn) {
  const std::string longer(TorchStream::kTogetherBytesMax + 1, 'x');
  stream_.Push(Kind::kTell, longer);
  stream_.Push(Kind::kTell, "set");
  EXPECT_THAT(Take(), ElementsAre("1" + longer));
  EXPECT_TRUE(stream_.Answered(1));
  stream_.DropQueued();
  EXPECT_THAT(Take(), IsEmpty());
  EXPECT_TRUE(stream_.idle());
}

TEST_F(TorchStreamTest, BehindAWaitOneMoreIsTaken) {
  stream_.Push(Kind::kWait, "wait");
  EXPECT_TRUE(stream_.takes_more());
  Take();
  EXPECT_TRUE(stream_.takes_more());
  stream_.Push(Kind::kTell, "set");
  EXPECT_FALSE(stream_.takes_more());
  EXPECT_TRUE(stream_.Answered(1));
  EXPECT_TRUE(stream_.takes_more());
}

}  // namespace
}  // namespace lockstep::agent
