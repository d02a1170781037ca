#include "lockstep/wire/native/codec.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/wire/native/codec_templates.h"
#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/json.h"
#include "lockstep/wire/native/process_messages.h"
#include "lockstep/wire/native/status_messages.h"
#include "lockstep/wire/native/utf8.h"

namespace lockstep::wire::native {
namespace {

using testing::HasSubstr;

// A message that contains itself, to go deep.
struct Nest {
  std::vector<Nest> inner;
  friend bool operator==(const Nest&, const Nest&) = default;
  static constexpr std::string_view kName = "test.Nest";
  static constexpr bool kFromOurServer = true;
  template <class Visit, class M = Nest>
  static constexpr void Fields(Visit&& visit) {
    visit(Field(1, "inner", &M::inner));
  }
};

std::string NestBytes(int depth) {
  std::string bytes;
  for (int i = 0; i < depth; ++i) {
    std::string outer;
    protozero::pbf_writer(outer).add_message(1, bytes);
    bytes = outer;
  }
  return bytes;
}

template <class Message>
std::string DecodeError(std::string_view bytes) {
  const auto result = Decode<Message>(bytes);
  return result.ok() ? "accepted" : std::string(result.status().message());
}

TEST(Codec, LeavesDefaultsOut) { EXPECT_EQ(Encode(ProcessReport{}), ""); }

TEST(Codec, WritesAnEmptyValueThatIsPresent) {
  EXPECT_EQ(Encode(StatusRequest{}), "");
  EXPECT_EQ(Encode(StatusRequest{.job = ""}), std::string("\x0A\0", 2));
  EXPECT_EQ(Decode<StatusRequest>(std::string("\x0A\0", 2))->job, "");
}

TEST(Codec, ALongValueTakesTheBytesThatItLiesIn) {
  const GetKeyReply sent{.entry = {.key = "k", .value = {std::string(5000, 'v')}, .revision = 7}};
  std::string bytes = Encode(sent);
  const char* const memory = bytes.data();

  const auto taken = Decode<GetKeyReply>(std::move(bytes));

  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(*taken, sent);
  EXPECT_EQ(taken->entry.value.data.data(), memory);
}

TEST(Codec, BytesThatAreTakenSayTheSameAsThoseThatAreCopied) {
  const auto entry = [](size_t bytes) {
    return Entry{.key = "k", .value = {std::string(bytes, 'v')}, .revision = 7};
  };
  const auto both = [](const auto& message) {
    using Message = std::decay_t<decltype(message)>;
    std::string bytes = Encode(message);
    EXPECT_EQ(*Decode<Message>(std::string_view(bytes)), message);
    EXPECT_EQ(*Decode<Message>(std::move(bytes)), message);
  };
  both(GetKeyReply{.entry = entry(10)});
  both(GetKeysReply{.entries = {entry(9000), entry(10), entry(20)}});
  both(CompareAndSetKey{.key = "k",
                        .expected_value = Bytes{std::string(5000, 'a')},
                        .value = {std::string(5000, 'b')}});
  // Of a field that comes twice the last one counts.
  std::string twice = Encode(SetKey{.value = {std::string(5000, 'a')}});
  twice += Encode(SetKey{.value = {"b"}});
  EXPECT_EQ(Decode<SetKey>(std::move(twice))->value.data, "b");
}

TEST(Codec, SkipsFieldsThatItDoesNotKnow) {
  std::string bytes = Encode(StatusRequest{.job = "digits"});
  protozero::pbf_writer out(bytes);
  out.add_uint64(100, 7);
  out.add_string(101, "from the future");
  out.add_fixed64(102, 1);
  out.add_fixed32(103, 1);
  EXPECT_EQ(Decode<StatusRequest>(bytes)->job, "digits");
}

TEST(Codec, RefusesAKnownFieldOfTheWrongWireType) {
  std::string bytes;
  protozero::pbf_writer(bytes).add_uint64(1, 5);
  EXPECT_EQ(DecodeError<StatusRequest>(bytes),
            "cannot decode lockstep.v1.StatusRequest.job has the wrong wire type");
}

TEST(Codec, RefusesTextThatIsNotUtf8) {
  std::string bytes;
  protozero::pbf_writer(bytes).add_string(1, "\xC3");
  EXPECT_EQ(DecodeError<StatusRequest>(bytes),
            "cannot decode lockstep.v1.StatusRequest.job is not UTF-8");
}

TEST(Codec, RefusesBytesThatEndEarly) {
  const std::string bytes = Encode(StatusRequest{.job = "digits"});
  for (size_t length = 1; length < bytes.size(); ++length) {
    EXPECT_THAT(DecodeError<StatusRequest>(bytes.substr(0, length)), HasSubstr("StatusRequest"));
  }
}

TEST(Codec, RefusesWhatIsNotAMessage) {
  EXPECT_THAT(DecodeError<StatusRequest>("GET / HTTP/1.1\r\n"), HasSubstr("cannot decode"));
  EXPECT_THAT(DecodeError<StatusRequest>(std::string(20, '\xFF')), HasSubstr("cannot decode"));
  EXPECT_THAT(DecodeError<StatusRequest>(std::string("\0\0", 2)), HasSubstr("cannot decode"));
}

TEST(Codec, RefusesTagsAndLengthsOfMoreThan32Bits) {
  EXPECT_THAT(DecodeError<StatusRequest>("\x8A\x80\x80\x80\x10\x01x"), HasSubstr("32 bits"));
  EXPECT_THAT(DecodeError<StatusRequest>("\x0A\x81\x80\x80\x80\x10x"), HasSubstr("32 bits"));
}

TEST(Codec, RefusesMessagesThatLieTooDeep) {
  EXPECT_TRUE(Decode<Nest>(NestBytes(kDecodeDepthMax)).ok());
  EXPECT_THAT(DecodeError<Nest>(NestBytes(kDecodeDepthMax + 1)), HasSubstr("decode_depth_max"));
}

TEST(Codec, RefusesMoreElementsThanItsLimit) {
  std::string bytes;
  for (size_t i = 0; i <= kDecodeElementsMax; ++i) bytes.append("\x0A\0", 2);
  EXPECT_THAT(DecodeError<Nest>(bytes), HasSubstr("decode_elements_max"));
}

TEST(Codec, TakesPackedAndUnpackedNumbers) {
  std::string bytes;
  protozero::pbf_writer out(bytes);
  out.add_int32(5, 3);
  const int32_t more[] = {-1, 4};
  out.add_packed_int32(5, std::begin(more), std::end(more));
  EXPECT_THAT(DecodeUnbounded<BarrierStatus>(bytes)->waiting, testing::ElementsAre(3, -1, 4));
}

TEST(Codec, MergesAMessageThatComesTwice) {
  std::string bytes = Encode(StatusReply{.server = {.version = "1", .pid = 4}});
  bytes += Encode(StatusReply{.server = {.version = "2"}});
  EXPECT_EQ(Decode<StatusReply>(bytes)->server, (ServerStatus{.version = "2", .pid = 4}));
}

TEST(Json, HasEveryFieldInOrder) {
  const MemberStatus member = {.index = 4, .name = "task/4#1", .condition = MemberCondition::kLost};
  EXPECT_EQ(ToJson(member).dump(),
            R"({"index":4,"name":"task/4#1","condition":"lost","since_ago_us":0,)"
            R"("last_heard_ago_us":null,"why":"","peer":"","host":"","pid":0,)"
            R"("step":null,"phase":"","labels":[],"doing":"","native":false,)"
            R"("process":"unspecified","process_since_ago_us":0})");
}

TEST(Json, WritesIdsAsTextAndListsAsArrays) {
  const Json json = ToJson(JobStatus{.service_incarnation = 18446744073709551615u,
                                     .barriers = {{.id = "b", .waiting = {1, 2}}}});
  EXPECT_EQ(json["service_incarnation"], "18446744073709551615");
  EXPECT_EQ(json["barriers"][0]["waiting"].dump(), "[1,2]");
  EXPECT_EQ(json["members"].dump(), "[]");
}

TEST(Utf8, KnowsCharactersFromWhatOnlyLooksLikeOne) {
  for (const char* good : {"", "a", "\xC2\x80", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                           "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(IsUtf8(good)) << good;
  }
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xC2", "\xE0\x9F\xBF", "\xE1\x80", "\xED\xA0\x80",
        "\xF0\x8F\xBF\xBF", "\xF0\x90\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_FALSE(IsUtf8(bad)) << bad;
  }
}

TEST(Utf8, ReplacesWhatIsNotACharacter) {
  EXPECT_EQ(ToUtf8("a\xC3"), "a\xEF\xBF\xBD");
  EXPECT_EQ(ToUtf8("\xE2\x98\x83!"), "\xE2\x98\x83!");
}

TEST(ErrorReply, KeepsCodeReasonAndTextOnTheWay) {
  const absl::Status status = WithReason(absl::NotFoundError("no job 'x'"), "unknown_job");
  const ErrorReply reply = ToErrorReply(status);
  EXPECT_EQ(reply, (ErrorReply{.code = 5, .reason = "unknown_job", .message = "no job 'x'"}));
  EXPECT_EQ(ToStatus(reply), status);
}

TEST(ErrorReply, NamesTheCodeWhenNobodyGaveAReason) {
  EXPECT_EQ(ToErrorReply(absl::InternalError("x")).reason, "internal");
}

TEST(ErrorReply, IsNeverSuccess) {
  EXPECT_EQ(ToStatus({.code = 0}).code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(ToStatus({.code = 99}).code(), absl::StatusCode::kUnknown);
}

}  // namespace
}  // namespace lockstep::wire::native
