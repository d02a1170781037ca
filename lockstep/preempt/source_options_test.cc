#include "lockstep/preempt/source_options.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace lockstep::preempt {
namespace {

TEST(SourceOptions, ANameAndItsOptions) {
  const auto spec = ParseSourceSpec(R"(command:command=test -e /a\,b,interval=2s)");
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->name, "command");
  EXPECT_EQ(spec->options.at("command"), "test -e /a,b");
  EXPECT_EQ(spec->options.at("interval"), "2s");
  EXPECT_TRUE(ParseSourceSpec("gce")->options.empty());
  EXPECT_EQ(ParseSourceSpec("gce:url=http://127.0.0.1:80")->options.at("url"),
            "http://127.0.0.1:80");
}

TEST(SourceOptions, WhatIsWrittenWrongIsRefused) {
  for (const char* text : {"", ":a=b", "file:", "file:path", "file:=x", "file:a=1,a=2"}) {
    EXPECT_FALSE(ParseSourceSpec(text).ok()) << text;
  }
}

TEST(OptionReader, ReadsByTypeAndSaysWhatIsWrong) {
  OptionReader good("file", {{"interval", "2s"}, {"chain", "no"}});
  EXPECT_EQ(good.Length("interval", absl::Seconds(1)), absl::Seconds(2));
  EXPECT_FALSE(good.Switch("chain", true));
  EXPECT_EQ(good.Text("path", "/x"), "/x");
  EXPECT_TRUE(good.Finish().ok());

  OptionReader bad("file", {{"interval", "soon"}});
  bad.Length("interval", absl::Seconds(1), absl::Seconds(1));
  EXPECT_TRUE(absl::StrContains(bad.Finish().message(), "source 'file': interval is a duration"));
}

TEST(OptionReader, AnOptionThatNobodyReadIsNamedWithThoseThatAre) {
  OptionReader reader("file", {{"pth", "/x"}});
  reader.Text("path", "");
  EXPECT_TRUE(absl::StrContains(reader.Finish().message(), "has no option 'pth'; it has path"));
}

}  // namespace
}  // namespace lockstep::preempt
