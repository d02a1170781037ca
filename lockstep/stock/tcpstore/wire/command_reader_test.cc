#include "lockstep/stock/tcpstore/wire/command_reader.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"

namespace lockstep::wire::tcpstore {
namespace {

using machine::Command;
using machine::StoreOptions;
using testing::ElementsAre;
using testing::HasSubstr;

// Bytes as torch's client sends them, spelled out.
std::string Number(uint64_t number) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &number, 8);
  return bytes;
}
std::string Text(const std::string& text) { return Number(text.size()) + text; }
std::string Op(int op) { return std::string(1, static_cast<char>(op)); }

const std::string kHello("\0\xce\xf7\x85\x3c", 5);

// One whole command as a line.
std::string Describe(const Command& command) {
  struct Say {
    static std::string Join(const machine::Keys& keys) {
      std::string all;
      for (const absl::string_view key : keys) absl::StrAppend(&all, "[", key, "]");
      return all;
    }
    std::string operator()(const machine::Set& is) const {
      return absl::StrCat("set ", is.key, "=", is.value);
    }
    std::string operator()(const machine::CompareSet& is) const {
      return absl::StrCat("compare ", is.key, " ", is.expected, " ", is.desired);
    }
    std::string operator()(const machine::Get& is) const { return absl::StrCat("get ", is.key); }
    std::string operator()(const machine::Add& is) const {
      return absl::StrCat("add ", is.key, " ", is.amount);
    }
    std::string operator()(const machine::Check& is) const { return "check " + Join(is.keys); }
    std::string operator()(const machine::Wait& is) const { return "wait " + Join(is.keys); }
    std::string operator()(const machine::CountKeys& /*is*/) const { return "count"; }
    std::string operator()(const machine::DeleteKey& is) const {
      return absl::StrCat("delete ", is.key);
    }
    std::string operator()(const machine::Append& is) const {
      return absl::StrCat("append ", is.key, " ", is.value);
    }
    std::string operator()(const machine::MultiGet& is) const {
      return "multi get " + Join(is.keys);
    }
    std::string operator()(const machine::MultiSet& is) const {
      std::string all = "multi set";
      for (const machine::Set& pair : is.pairs)
        absl::StrAppend(&all, " ", pair.key, "=", pair.value);
      return all;
    }
    std::string operator()(const machine::CancelWait& /*is*/) const { return "cancel"; }
    std::string operator()(const machine::Ping& is) const {
      return absl::StrCat("ping ", is.number);
    }
    std::string operator()(const machine::QueuePush& is) const {
      return absl::StrCat("push ", is.key, " ", is.value);
    }
    std::string operator()(const machine::QueuePop& is) const {
      return absl::StrCat("pop ", is.key);
    }
    std::string operator()(const machine::QueueLength& is) const {
      return absl::StrCat("length ", is.key);
    }
    std::string operator()(const machine::ListKeys& /*is*/) const { return "list"; }
    std::string operator()(const machine::Barrier& is) const {
      return absl::StrCat("barrier ", is.key, " ", is.size);
    }
  };
  return std::visit(Say(), command);
}

// The commands in `bytes`, given in pieces of so many; an error ends them as "! text".
std::vector<std::string> ReadAll(const std::string& bytes, size_t piece,
                                 const StoreOptions& options = {}) {
  CommandReader reader(options);
  std::vector<std::string> commands;
  Command command;
  size_t given = 0;
  while (true) {
    const auto next = reader.Next(command);
    if (!next.ok()) {
      commands.push_back(absl::StrCat("! ", std::string(next.status().message())));
      return commands;
    }
    if (*next) {
      commands.push_back(Describe(command));
      continue;
    }
    if (given == bytes.size()) return commands;
    const absl::Span<char> room = reader.Prepare();
    const size_t now = std::min({piece, room.size(), bytes.size() - given});
    EXPECT_GT(now, 0u);
    std::memcpy(room.data(), bytes.data() + given, now);
    reader.Commit(now);
    given += now;
  }
}

std::string AllCommands() {
  return kHello + Op(13) + std::string("\x4d\0\0\0", 4) +                        //
         Op(1) + Text("/a") + Text("value") +                                    //
         Op(2) + Text("/a") + Text("value") + Text("") +                         //
         Op(3) + Text("/a") +                                                    //
         Op(4) + Text("init/") + Number(1) +                                     //
         Op(5) + Number(2) + Text("/a") + Text("/b") +                           //
         Op(6) + Number(1) + Text("/a") +                                        //
         Op(7) +                                                                 //
         Op(8) + Text("/a") +                                                    //
         Op(9) + Text("/a") + Text("more") +                                     //
         Op(10) + Number(0) +                                                    //
         Op(11) + Number(2) + Text("/a") + Text("1") + Text("/b") + Text("2") +  //
         Op(12) +                                                                //
         Op(14) + Text("/q") + Text("x") +                                       //
         Op(15) + Text("/q") +                                                   //
         Op(16) + Text("/q") +                                                   //
         Op(17) +                                                                //
         Op(18) + Text("/b") + Number(~uint64_t{0});
}

