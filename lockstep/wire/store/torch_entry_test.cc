#include "lockstep/wire/store/torch_entry.h"

#include <memory>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/store/entry.h"
#include "lockstep/wire/store/records_messages.h"

namespace lockstep::wire::store {
namespace {

namespace record = tcpstore::record;
using testing::ElementsAreArray;
using testing::HasSubstr;

tcpstore::ValuePtr Value(std::string text) {
  return std::make_shared<const std::string>(std::move(text));
}

std::string Describe(const tcpstore::Record& record) {
  struct Say {
    std::string operator()(const record::Opened& is) const {
      return absl::StrCat("opened ", is.attempt, " ", is.port, " ", is.keeps);
    }
    std::string operator()(const record::Used&) const { return "used"; }
    std::string operator()(const record::KeySet& is) const {
      return absl::StrCat("set ", is.key, "=", *is.value);
    }
    std::string operator()(const record::ValueAppended& is) const {
      return absl::StrCat("append ", is.key, "=", *is.more);
    }
    std::string operator()(const record::KeyDeleted& is) const {
      return absl::StrCat("delete ", is.key);
    }
    std::string operator()(const record::QueuePushed& is) const {
      return absl::StrCat("push ", is.key, "=", *is.value);
    }
    std::string operator()(const record::QueuePopped& is) const {
      return absl::StrCat("pop ", is.key);
    }
    std::string operator()(const record::Cleared&) const { return "cleared"; }
    std::string operator()(const record::GroupCleared&) const { return "group cleared"; }
    static std::string Name(const tcpstore::PassedConnection& of) {
      return absl::StrCat(of.agent.high, ":", of.agent.low, ":", of.number);
    }
    std::string operator()(const record::CommandDone& is) const {
      return absl::StrCat("done ", is.number, " by ", Name(is.by), " with ",
                          is.answer ? *is.answer : "nothing");
    }
    std::string operator()(const record::PassedGone& is) const {
      return absl::StrCat("gone ", Name(is.gone));
    }
  };
  return std::visit(Say(), record);
}

// One of each kind, and what is empty.
std::vector<tcpstore::Record> OneOfEach() {
  return {record::Opened{7, 65535, true},
          record::Opened{1, 20000, false},
          record::Used{},
          record::KeySet{std::string("/a\0b", 4), Value(std::string("\0\xff", 2))},
          record::KeySet{"", Value("")},
          record::ValueAppended{"/a", Value("more")},
          record::KeyDeleted{"/a"},
          record::QueuePushed{"/q", Value("")},
          record::QueuePopped{"/q"},
          record::Cleared{},
          record::GroupCleared{},
          record::CommandDone{{.agent = {~uint64_t{0}, 7}, .number = 3}, 9, Value("\1")},
          record::CommandDone{{.agent = {1, 2}, .number = 1}, 1, nullptr},
          record::PassedGone{{.agent = {1, 2}, .number = 1}}};
}

TEST(TorchEntry, EachRecordComesBackAsItWas) {
  static_assert(std::variant_size_v<tcpstore::Record> == 11, "one of each kind, please");
  const Moment now = {.now = Time(), .wall = absl::FromUnixSeconds(1'700'000'000)};
  std::string bytes;
  EncodeTorchRecords("digits", now.wall, OneOfEach(), bytes);
  const auto entry = DecodeEntry(bytes, now);
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ(entry->job, "digits");
  EXPECT_TRUE(entry->records.empty() && entry->data.empty());
  std::vector<std::string> expected;
  std::vector<std::string> found;
  for (const tcpstore::Record& record : OneOfEach()) expected.push_back(Describe(record));
  for (const tcpstore::Record& record : entry->torch) found.push_back(Describe(record));
  EXPECT_THAT(found, ElementsAreArray(expected));
}

TEST(TorchEntry, Finding02_ARecordOfALaterKindIsUnfit) {
  std::string bytes;
  native::EncodeTo(Entry{.job = "digits", .torch = {TorchRecord{}}}, bytes);
  const auto entry = DecodeEntry(bytes, {});
  ASSERT_TRUE(entry.ok()) << entry.status();
  EXPECT_EQ(entry->job, "digits");
  EXPECT_THAT(std::string(entry->unfit.message()), HasSubstr("a newer version wrote it"));
}

}  // namespace
}  // namespace lockstep::wire::store
