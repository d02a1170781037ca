#include "lockstep/launch/result_file.h"

#include <csignal>
#include <fstream>
#include <sstream>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace lockstep::launch {
namespace {

RunResult Failed() {
  return {.outcome = "failed",
          .why = "failed after 3.2 s, exit code 1",
          .cause = "task/1 (pid 7) ended with exit code 1 after 3.0 s: ValueError: bad",
          .first_failed = 1,
          .exit_code = 1,
          .attempts = 2,
          .lasted = absl::Milliseconds(3200),
          .past = {"attempt 1 failed"},
          .processes = {{.member = 1,
                         .pid = 7,
                         .started = true,
                         .ending = {1, 0},
                         .lasted = absl::Seconds(3),
                         .error = "ValueError: bad",
                         .last_lines = {"any \xff bytes"}},
                        {.member = 2, .pid = 8, .started = true, .ending = {0, SIGTERM}}}};
}

TEST(ResultFile, ItSaysWhoWhyAndHowEachProcessEnded) {
  const auto json = nlohmann::json::parse(ResultJson(Failed(), {.job = "digits", .host = "h1"}));
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["job"], "digits");
  EXPECT_EQ(json["outcome"], "failed");
  EXPECT_EQ(json["first_failed"], 1);
  EXPECT_EQ(json["attempts"], 2);
  EXPECT_EQ(json["processes"][0]["name"], "task/1");
  EXPECT_EQ(json["processes"][0]["exit_code"], 1);
  EXPECT_EQ(json["processes"][0]["signal"], nullptr);
  EXPECT_EQ(json["processes"][0]["error"], "ValueError: bad");
  EXPECT_EQ(json["processes"][1]["exit_code"], nullptr);
  EXPECT_EQ(json["processes"][1]["signal"], "SIGTERM");
}

TEST(ResultFile, ItIsWrittenWholeOrNotAtAll) {
  const std::string path = testing::TempDir() + "/result.json";
  std::ofstream(path) << "of a run before";
  ASSERT_TRUE(WriteResult(path, Failed(), {.job = "digits"}).ok());
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), ResultJson(Failed(), {.job = "digits"}));
  const absl::Status refused = WriteResult("/nowhere/result.json", Failed(), {});
  EXPECT_NE(refused.message().find("/nowhere/result.json: No such file"), std::string::npos)
      << refused;
}

}  // namespace
}  // namespace lockstep::launch
