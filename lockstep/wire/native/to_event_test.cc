#include "lockstep/wire/native/to_event.h"

#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::wire::native {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

const std::string kPeer = "127.0.0.1:4711";
const coord::Caller kCaller = {.call = CallId(17), .session = {.high = 1, .low = 2}, .number = 5};
constexpr Time kNow = Time::FromNanoseconds(1'000'000'000);

absl::StatusOr<coord::Event> Read(RequestKind kind, std::string_view payload) {
  return ToEvent(kind, payload, {.caller = kCaller, .now = kNow, .peer = kPeer});
}

// The event of a request, which is of type `Event` and has its caller.
template <class Event, class Request>
Event EventOf(const Request& request) {
  auto event = Read(KindOf<Request>::kKind, Encode(request));
  EXPECT_TRUE(event.ok()) << event.status();
  if (!event.ok() || !std::holds_alternative<Event>(*event)) {
    ADD_FAILURE() << Request::kName << " became another event";
    return {};
  }
  const Event& out = std::get<Event>(*event);
  EXPECT_EQ(out.caller.call, kCaller.call);
  EXPECT_EQ(out.caller.session, kCaller.session);
  EXPECT_EQ(out.caller.number, kCaller.number);
  return out;
}

template <class Request>
std::string Refusal(const Request& request) {
  const auto event = Read(KindOf<Request>::kKind, Encode(request));
  if (event.ok()) return "accepted";
  EXPECT_EQ(event.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(event.status()), "invalid_argument");
  return std::string(event.status().message());
}

TEST(ToEvent, Join) {
  const auto join = EventOf<coord::JoinJob>(JoinJob{.role = "worker",
                                                    .index = 3,
                                                    .incarnation = 99,
                                                    .timeout_us = 2'000'000,
                                                    .host = "gpu-3",
                                                    .pid = 17,
                                                    .labels = {{"zone", "b"}}});
  EXPECT_EQ(join.role, "worker");
  EXPECT_EQ(join.index, 3);
  EXPECT_EQ(join.incarnation, Incarnation(99));
  EXPECT_EQ(join.deadline, kNow + absl::Seconds(2));
  EXPECT_EQ(join.host, "gpu-3");
  EXPECT_EQ(join.pid, 17);
  EXPECT_EQ(join.peer, kPeer);
  EXPECT_THAT(join.labels, ElementsAre(Pair("zone", "b")));

  const auto any = EventOf<coord::JoinJob>(JoinJob{.incarnation = 99});
  EXPECT_EQ(any.index, std::nullopt);
  EXPECT_EQ(any.deadline, Time::Infinite());
}

TEST(ToEvent, WhatHasNoFields) {
  EventOf<coord::CloseSession>(CloseSession{});
  EventOf<coord::LeaveJob>(LeaveJob{});
  EventOf<coord::PollForError>(PollForError{});
}

TEST(ToEvent, ProgressErrorsAndWatches) {
  const auto progress = EventOf<coord::ReportProgress>(ReportProgress{.step = 0, .phase = "eval"});
  EXPECT_EQ(progress.step, 0);
  EXPECT_EQ(progress.phase, "eval");
  EXPECT_EQ(EventOf<coord::ReportProgress>(ReportProgress{}).step, std::nullopt);
  const auto error = EventOf<coord::ReportError>(ReportError{.code = 14, .message = "gone"});
  EXPECT_EQ(error.code, absl::StatusCode::kUnavailable);
  EXPECT_EQ(error.message, "gone");
  EXPECT_EQ(EventOf<coord::WatchJob>(WatchJob{.after = 7}).after, 7);
}

TEST(ToEvent, Barriers) {
  const auto barrier = EventOf<coord::ArriveAtBarrier>(Barrier{.id = "loaded",
                                                               .counter = 2,
                                                               .timeout_us = 1'500,
                                                               .members = {2, 0},
                                                               .value = Bytes{"\xff"}});
  EXPECT_EQ(barrier.id, "loaded");
  EXPECT_EQ(barrier.counter, 2);
  EXPECT_EQ(barrier.timeout, absl::Microseconds(1'500));
  EXPECT_THAT(barrier.members, ElementsAre(MemberIndex(2), MemberIndex(0)));
  EXPECT_EQ(barrier.value, "\xff");
  const auto plain = EventOf<coord::ArriveAtBarrier>(Barrier{.id = "b"});
  EXPECT_EQ(plain.timeout, absl::InfiniteDuration());
  EXPECT_EQ(plain.value, std::nullopt);
  // Nothing, but brought.
  EXPECT_EQ(EventOf<coord::ArriveAtBarrier>(Barrier{.id = "b", .value = Bytes{}}).value, "");

  EXPECT_EQ(EventOf<coord::CancelBarrier>(CancelBarrier{.id = "b", .counter = 0}).counter, 0);
  EXPECT_EQ(EventOf<coord::CancelBarrier>(CancelBarrier{.id = "b"}).counter, std::nullopt);
  const auto agree = EventOf<coord::AgreeOnIndex>(
      AgreeOnIndex{.name = "save", .counter = 1, .index = 40, .members = {1}});
  EXPECT_EQ(agree.name, "save");
  EXPECT_EQ(agree.index, 40);
  EXPECT_EQ(agree.stride, 1);
  EXPECT_THAT(agree.members, ElementsAre(MemberIndex(1)));
  EventOf<coord::ListBarriers>(ListBarriers{});
  const auto alive = EventOf<coord::GetAliveMembers>(GetAliveMembers{.members = {4}});
  EXPECT_THAT(alive.members, ElementsAre(MemberIndex(4)));
}

TEST(ToEvent, Keys) {
  EXPECT_EQ(EventOf<coord::GetKey>(GetKey{.key = "k", .wait = true}).key, "k");
  EXPECT_EQ(EventOf<coord::TryGetKey>(GetKey{.key = "k"}).key, "k");
  EXPECT_THAT(EventOf<coord::GetKeys>(GetKeys{.keys = {"b", "a"}}).keys, ElementsAre("b", "a"));
  const auto set = EventOf<coord::SetKey>(
      SetKey{.key = "k", .value = {"v\xff"}, .overwrite = true, .ttl_us = 10, .with_member = true});
  EXPECT_EQ(set.value, "v\xff");
  EXPECT_TRUE(set.overwrite);
  EXPECT_EQ(set.lifetime.ttl, absl::Microseconds(10));
  EXPECT_TRUE(set.lifetime.with_member);
  EXPECT_EQ(EventOf<coord::IncrementKey>(IncrementKey{.key = "k", .increment = -2}).increment, -2);
  EXPECT_EQ(EventOf<coord::MaxKey>(MaxKey{.key = "k", .value = 9}).number, 9);
  const auto list =
      EventOf<coord::ListKeys>(ListKeys{.directory = "d", .limit = 3, .after = "d/x"});
  EXPECT_EQ(list.limit, 3u);
  EXPECT_EQ(list.after, "d/x");
  EXPECT_EQ(EventOf<coord::WatchKeys>(WatchKeys{.key = "d", .after = 8}).after, 8);
}

TEST(ToEvent, DeletesOneKeyUnlessAskedForMore) {
  const auto one = EventOf<coord::DeleteKey>(DeleteKey{.key = "k", .expected_revision = 4});
  EXPECT_TRUE(one.only_key);
  EXPECT_EQ(one.revision, 4);
  EXPECT_FALSE(EventOf<coord::DeleteKey>(DeleteKey{.key = "k", .below = true}).only_key);
  EXPECT_THAT(Refusal(DeleteKey{.key = "k", .below = true, .expected_revision = 4}),
              HasSubstr("expected_revision"));
}

TEST(ToEvent, CompareAndSetSaysOneCondition) {
  const auto absent =
      EventOf<coord::CompareAndSetKey>(CompareAndSetKey{.key = "k", .absent = true});
  EXPECT_TRUE(absent.expected.absent);
  const auto empty = EventOf<coord::CompareAndSetKey>(
      CompareAndSetKey{.key = "k", .expected_value = Bytes{}, .value = {"new"}});
  EXPECT_EQ(empty.expected.value, "");
  EXPECT_EQ(empty.value, "new");
  EXPECT_EQ(EventOf<coord::CompareAndSetKey>(CompareAndSetKey{.key = "k", .expected_revision = 0})
                .expected.revision,
            0);
  EXPECT_THAT(Refusal(CompareAndSetKey{.key = "k"}), HasSubstr("exactly one"));
  EXPECT_THAT(Refusal(CompareAndSetKey{.key = "k", .absent = true, .expected_revision = 1}),
              HasSubstr("exactly one"));
}

TEST(ToEvent, RefusesWhatCannotBe) {
  EXPECT_THAT(Refusal(JoinJob{.incarnation = 0}), HasSubstr("incarnation 0"));
  EXPECT_THAT(Refusal(JoinJob{.incarnation = 1, .timeout_us = -1}), HasSubstr("timeout of -1 us"));
  EXPECT_THAT(Refusal(JoinJob{.incarnation = 1, .attempt = -1}), HasSubstr("attempt below 0"));
  EXPECT_THAT(Refusal(Barrier{.id = "b", .timeout_us = -5}), HasSubstr("timeout of -5 us"));
  EXPECT_THAT(Refusal(AgreeOnIndex{.name = "n", .timeout_us = -5}), HasSubstr("timeout"));
  EXPECT_THAT(Refusal(AgreeOnIndex{.name = "n", .stride = -1}), HasSubstr("stride -1"));
  EXPECT_THAT(Refusal(SetKey{.key = "k", .ttl_us = -1}), HasSubstr("ttl of -1 us"));
  EXPECT_THAT(Refusal(ListKeys{.limit = -1}), HasSubstr("limit -1"));
  EXPECT_THAT(Refusal(ReportError{.code = 0}), HasSubstr("code 0"));
  EXPECT_THAT(Refusal(ReportError{.code = 17}), HasSubstr("code 17"));
}

TEST(ToEvent, RefusesBytesThatAreNotTheMessage) {
  const auto error = [](std::string_view payload) {
    const auto event = Read(KindOf<GetKey>::kKind, payload);
    EXPECT_FALSE(event.ok());
    return absl::StrCat(ReasonOf(event.status()), ": ", event.status().message());
  };
  EXPECT_THAT(error("\x0a\x05"),
              AllOf(StartsWith("invalid_argument: "), HasSubstr("lockstep.v1.GetKey")));
  EXPECT_THAT(error("\x0a\x02\xc3\x28"),
              AllOf(StartsWith("key_invalid: "), HasSubstr("key is not UTF-8: keys, names")));
  EXPECT_THAT(error("\x08\x01"), HasSubstr("key has the wrong wire type"));
}

TEST(ToEvent, DoesNotKnowOtherKinds) {
  for (const RequestKind kind : {KindOf<StatusRequest>::kKind, KindOf<OpenSession>::kKind,
                                 RequestKind{18}, RequestKind{39}, RequestKind{4'000'000'000}}) {
    const auto event = Read(kind, "");
    EXPECT_EQ(event.status().code(), absl::StatusCode::kUnimplemented) << kind;
    EXPECT_EQ(ReasonOf(event.status()), "unknown_request");
  }
}

TEST(ToEvent, SessionIds) {
  const SessionId session = {.high = 0x0102030405060708, .low = 0x090a0b0c0d0e0ff0};
  EXPECT_EQ(ToBytes(session).data.size(), 16u);
  EXPECT_EQ(ToBytes(session).data.front(), '\x01');
  EXPECT_EQ(*ToSessionId(ToBytes(session)), session);
  EXPECT_FALSE(ToSessionId({std::string(16, '\0')}).ok());
  EXPECT_FALSE(ToSessionId({std::string(15, 'x')}).ok());
  EXPECT_FALSE(ToSessionId({std::string(17, 'x')}).ok());
}

}  // namespace
}  // namespace lockstep::wire::native
