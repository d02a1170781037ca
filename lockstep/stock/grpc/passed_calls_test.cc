#include "lockstep/stock/grpc/passed_calls.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/base/limits.h"
#include "lockstep/stock/grpc/families.h"
#include "proto/compat/tensorflow/coordination_service.pb.h"
#include "proto/compat/xla/coordination_service.pb.h"

namespace lockstep::net {
namespace {

using ::testing::HasSubstr;
using wire::stock::EncodedAnswer;
using wire::stock::EncodedError;

constexpr ServiceIncarnation kFirst(11);
constexpr ServiceIncarnation kSecond(22);

class PassedCallsTest : public ::testing::Test {
 protected:
  static std::string Xla(const std::string& method) {
    return "/xla.coordination.CoordinationService/" + method;
  }
  static std::string Older(const std::string& method) {
    return "/tensorflow.CoordinationService/" + method;
  }
  std::variant<coord::Event, EncodedError> Begin(uint64_t call, const std::string& method,
                                                 const std::string& bytes,
                                                 ServiceIncarnation current = kFirst,
                                                 const std::string& connection = "7:1") {
    return calls_.Begin(
        CallId(call),
        {.method = method, .bytes = bytes, .peer = "10.0.0.1:5", .connection = connection},
        current);
  }
  coord::Event Event(uint64_t call, const std::string& method, const std::string& bytes,
                     ServiceIncarnation current = kFirst, const std::string& connection = "7:1") {
    auto begun = Begin(call, method, bytes, current, connection);
    if (const auto* error = std::get_if<EncodedError>(&begun)) ADD_FAILURE() << error->message;
    return std::get<coord::Event>(std::move(begun));
  }
  EncodedError Refused(const std::string& method, const std::string& bytes) {
    auto begun = Begin(99, method, bytes);
    EXPECT_TRUE(std::holds_alternative<EncodedError>(begun));
    return std::get<EncodedError>(std::move(begun));
  }

  PassedCalls calls_{{}, 100};
};

TEST_F(PassedCallsTest, ReadsACallAndEncodesItsAnswer) {
  ::xla::coordination::TryGetKeyValueRequest request;
  request.set_key("a");
  const coord::Event event = Event(1, Xla("TryGetKeyValue"), request.SerializeAsString());
  EXPECT_EQ(std::get<coord::TryGetKey>(event).key, "a");
  EXPECT_EQ(std::get<coord::TryGetKey>(event).caller.call, CallId(1));

  const auto value = std::make_shared<const std::string>("1");
  const auto answer = calls_.End({.call = CallId(1), .answer = coord::KeyRead{{"a", value, 0}}});
  ::xla::coordination::TryGetKeyValueResponse response;
  const auto& bytes = std::get<EncodedAnswer>(answer);
  ASSERT_TRUE(response.ParseFromString(bytes.head + (bytes.tail ? *bytes.tail : "")));
  EXPECT_EQ(response.kv().value(), "1");
}

TEST_F(PassedCallsTest, AnErrorIsWhatAClientOfTheFamilyUnderstands) {
  Event(1, Xla("TryGetKeyValue"), "");
  const auto answer = calls_.End(
      {.call = CallId(1),
       .error = coord::MakeError(absl::StatusCode::kNotFound, coord::Reason::kKeyNotFound, "no")});
  const auto& error = std::get<EncodedError>(answer);
  EXPECT_EQ(error.code, absl::StatusCode::kNotFound);
  EXPECT_EQ(error.reason, "key_not_found");
  EXPECT_FALSE(error.details.empty());
}

TEST_F(PassedCallsTest, RefusesWhatIsNoCall) {
  for (const char* method : {"", "/", "x", "/xla.coordination.CoordinationService",
                             "/xla.coordination.CoordinationService/", "/other.Service/Heartbeat",
                             "xla.coordination.CoordinationService/Heartbeat"}) {
    EXPECT_EQ(Refused(method, "").code, absl::StatusCode::kUnimplemented) << method;
  }
  EXPECT_EQ(Refused(Xla("Heartbeat"), "\xff").code, absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Refused(Xla("Heartbeat"), std::string(size_t{2} << 20, 'x')).message,
              HasSubstr("message_bytes_max"));
  std::string listing;
  for (int i = 0; i < kMembersMax + 100; ++i) listing += "\x78\x01";  // one more number
  EXPECT_THAT(Refused(Xla("Barrier"), listing).message, HasSubstr("members_max"));
}

TEST_F(PassedCallsTest, OlderClientsAreHeldToTheAttemptThatTheyRegisteredWith) {
  const auto service = [&](uint64_t call, ServiceIncarnation current, const std::string& from) {
    return std::get<coord::TryGetKey>(Event(call, Older("TryGetKeyValue"), "", current, from))
        .caller.service;
  };
  ::tensorflow::RegisterTaskRequest request;
  request.set_incarnation(5);
  Event(1, Older("RegisterTask"), request.SerializeAsString(), kFirst, "7:1");
  calls_.End({.call = CallId(1), .answer = coord::Registered{kFirst}});
  EXPECT_EQ(service(2, kSecond, "7:1"), kFirst);
  EXPECT_EQ(service(3, kSecond, "7:2"), kSecond);
}

TEST_F(PassedCallsTest, ACallThatLeftIsForgotten) {
  Event(1, Xla("TryGetKeyValue"), "");
  calls_.Left(CallId(1));
  calls_.Left(CallId(1));
  Event(1, Xla("TryGetKeyValue"), "");
}

}  // namespace
}  // namespace lockstep::net
