#include "lockstep/server/log.h"

#include <memory>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"

namespace lockstep::server {
namespace {

TEST(JsonLines, AreOneObjectEach) {
  std::ostringstream out;
  spdlog::logger logger("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(out));
  logger.set_formatter(std::make_unique<JsonLines>());
  logger.warn("a \"quoted\"\nline \xFF");
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json["level"], "warning");
  EXPECT_EQ(json["text"], "a \"quoted\"\nline \xEF\xBF\xBD");
  EXPECT_THAT(json["at"].get<std::string>(), ::testing::MatchesRegex("....-..-..T..:..:.*Z"));
  EXPECT_EQ(out.str().find('\n'), out.str().size() - 1) << "one line";
}

TEST(TextLines, Finding08_NobodyForgesALine) {
  std::ostringstream out;
  spdlog::logger logger("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(out));
  logger.set_formatter(std::make_unique<TextLines>());
  logger.info("hello of '{}'", "x\n2026-01-01T00:00:00.000 error job 'other': forged line\x1b[2J");
  EXPECT_THAT(out.str(), ::testing::MatchesRegex(
                             "....-..-..T..:..:......? info hello of 'x 2026-01-01T00:00:00.000 "
                             "error job 'other': forged line .2J'\n"));
  EXPECT_EQ(out.str().find('\n'), out.str().size() - 1) << "one line";
}

TEST(JsonLines, TakeTheFieldsOfATransition) {
  std::ostringstream out;
  auto logger = std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(out));
  logger->set_formatter(std::make_unique<JsonLines>());
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(logger);
  UseLogFormat(LogFormat::kJson);
  LogEvent("digits", {.kind = wire::native::EventKind::kMemberLost,
                      .severity = wire::native::EventSeverity::kError,
                      .attempt = 2,
                      .member = "task/2#1",
                      .text = "was lost"});
  UseLogFormat(LogFormat::kText);
  spdlog::set_default_logger(before);
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json["job"], "digits");
  EXPECT_EQ(json["kind"], "member_lost");
  EXPECT_EQ(json["attempt"], 2);
  EXPECT_EQ(json["member"], "task/2#1");
  EXPECT_EQ(json["text"], "was lost");
  EXPECT_EQ(json["level"], "error");
}

}  // namespace
}  // namespace lockstep::server
