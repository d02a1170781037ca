#include "lockstep/platform/config/option_table.h"

#include <unistd.h>

#include <fstream>
#include <map>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/config/renamed_options.h"
#include "lockstep/platform/config/show.h"
#include "nlohmann/json.hpp"

namespace lockstep::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Texts = std::vector<std::string>;

// A program with an option of each kind.
class OptionTableTest : public ::testing::Test {
 protected:
  OptionTableTest() : table_("server", "LOCKSTEP_SERVER_") {
    table_.Text("listen", &listen_, "HOST:PORT", "Where it listens.").Common();
    table_.Duration("grace", &grace_, "How long.");
    table_.Count("keys-max", &keys_max_, "Keys of a job.");
    table_.Bytes("value-bytes-max", &bytes_, "Of a value.");
    table_.Switch("verbose", &verbose_, "Says more.").flags = "-v,--verbose";
    table_.Choice("log-format", &format_, {"text", "json"}, "How.");
    table_.List("job", &jobs_, "NAME=SIZE", "A job.");
  }

  absl::Status Resolve(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "program");
    CLI::App app;
    table_.AddTo(app);
    app.parse(static_cast<int>(arguments.size()), arguments.data());
    return table_.Resolve([this](const char* name) -> const char* {
      const auto found = variables_.find(name);
      return found == variables_.end() ? nullptr : found->second.c_str();
    });
  }

  std::string WriteFile(const std::string& text) {
    const std::string path = ::testing::TempDir() + "options." + std::to_string(getpid());
    std::ofstream(path) << text;
    return path;
  }

  const Option& Named(const std::string& name) {
    for (const Option& option : table_.options()) {
      if (option.name == name) return option;
    }
    ADD_FAILURE() << name;
    return table_.options().front();
  }

  std::map<std::string, std::string> variables_;
  std::string listen_ = "127.0.0.1:7070";
  absl::Duration grace_ = absl::Seconds(10);
  size_t keys_max_ = 1000;
  size_t bytes_ = 64 << 20;
  bool verbose_ = false;
  std::string format_ = "text";
  std::vector<std::string> jobs_;
  OptionTable table_;
};

TEST_F(OptionTableTest, KeepsDefaults) {
  ASSERT_TRUE(Resolve({}).ok());
  EXPECT_EQ(listen_, "127.0.0.1:7070");
  EXPECT_EQ(bytes_, 64u << 20);
  EXPECT_EQ(Named("listen").origin, Origin::kDefault);
}

TEST_F(OptionTableTest, ARepeatableFlagTakesOneValueAtATime) {
  CLI::App app;
  app.prefix_command();
  table_.AddTo(app);
  const std::vector<const char*> words = {"program", "--job", "a=1", "--job", "b=2", "train.py"};
  app.parse(static_cast<int>(words.size()), words.data());
  ASSERT_TRUE(table_.Resolve([](const char*) { return nullptr; }).ok());
  EXPECT_THAT(jobs_, ElementsAre("a=1", "b=2"));
  EXPECT_THAT(app.remaining(), ElementsAre("train.py"));
}

TEST_F(OptionTableTest, OtherNamesOfAnOptionAreTakenBehindItsOwn) {
  Option& keys = table_.Count("keys-most", &keys_max_, "Keys.");
  keys.other_flags = {"--keys"};
  keys.other_variables = {"OTHER_KEYS"};
  table_.TakeUnderscores();
  variables_ = {{"OTHER_KEYS", "5"}};
  ASSERT_TRUE(Resolve({}).ok());
  EXPECT_EQ(keys_max_, 5U);
  EXPECT_EQ(Named("keys-most").where, "OTHER_KEYS");
}

TEST_F(OptionTableTest, UnderscoresAndOtherFlags) {
  Option& keys = table_.Count("keys-most", &keys_max_, "Keys.");
  keys.other_flags = {"--most-keys"};
  table_.TakeUnderscores();
  ASSERT_TRUE(Resolve({"--most_keys", "6"}).ok());
  EXPECT_EQ(keys_max_, 6U);
  EXPECT_EQ(Named("keys-most").where, "--most_keys");
}

