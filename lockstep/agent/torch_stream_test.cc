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

TEST_F(TorchStreamTest, IsFullByNumberAndBySize) {
  for (size_t i = 0; i < TorchStream::kQueuedMax; ++i) {
    EXPECT_FALSE(stream_.is_full());
    stream_.Push(Kind::kAsk, "");
  }
  EXPECT_TRUE(stream_.is_full());
  EXPECT_THAT(Take(), ElementsAre("1"));
  EXPECT_FALSE(stream_.is_full());
  stream_.Push(Kind::kTell, std::string(TorchStream::kQueuedBytesMax, 'x'));
  EXPECT_TRUE(stream_.is_full());
  EXPECT_TRUE(stream_.was_heard());
}

}  // namespace
}  // namespace lockstep::agent
