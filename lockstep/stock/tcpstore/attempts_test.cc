#include "lockstep/stock/tcpstore/attempts.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::tcpstore {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::VariantWith;
using Wish = Attempts::Wish;

MATCHER_P3(IsOpened, attempt, port, keeps, "") {
  return arg.attempt == attempt && arg.port == port && arg.keeps == keeps;
}
const auto kUsed = VariantWith<record::Used>(testing::_);

// A server's life with what the one before has written.
Attempts After(bool keeps, const std::vector<Record>& records) {
  Attempts attempts(keeps);
  for (const Record& record : records) EXPECT_TRUE(attempts.Apply(record).ok());
  return attempts;
}

TEST(AttemptsTest, Finding14_ANumberThatNoneCanFollowIsRefused) {
  Attempts attempts(false);
  for (const int64_t attempt : {INT64_MAX, int64_t{1} << 31, int64_t{0}, int64_t{-1}}) {
    EXPECT_FALSE(attempts.Apply(record::Opened{.attempt = attempt, .port = 1}).ok()) << attempt;
  }
}

TEST(AttemptsTest, TheFirstNeedsNothingAndIsWrittenWhenSomebodyIsToldOfIt) {
  Attempts attempts(false);
  const Attempts::Begin begin = attempts.Start();
  EXPECT_FALSE(begin.again);
  EXPECT_EQ(begin.port, 0);
  attempts.Listens(700);
  EXPECT_THAT(attempts.Keep(), IsEmpty());
  EXPECT_EQ(attempts.current(), 1);
  EXPECT_THAT(attempts.Told(),
              ElementsAre(VariantWith<record::Opened>(IsOpened(1, 700, false)), kUsed));
  EXPECT_THAT(attempts.Told(), IsEmpty());
  EXPECT_THAT(attempts.Visited(), IsEmpty());
}

TEST(AttemptsTest, ALaterOneEndsThoseBefore) {
  Attempts attempts(false);
  attempts.Start();
  attempts.Listens(700);
  EXPECT_EQ(attempts.Asked(0), Wish::kCurrent);
  EXPECT_EQ(attempts.Asked(1), Wish::kCurrent);
  EXPECT_EQ(attempts.Asked(3), Wish::kNext);
  EXPECT_THAT(attempts.Next(3, 701),
              ElementsAre(VariantWith<record::Opened>(IsOpened(3, 701, false)), kUsed));
  EXPECT_EQ(attempts.current(), 3);
  EXPECT_EQ(attempts.Asked(2), Wish::kOver);
  EXPECT_EQ(attempts.Asked(0), Wish::kCurrent);
}

TEST(AttemptsTest, TheNumberOfAStoreThatIsLostIsGivenToNoOther) {
  const record::Opened opened = {.attempt = 4, .port = 700, .keeps = false};
  Attempts used = After(false, {opened, record::Used{}});
  const Attempts::Begin begin = used.Start();
  EXPECT_FALSE(begin.again);
  EXPECT_EQ(begin.port, 700) << "who knows of the lost one finds nobody there";
  EXPECT_EQ(used.current(), 5);
  used.Listens(701);
  EXPECT_EQ(used.Asked(4), Wish::kOver);
  EXPECT_THAT(used.Snapshot(), ElementsAre(VariantWith<record::Opened>(IsOpened(5, 701, false))));

  Attempts unused = After(false, {opened});
  unused.Start();
  EXPECT_EQ(unused.current(), 4) << "nobody knew of it";
}

TEST(AttemptsTest, AStoreThatKeepsGoesOnAtItsPort) {
  Attempts first(true);
  first.Start();
  first.Listens(700);
  std::vector<Record> written = first.Keep();
  EXPECT_THAT(written, ElementsAre(VariantWith<record::Opened>(IsOpened(1, 700, true))));
  EXPECT_THAT(first.Keep(), IsEmpty());
  EXPECT_THAT(first.Visited(), ElementsAre(kUsed));

  written = first.Snapshot();
  Attempts second = After(true, written);
  const Attempts::Begin begin = second.Start();
  EXPECT_TRUE(begin.again);
  EXPECT_EQ(begin.port, 700);
  EXPECT_EQ(second.current(), 1);
  second.Listens(begin.port);
  EXPECT_THAT(second.Keep(), IsEmpty()) << "the journal has it";

  // Its keys are not told of any more from now on.
  Attempts third = After(false, written);
  EXPECT_FALSE(third.Start().again);
  EXPECT_EQ(third.current(), 2);
}

TEST(AttemptsTest, ARecordBeforeTheBeginningIsRefused) {
  Attempts attempts(true);
  EXPECT_EQ(attempts.Apply(record::Used{}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::tcpstore
