#include "lockstep/platform/config/config_file.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Complaint(const std::string& text) {
  const auto file = ParseConfigFile("l.yaml", text);
  return file.ok() ? "" : std::string(file.status().message());
}

TEST(ConfigFile, HasValuesAndListsBySection) {
  const auto file = ParseConfigFile("l.yaml",
                                    "# of the cluster\n"
                                    "server:\n"
                                    "  listen: 0.0.0.0:7070\n"
                                    "  job: [a=1, 'b=worker:2,ps:1']\n"
                                    "client: {coordinator: head:7070}\n"
                                    "run:\n");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->sections.at("server").at("listen").texts, ElementsAre("0.0.0.0:7070"));
  EXPECT_EQ(file->sections.at("server").at("listen").line, 3);
  EXPECT_THAT(file->sections.at("server").at("job").texts, ElementsAre("a=1", "b=worker:2,ps:1"));
  EXPECT_THAT(file->sections.at("client").at("coordinator").texts, ElementsAre("head:7070"));
}

TEST(ConfigFile, MayBeJson) {
  const auto file = ParseConfigFile("l.json", R"({"server": {"keys_max": 5, "verbose": true}})");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->sections.at("server").at("keys_max").texts, ElementsAre("5"));
  EXPECT_THAT(file->sections.at("server").at("verbose").texts, ElementsAre("true"));
}

TEST(ConfigFile, MayBeEmpty) { EXPECT_TRUE(ParseConfigFile("l.yaml", "").ok()); }

TEST(ConfigFile, NamesThePlaceOfWhatIsWrong) {
  EXPECT_THAT(Complaint("server: {}\nsever: {}\n"), HasSubstr("l.yaml:2: unknown section 'sever'"));
  EXPECT_THAT(Complaint("server:\n  a: 1\n  a: 2\n"), HasSubstr("l.yaml:3: 'a' is given twice"));
  EXPECT_THAT(Complaint("server:\n  a: {b: 1}\n"), HasSubstr("l.yaml:2: 'a' must be a value"));
  EXPECT_THAT(Complaint("server:\n  a: [[1]]\n"), HasSubstr("plain values"));
  EXPECT_THAT(Complaint("server: 5\n"), HasSubstr("must contain options"));
  EXPECT_THAT(Complaint("- a\n"), HasSubstr("has no sections"));
  EXPECT_THAT(Complaint("server: [\n"), HasSubstr("l.yaml:"));
  EXPECT_THAT(Complaint(std::string(kConfigFileBytesMax + 1, ' ')),
              HasSubstr("config_file_bytes_max"));
}

TEST(ConfigFile, HasASectionForEachProgram) {
  const auto file =
      ParseConfigFile("l.yaml", "server: {}\nrun: {}\nclient: {}\nworker:\n  cache_bytes: 1MiB\n");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->sections.at("worker").at("cache_bytes").texts, ElementsAre("1MiB"));
}

TEST(ConfigFile, SaysThatItCannotBeRead) {
  const auto file = ReadConfigFile("/nowhere/l.yaml");
  EXPECT_EQ(file.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("No such file"));
}

}  // namespace
}  // namespace lockstep::config
