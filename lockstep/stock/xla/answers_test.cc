#include "lockstep/stock/xla/answers.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/coord/error.h"
#include "lockstep/stock/wire/hex_testing.h"
#include "proto/compat/stock/error_payloads.pb.h"
#include "proto/compat/xla/coordination_service.pb.h"

namespace lockstep::wire::xla {
namespace {

namespace pb = ::xla::coordination;
using stock::EncodedAnswer;
using stock::FromHex;
using stock::kServiceIncarnation;
using stock::kTaskIncarnation;

std::string Bytes(const EncodedAnswer& encoded) {
  return encoded.tail ? encoded.head + *encoded.tail : encoded.head;
}
std::string Bytes(const coord::Answer& answer) { return Bytes(EncodeAnswer(answer)); }

template <class Message>
Message Parsed(const coord::Answer& answer) {
  Message message;
  EXPECT_TRUE(message.ParseFromString(Bytes(answer)));
  return message;
}

TEST(GoldenAnswers, RegisterTaskResponse) {
  EXPECT_EQ(Bytes(coord::Registered{ServiceIncarnation(kServiceIncarnation)}),
            FromHex("09 18 17 16 15 14 13 12 11"));
}

TEST(GoldenAnswers, HeartbeatResponse) {
  EXPECT_EQ(Bytes(coord::HeartbeatTaken{ServiceIncarnation(kServiceIncarnation)}),
            FromHex("09 18 17 16 15 14 13 12 11"));
}

TEST(GoldenAnswers, GetAliveTasksResponse) {
  auto members = std::make_shared<const std::vector<coord::AliveMember>>(
      std::vector<coord::AliveMember>{{MemberIndex(0), Incarnation(kTaskIncarnation)},
                                      {MemberIndex(1), Incarnation(kServiceIncarnation)}});
  EXPECT_EQ(Bytes(coord::AliveMembers{members}),
            FromHex("0a 02 00 01 12 10 08 07 06 05 04 03 02 01 18 17 16 15 14 13 12 11"));
}

TEST(Answers, NothingToSayIsNoBytes) { EXPECT_EQ(Bytes(std::monostate()), ""); }

TEST(Answers, BarrierCarriesItsCounter) {
  EXPECT_EQ(Bytes(coord::BarrierPassed{0}), "");
  EXPECT_EQ(Bytes(coord::BarrierPassed{300}), FromHex("08 ac 02"));
}

TEST(Answers, KeysListedKeepsOrderAndLeavesTheDirectoryEmpty) {
  auto value = std::make_shared<const std::string>("v");
  auto response =
      Parsed<pb::GetKeyValueDirResponse>(coord::KeysListed{{{"d/a", value}, {"d/b", nullptr}}});
  EXPECT_EQ(response.directory_key(), "");
  ASSERT_EQ(response.kv_size(), 2);
  EXPECT_EQ(response.kv(0).key(), "d/a");
  EXPECT_EQ(response.kv(0).value(), "v");
  EXPECT_EQ(response.kv(1).key(), "d/b");
}

TEST(Answers, WatchTellsStatesAndErrors) {
  auto error = coord::MakeError(coord::Error{.code = absl::StatusCode::kUnavailable,
                                             .reason = coord::Reason::kConnectionLost,
                                             .message = "gone",
                                             .origin = MemberIndex(1),
                                             .reported = true});
  auto members =
      std::make_shared<const std::vector<coord::MemberStatus>>(std::vector<coord::MemberStatus>{
          {MemberIndex(0), Incarnation(9), coord::MemberState::kConnected, nullptr},
          {MemberIndex(1), Incarnation(8), coord::MemberState::kError, error},
          {MemberIndex(2), Incarnation(0), coord::MemberState::kDisconnected, nullptr}});
  auto response = Parsed<pb::WatchTasksResponse>(coord::MembersWatched{members, 12});
  EXPECT_EQ(response.version_number(), 12);
  ASSERT_EQ(response.task_state_size(), 3);
  EXPECT_EQ(response.task_state(0).state(), pb::TASKSTATE_CONNECTED);
  EXPECT_EQ(response.task_state(0).incarnation(), 9u);
  EXPECT_FALSE(response.task_state(0).has_error_payload());
  EXPECT_EQ(response.task_state(1).state(), pb::TASKSTATE_ERROR);
  EXPECT_EQ(response.task_state(1).error_code(), 14);
  EXPECT_EQ(response.task_state(1).error_message(), "gone");
  EXPECT_EQ(response.task_state(1).error_payload().source_task_id(), 1);
  EXPECT_TRUE(response.task_state(1).error_payload().is_reported_error());
  EXPECT_EQ(response.task_state(2).task_id(), 2);
  EXPECT_EQ(response.task_state(2).state(), pb::TASKSTATE_DISCONNECTED);
}

std::string ServicePayload(const coord::Error& error) {
  ::tensorflow::distributed_runtime::GrpcPayloadContainer container;
  EXPECT_TRUE(container.ParseFromString(EncodeError(error).details));
  return container.payloads().at(std::string(stock::kServiceErrorUrl));
}

TEST(GoldenErrors, ReportedErrorOfTask2) {
  EXPECT_EQ(ServicePayload({.origin = MemberIndex(2), .reported = true}), FromHex("18 01 20 02"));
  EXPECT_EQ(ServicePayload({.origin = MemberIndex(3)}), FromHex("20 03"));
  EXPECT_EQ(ServicePayload({}), "");
}

}  // namespace
}  // namespace lockstep::wire::xla