TEST_F(OptionTableTest, AFlagBeatsAVariableBeatsAFileBeatsTheDefault) {
  const std::string path = WriteFile(
      "server:\n  listen: file:1\n  grace: 5s\n  keys_max: 7\n  job: [a=1, b=2]\n  verbose: yes\n");
  variables_ = {{"LOCKSTEP_CONFIG", path},
                {"LOCKSTEP_SERVER_LISTEN", "variable:1"},
                {"LOCKSTEP_SERVER_GRACE", "6s"},
                {"LOCKSTEP_SERVER_VALUE_BYTES_MAX", ""}};
  ASSERT_TRUE(Resolve({"--listen", "flag:1"}).ok());
  EXPECT_EQ(listen_, "flag:1");
  EXPECT_EQ(grace_, absl::Seconds(6));
  EXPECT_EQ(keys_max_, 7u);
  EXPECT_TRUE(verbose_);
  EXPECT_THAT(jobs_, ElementsAre("a=1", "b=2"));
  EXPECT_EQ(bytes_, 64u << 20) << "an empty variable says nothing";
  EXPECT_EQ(Named("listen").where, "--listen");
  EXPECT_EQ(Named("grace").where, "LOCKSTEP_SERVER_GRACE");
  EXPECT_EQ(Named("keys-max").where, path + ":4");
  EXPECT_EQ(Named("keys-max").origin, Origin::kFile);
}

TEST_F(OptionTableTest, TheFlagNamesTheFileToo) {
  const std::string path = WriteFile("server: {keys_max: 8}\nclient: {whatever: 1}\n");
  ASSERT_TRUE(Resolve({"--config", path.c_str()}).ok()) << "other sections are not ours to check";
  EXPECT_EQ(keys_max_, 8u);
}

TEST_F(OptionTableTest, ListsStandInFlagsAndVariables) {
  ASSERT_TRUE(Resolve({"--job", "a=1", "--job", "b=worker:2,ps:1"}).ok());
  EXPECT_THAT(jobs_, ElementsAre("a=1", "b=worker:2,ps:1"));
  variables_["LOCKSTEP_SERVER_JOB"] = "c=1  d=2";
  OptionTable other("server", "LOCKSTEP_SERVER_");
  ASSERT_TRUE(Resolve({}).ok());
  EXPECT_THAT(jobs_, ElementsAre("c=1", "d=2"));
}

TEST_F(OptionTableTest, WhatIsWrongIsNamedWithItsPlace) {
  const auto complaint = [&](std::vector<const char*> arguments) {
    return std::string(Resolve(std::move(arguments)).message());
  };
  EXPECT_THAT(complaint({"--grace", "5"}), HasSubstr("--grace: '5': not a duration"));
  EXPECT_THAT(complaint({"--grace", "0s"}), HasSubstr("more than zero"));
  EXPECT_THAT(complaint({"--keys-max", "0"}), HasSubstr("must be from 1 to"));
  EXPECT_THAT(complaint({"--log-format", "xml"}), HasSubstr("must be text or json"));
  variables_["LOCKSTEP_SERVER_VERBOSE"] = "perhaps";
  EXPECT_THAT(complaint({}), HasSubstr("LOCKSTEP_SERVER_VERBOSE: 'perhaps'"));
  variables_.clear();
  std::string path = WriteFile("server:\n  keys_max: many\n");
  EXPECT_THAT(complaint({"--config", path.c_str()}), HasSubstr(path + ":2: keys_max: 'many'"));
  path = WriteFile("server:\n  keys-max: 1\n");
  EXPECT_THAT(complaint({"--config", path.c_str()}),
              HasSubstr(path + ":2: section 'server' has no option 'keys-max'; write keys_"));
  path = WriteFile("server:\n  nonsense: 1\n");
  EXPECT_THAT(complaint({"--config", path.c_str()}), HasSubstr("has no option 'nonsense'"));
  path = WriteFile("server:\n  listen: [a, b]\n");
  EXPECT_THAT(complaint({"--config", path.c_str()}), HasSubstr("takes one value"));
  EXPECT_THAT(complaint({"--config", "/nowhere"}), HasSubstr("/nowhere"));
}

TEST_F(OptionTableTest, ShowsEachValueAndWhereItCameFrom) {
  variables_["LOCKSTEP_SERVER_GRACE"] = "6s";
  ASSERT_TRUE(Resolve({"--job", "a=1", "-v"}).ok());
  const std::string text = ShowText(table_);
  EXPECT_THAT(text,
              HasSubstr("  grace            6s              environment LOCKSTEP_SERVER_GRACE\n"));
  EXPECT_THAT(text, HasSubstr("  listen           127.0.0.1:7070  default\n"));
  EXPECT_THAT(text, HasSubstr("  job              a=1             flag --job\n"));
  const auto json = nlohmann::json::parse(ShowJson(table_))["server"];
  EXPECT_EQ(json["verbose"]["value"], true);
  EXPECT_EQ(json["job"]["value"].dump(), R"(["a=1"])");
  EXPECT_EQ(json["grace"]["origin"], "environment");
  EXPECT_EQ(json["grace"]["where"], "LOCKSTEP_SERVER_GRACE");
}

