#include "lockstep/wire/native/from_answer.h"

#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/link_messages.h"

namespace lockstep::wire::native {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Time kNow = Time::FromNanoseconds(5'000'000'000);

std::shared_ptr<const std::string> Value(std::string text) {
  return std::make_shared<const std::string>(std::move(text));
}

EncodedReply Encoded(ReplyEncoder& encoder, RequestKind kind, coord::Answer answer) {
  return encoder.Encode(kNow, kind, {.call = CallId(1), .error = nullptr, .answer = answer});
}

// What the caller of `Request` reads.
template <class Request>
auto Answer(coord::Answer answer) {
  ReplyEncoder encoder;
  const EncodedReply reply = Encoded(encoder, KindOf<Request>::kKind, std::move(answer));
  EXPECT_FALSE(reply.failed);
  const std::string& bytes = reply.shared != nullptr ? *reply.shared : reply.bytes;
  auto message = Decode<typename KindOf<Request>::Reply>(bytes);
  EXPECT_TRUE(message.ok()) << message.status();
  // Canonical: as the message itself is encoded.
  EXPECT_EQ(Encode(*message), bytes);
  return *message;
}

TEST(FromAnswer, Sessions) {
  EXPECT_EQ(Answer<OpenSession>(coord::SessionOpened{.resumed = true, .attempt = 2, .size = 4}),
            (OpenSessionReply{.resumed = true, .attempt = 2, .size = 4}));
  EXPECT_EQ(Answer<JoinJob>(coord::Joined{.member = MemberIndex(3),
                                          .role = "ps",
                                          .index = 1,
                                          .name = "ps/1#2",
                                          .service = ServiceIncarnation(77),
                                          .attempt = 2,
                                          .size = 4,
                                          .recoverable = true}),
            (JoinJobReply{.member = 3,
                          .role = "ps",
                          .index = 1,
                          .name = "ps/1#2",
                          .attempt = 2,
                          .service_incarnation = 77,
                          .size = 4,
                          .recoverable = true}));
  EXPECT_EQ(Answer<LeaveJob>({}), LeaveJobReply{});
  EXPECT_EQ(Answer<ReportProgress>({}), ReportProgressReply{});
}

TEST(FromAnswer, Keys) {
  const coord::KeyValue entry = {.key = "a/b", .value = Value("v\xff"), .revision = 300};
  const Entry as_told = {.key = "a/b", .value = {"v\xff"}, .revision = 300};
  EXPECT_EQ(Answer<GetKey>(coord::KeyRead{entry}), GetKeyReply{as_told});
  EXPECT_EQ(Answer<GetKey>(coord::KeyRead{{.key = "", .value = Value(""), .revision = 0}}),
            GetKeyReply{});
  EXPECT_EQ(Answer<GetKeys>(coord::KeysListed{.entries = {entry, entry}, .revision = 9}),
            (GetKeysReply{.entries = {as_told, as_told}}));
  EXPECT_EQ(Answer<ListKeys>(coord::KeysListed{.entries = {entry}, .revision = 301, .more = true}),
            (ListKeysReply{.entries = {as_told}, .revision = 301, .more = true}));
  EXPECT_EQ(Answer<SetKey>(coord::KeyWritten{.revision = 5}), SetKeyReply{.revision = 5});
  EXPECT_EQ(Answer<CompareAndSetKey>(coord::KeySwapped{.swapped = true, .entry = entry}),
            (CompareAndSetKeyReply{.swapped = true, .entry = as_told}));
  EXPECT_EQ(Answer<CompareAndSetKey>(coord::KeySwapped{}), CompareAndSetKeyReply{});
  EXPECT_EQ(Answer<DeleteKey>(coord::KeysDeleted{.deleted = 2, .revision = 8}),
            (DeleteKeyReply{.deleted = 2, .revision = 8}));
}

TEST(FromAnswer, NumbersAreNumbers) {
  const coord::KeyRead read = {{.key = "n", .value = Value("-42"), .revision = 6}};
  EXPECT_EQ(Answer<IncrementKey>(read), (IncrementKeyReply{.value = -42, .revision = 6}));
  EXPECT_EQ(Answer<MaxKey>(read), (MaxKeyReply{.value = -42, .revision = 6}));
}

TEST(FromAnswer, ChangesTellDeletedFromEmpty) {
  const auto reply = Answer<WatchKeys>(
      coord::KeysChanged{.changes = {{.key = "gone", .value = nullptr, .revision = 6},
                                     {.key = "empty", .value = Value(""), .revision = 7}},
                         .revision = 7,
                         .snapshot = true});
  EXPECT_THAT(reply.changes,
              ElementsAre(KeyChange{.key = "gone", .value = std::nullopt, .revision = 6},
                          KeyChange{.key = "empty", .value = Bytes{}, .revision = 7}));
  EXPECT_EQ(reply.revision, 7);
  EXPECT_TRUE(reply.snapshot);
}

TEST(FromAnswer, BarriersAndAgreements) {
  const auto values = std::make_shared<const std::vector<coord::MemberValue>>(
      std::vector<coord::MemberValue>{{MemberIndex(0), "a"}, {MemberIndex(2), ""}});
  EXPECT_EQ(Answer<Barrier>(coord::BarrierPassed{.counter = 3, .values = values}),
            (BarrierReply{.counter = 3, .values = {{0, {"a"}}, {2, {""}}}}));
  EXPECT_EQ(Answer<Barrier>(coord::BarrierPassed{.counter = 3}), BarrierReply{.counter = 3});
  EXPECT_EQ(Answer<AgreeOnIndex>(coord::IndexAgreed{.counter = 1, .index = 50}),
            (AgreeOnIndexReply{.counter = 1, .index = 50}));
  EXPECT_EQ(Answer<ListBarriers>(
                coord::BarriersListed{.barriers = {{.barrier = {"loaded", 2},
                                                    .opened = Time() + absl::Seconds(1),
                                                    .deadline = Time() + absl::Seconds(9),
                                                    .waiting = {MemberIndex(0)},
                                                    .awaited = {MemberIndex(1)}}},
                                      .open = 7,
                                      .at = Time() + absl::Seconds(4)}),
            (ListBarriersReply{.barriers = {{.id = "loaded",
                                             .counter = 2,
                                             .opened_ago_us = 3'000'000,
                                             .deadline_in_us = 5'000'000,
                                             .waiting = {0},
                                             .awaited = {1}}},
                               .open = 7}));
  const auto alive = std::make_shared<const std::vector<coord::AliveMember>>(
      std::vector<coord::AliveMember>{{MemberIndex(1), Incarnation(9)}});
  EXPECT_EQ(Answer<GetAliveMembers>(coord::AliveMembers{alive}),
            (GetAliveMembersReply{.members = {{1, 9}}}));
}

TEST(FromAnswer, JobChangesAreToldAsAgo) {
  auto change = std::make_shared<coord::JobChange>();
  change->version = 12;
  change->state = coord::AttemptState::kRunning;
  change->members.push_back({.member = MemberIndex(1),
                             .name = "task/1#1",
                             .condition = coord::MemberCondition::kConnected,
                             .since = kNow - absl::Seconds(2)});
  const WatchJobReply reply = Answer<WatchJob>(coord::JobChanged{change});
  EXPECT_EQ(reply.version, 12);
  EXPECT_EQ(reply.state, AttemptState::kRunning);
  ASSERT_EQ(reply.members.size(), 1u);
  EXPECT_EQ(reply.members[0].since_ago_us, 2'000'000);
}

TEST(FromAnswer, Errors) {
  ReplyEncoder encoder;
  const auto error =
      coord::MakeError(coord::Error{.code = absl::StatusCode::kDeadlineExceeded,
                                    .reason = coord::Reason::kBarrierTimedOut,
                                    .message = "nobody came \xff",
                                    .origin = MemberIndex(3),
                                    .barrier = coord::BarrierRef{.id = "b", .counter = 2},
                                    .missing = "task/1,task/3"});
  const EncodedReply reply =
      encoder.Encode(kNow, KindOf<Barrier>::kKind, {.call = CallId(1), .error = error});
  EXPECT_TRUE(reply.failed);
  const auto told = Decode<ErrorReply>(*reply.shared);
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_EQ(told->code, 4);
  EXPECT_EQ(told->reason, "barrier_timed_out");
  EXPECT_THAT(told->message, HasSubstr("nobody came \xEF\xBF\xBD"));
  EXPECT_THAT(told->details,
              ElementsAre(ErrorDetail{"barrier", "b"}, ErrorDetail{"counter", "2"},
                          ErrorDetail{"member", "3"}, ErrorDetail{"missing", "task/1,task/3"}));
}

TEST(ReplyEncoder, SharesWhatManyAreTold) {
  ReplyEncoder encoder;
  const auto error = coord::MakeError(absl::StatusCode::kAborted, coord::Reason::kMemberFailed, "");
  const coord::Reply failed = {.call = CallId(1), .error = error};
  const EncodedReply first = encoder.Encode(kNow, KindOf<Barrier>::kKind, failed);
  EXPECT_EQ(encoder.Encode(kNow, KindOf<GetKey>::kKind, failed).shared, first.shared);

  const auto values = std::make_shared<const std::vector<coord::MemberValue>>(
      std::vector<coord::MemberValue>{{MemberIndex(0), "a"}});
  const coord::BarrierPassed passed = {.counter = 1, .values = values};
  const EncodedReply barrier = Encoded(encoder, KindOf<Barrier>::kKind, passed);
  EXPECT_NE(barrier.shared, nullptr);
  EXPECT_EQ(Encoded(encoder, KindOf<Barrier>::kKind, passed).shared, barrier.shared);
  const coord::BarrierPassed other = {.counter = 2, .values = values};
  EXPECT_NE(Encoded(encoder, KindOf<Barrier>::kKind, other).shared, barrier.shared);

  const coord::KeyRead big = {{.key = "k", .value = Value(std::string(1 << 20, 'x'))}};
  const EncodedReply read = Encoded(encoder, KindOf<GetKey>::kKind, big);
  EXPECT_EQ(Encoded(encoder, KindOf<GetKey>::kKind, big).shared, read.shared);
  coord::KeyRead renamed = big;
  renamed.entry.key = "l";
  EXPECT_NE(Encoded(encoder, KindOf<GetKey>::kKind, renamed).shared, read.shared);
}

TEST(ReplyEncoder, KeepsNothingThatNobodySends) {
  ReplyEncoder encoder;
  auto value = Value(std::string(1 << 20, 'x'));
  std::weak_ptr<const std::string> bytes;
  {
    const EncodedReply read =
        Encoded(encoder, KindOf<GetKey>::kKind, coord::KeyRead{{.key = "k", .value = value}});
    bytes = read.shared;
    EXPECT_FALSE(bytes.expired());
  }
  EXPECT_TRUE(bytes.expired());
  EXPECT_EQ(value.use_count(), 1);
}

}  // namespace
}  // namespace lockstep::wire::native
