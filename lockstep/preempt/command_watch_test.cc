#include <unistd.h>

#include "absl/strings/match.h"
#include "lockstep/testing/running_source.h"

namespace lockstep::preempt {
namespace {

using lockstep::testing::Running;
using lockstep::testing::TestDirectory;
using lockstep::testing::WriteFile;

TEST(CommandSource, SilenceAndCode0AreNothingAndAnotherCodeIsANotice) {
  const TestDirectory directory;
  const std::string path = directory / "drain";
  Running command("command:interval=1ms,command=test ! -e " + path);
  command.log.NextHealth(true);
  WriteFile(path, "");
  const SourceEvent given = command.log.Next();
  EXPECT_TRUE(absl::StrContains(given.text, "exit code 1"));
  ASSERT_EQ(::unlink(path.c_str()), 0);
  EXPECT_TRUE(command.log.Next().withdrawn);
}

TEST(CommandSource, WhatItWritesSaysMore) {
  Running zero(R"(command:command=echo '{"id": "a"\, "left": 600\, "text": "moved"}')");
  const SourceEvent event = zero.log.Next();
  EXPECT_EQ(event.id, "a");
  EXPECT_GT(event.left, absl::Minutes(9));
  EXPECT_EQ(event.text, "moved");
  Running other("command:command=echo 10m; exit 3");
  EXPECT_GT(other.log.Next().left, absl::Minutes(9));
}

TEST(CommandSource, WhatCannotRunIsAFailureAndNoNotice) {
  for (const char* line :
       {"/no/such/S3CRET", "kill -KILL $$ S3CRET", "echo '{S3CRET'", "head -c 100000 /dev/zero"}) {
    Running command(std::string("command:interval=1ms,command=") + line);
    const SourceHealth health = command.log.NextHealth(false);
    EXPECT_FALSE(health.last_error.empty());
    command.set.Stop();
    EXPECT_FALSE(absl::StrContains(command.log.text(), "S3CRET")) << command.log.text();
    EXPECT_EQ(command.log.size(), 0) << line;
  }
}

TEST(CommandSource, WhatDoesNotEndIsKilled) {
  Running command("command:interval=1ms,time-limit=1ms,command=sleep 1000");
  EXPECT_TRUE(absl::StrContains(command.log.NextHealth(false).last_error, "did not end in time"));
}

TEST(CommandSource, WhatRunsDoesNotHoldUpTheStop) {
  const TestDirectory directory;
  Running command("command:time-limit=1h,command=sleep 1000");
  command.set.Stop();
  EXPECT_EQ(command.log.size(), 0);
}

TEST(CommandSource, WhatItLeavesBehindIsNotWaitedFor) {
  Running command("command:time-limit=1h,command=sleep 1000 & exit 1");
  EXPECT_EQ(command.log.Next().id, "exit-code");
}

}  // namespace
}  // namespace lockstep::preempt