TEST_F(OptionTableTest, MakesTheReferenceWithCommonOptionsFirst) {
  ASSERT_TRUE(Resolve({}).ok());
  const std::string rows = Reference(table_);
  EXPECT_THAT(rows, HasSubstr("| `--listen HOST:PORT` | `LOCKSTEP_SERVER_LISTEN` | `listen` | "
                              "`127.0.0.1:7070` | Where it listens. |\n"));
  EXPECT_THAT(rows, HasSubstr("| `-v`, `--verbose` |"));
  EXPECT_THAT(rows, HasSubstr("`--log-format text\\|json`"));
  EXPECT_LT(rows.find("--listen"), rows.find("Tuning options"));
  EXPECT_LT(rows.find("Tuning options"), rows.find("--verbose"));
}

TEST_F(OptionTableTest, HelpShowsCommonOptionsAndHelpAllTheOthersUnderTheirHeading) {
  table_.Group("Limits");
  size_t waits_max = 1;
  table_.Count("waits-max", &waits_max, "Waits.");
  const auto help = [&](const char* flag) {
    CLI::App app("", "program");
    table_.AddTo(app);
    const std::vector<const char*> words = {"program", flag};
    std::ostringstream out;
    try {
      app.parse(static_cast<int>(words.size()), words.data());
    } catch (const CLI::ParseError& end) {
      EXPECT_EQ(app.exit(end, out, out), 0);
    }
    return out.str();
  };
  const std::string common = help("-h");
  EXPECT_THAT(common, HasSubstr("--listen HOST:PORT"));
  EXPECT_THAT(common, HasSubstr("--help-all shows all"));
  EXPECT_THAT(common, Not(HasSubstr("--waits-max")));
  const std::string all = help("--help-all");
  EXPECT_THAT(all, HasSubstr("--listen HOST:PORT"));
  EXPECT_THAT(all, HasSubstr("Tuning:\n"));
  EXPECT_THAT(all, Not(HasSubstr("These are the common options")));
  EXPECT_LT(all.find("Limits:\n"), all.find("--waits-max"));
}

TEST_F(OptionTableTest, HelpIsWrapped) {
  std::string value;
  table_.Text("long", &value, "X", std::string(40, 'a') + " " + std::string(40, 'b')).Common();
  CLI::App app;
  table_.AddTo(app);
  EXPECT_THAT(app.help(), HasSubstr("a\n"));
  EXPECT_THAT(app.help(), Not(HasSubstr("a b")));
}

TEST_F(OptionTableTest, AnOldNameIsRefusedWithTheNewOne) {
  EXPECT_THAT(
      [&] {
        (void)Resolve({"--job-rest", "5s"});
      },
      ::testing::Throws<CLI::ValidationError>(::testing::Property(
          &CLI::ValidationError::what, ::testing::StrEq("--job-rest is now --idle-job-timeout"))));
  variables_["LOCKSTEP_SERVER_JOB_REST"] = "5s";
  EXPECT_EQ(Resolve({}).message(),
            "LOCKSTEP_SERVER_JOB_REST is now LOCKSTEP_SERVER_IDLE_JOB_TIMEOUT");
  variables_.clear();
  const std::string path = WriteFile("server:\n  job_rest: 5s\n");
  EXPECT_EQ(Resolve({"--config", path.c_str()}).message(),
            path + ":2: job_rest is now idle_job_timeout");
}

TEST(RenamedOptions, AnOldCommandHasANewName) {
  EXPECT_EQ(NewNameOfCommand("tell-processes"), "report-processes");
  EXPECT_EQ(NewNameOfCommand("status"), "");
}

TEST(RenamedOptions, EveryOldFlagIsRefusedAsASwitchAndWithAValue) {
  for (const RenamedOption& renamed : RenamedOptions()) {
    for (const std::vector<std::string>& value : {Texts{}, Texts{"1"}}) {
      CLI::App app;
      RefuseOldNames(renamed.section, app);
      std::vector<std::string> words = value;  // the last is read first
      words.push_back("--" + renamed.before);
      EXPECT_THROW(app.parse(words), CLI::ValidationError) << renamed.before;
      EXPECT_NE(renamed.before, renamed.now);
    }
  }
}

}  // namespace
}  // namespace lockstep::config