TEST(CommandReader, ReadsEachCommandInAnyCuts) {
  const auto expected = ElementsAre(
      "ping 77", "set /a=value", "compare /a value ", "get /a", "add init/ 1", "check [/a][/b]",
      "wait [/a]", "count", "delete /a", "append /a more", "multi get ", "multi set /a=1 /b=2",
      "cancel", "push /q x", "pop /q", "length /q", "list", "barrier /b -1");
  for (size_t piece = 1; piece <= AllCommands().size(); ++piece) {
    SCOPED_TRACE(piece);
    EXPECT_THAT(ReadAll(AllCommands(), piece), expected);
  }
}

TEST(CommandReader, ReadsLongValuesWhole) {
  const std::string value(3'000'000, 'v');
  const std::string bytes = kHello + Op(1) + Text("/a") + Text(value) + Op(3) + Text("/a") + Op(9) +
                            Text("/b") + Text(value);
  for (const size_t piece : {size_t{1000}, size_t{65536}, size_t{1} << 22}) {
    EXPECT_THAT(ReadAll(bytes, piece),
                ElementsAre("set /a=" + value, "get /a", "append /b " + value));
  }
}

TEST(CommandReader, DoesNotBelieveALengthUntilItComes) {
  const StoreOptions options;
  CommandReader reader(options);
  const std::string bytes = kHello + Op(1) + Text("/a") + Number(8 << 20);
  const absl::Span<char> room = reader.Prepare();
  std::memcpy(room.data(), bytes.data(), bytes.size());
  reader.Commit(bytes.size());
  Command command;
  const auto next = reader.Next(command);
  ASSERT_TRUE(next.ok() && !*next);
  EXPECT_LE(reader.Prepare().size(), size_t{128} << 10);
}

std::string ErrorOf(const std::string& bytes, const StoreOptions& options = {}) {
  const auto all = ReadAll(bytes, bytes.size(), options);
  EXPECT_EQ(ReadAll(bytes, 1, options).size(), all.size()) << "the same byte by byte";
  return all.empty() ? "" : all.back();
}

TEST(CommandReader, SaysWhatAForeignConnectionIs) {
  EXPECT_THAT(ErrorOf("GET /metrics HTTP/1.1\r\n"), HasSubstr("it speaks HTTP: \"GET /metrics"));
  EXPECT_THAT(ErrorOf("PRI * HTTP/2.0\r\n\r\nSM"), HasSubstr("it speaks"));
  EXPECT_THAT(ReadAll("PRI * HTTP/2.0\r\n\r\nSM", 99), ElementsAre(HasSubstr("as gRPC does")));
  EXPECT_THAT(ErrorOf("\x16\x03\x01\x02"), HasSubstr("TLS"));
  EXPECT_THAT(ErrorOf(Op(4) + Text("init/") + Number(1)), HasSubstr("it sent ADD before VALIDATE"));
  EXPECT_THAT(ErrorOf(std::string("\0\x01\x02\x03\x04", 5)), HasSubstr("another number"));
  EXPECT_THAT(ErrorOf("\xff"), HasSubstr("does not speak torch's protocol: \"\\xff\""));
}

TEST(CommandReader, RefusesWhatIsNoCommand) {
  EXPECT_THAT(ErrorOf(kHello + kHello), HasSubstr("VALIDATE twice"));
  EXPECT_THAT(ErrorOf(kHello + Op(19)), HasSubstr("a command of number 19"));
}

TEST(CommandReader, RefusesWhatIsOverALimitAsSoonAsItIsAnnounced) {
  const StoreOptions options = {
      .key_bytes_max = 4, .value_bytes_max = 8, .keys_per_request_max = 3, .request_bytes_max = 60};
  EXPECT_THAT(ErrorOf(kHello + Op(3) + Number(5), options), HasSubstr("torch_key_bytes_max (4)"));
  EXPECT_THAT(ErrorOf(kHello + Op(3) + Number(~uint64_t{0}), options),
              HasSubstr("torch_key_bytes_max"));
  EXPECT_THAT(ErrorOf(kHello + Op(1) + Text("/a") + Number(9), options),
              HasSubstr("torch_value_bytes_max (8)"));
  EXPECT_THAT(ErrorOf(kHello + Op(11) + Number(1) + Text("/a") + Number(9), options),
              HasSubstr("torch_value_bytes_max (8)"));
  EXPECT_THAT(ErrorOf(kHello + Op(6) + Number(4), options),
              HasSubstr("torch_keys_per_request_max (3)"));
  EXPECT_THAT(ErrorOf(kHello + Op(11) + Number(3) + Text("/a") + Text("12345678") + Text("/b") +
                          Text("12345678"),
                      options),
              HasSubstr("torch_request_bytes_max (60)"));
  EXPECT_THAT(ReadAll(kHello + Op(3) + Text("1234"), 99, options), ElementsAre("get 1234"));
}

}  // namespace
}  // namespace lockstep::wire::tcpstore
