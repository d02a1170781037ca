// The whole matrix: each family of keys, each standing, itself and others, reading and writing.
#include "lockstep/coord/key_rights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep::coord {
namespace {

using ::testing::HasSubstr;

constexpr MemberIndex kSelf(3);

struct AnyCaller {
  const char* name;
  Standing standing;
  std::optional<MemberIndex> member;
};
const AnyCaller kCallers[] = {
    {"task", Standing::kTask, kSelf},
    {"task-tool", Standing::kTask, std::nullopt},
    {"launcher", Standing::kLauncher, std::nullopt},
    {"operator", Standing::kOperator, std::nullopt},
};

std::string Who(KeyAccess access, const std::string& key) {
  std::vector<std::string> may;
  for (const AnyCaller& caller : kCallers) {
    if (MayAccess(caller.standing, caller.member, access, key)) may.push_back(caller.name);
  }
  return may.size() == std::size(kCallers) ? "all" : absl::StrJoin(may, " ");
}

// The table, written down a second time: who changes a right changes it here, too.
TEST(KeyRights, AreThese) {
  const char* const keys[] = {
      "config/lr",
      "a_",
      "lockstepper",
      "_stacks",
      "_stacks/question",
      "_stacks/asker",
      "_stacks/answers/1/host-7",
      "_",
      "_anything",
      "_stackss/question",
      "lockstep",
      "lockstep/anything",
      "lockstep/rendezvous/card",
      "lockstep/rendezvous/card/3",
      "lockstep/rendezvous/card/03",
      "lockstep/rendezvous/card/3/x",
      "lockstep/rendezvous/card/4",
      "lockstep/rendezvous/report/3",
      "lockstep/rendezvous/report/4",
      "lockstep/rendezvous/look",
  };
  std::string table;
  for (const char* const key : keys) {
    absl::StrAppend(&table, key, ": ", Who(KeyAccess::kRead, key), " | ",
                    Who(KeyAccess::kWrite, key), "\n");
  }
  EXPECT_EQ(table,
            "config/lr: all | all\n"
            "a_: all | all\n"
            "lockstepper: all | all\n"
            "_stacks: launcher operator | launcher operator\n"
            "_stacks/question: launcher operator | launcher operator\n"
            "_stacks/asker: launcher operator | launcher operator\n"
            "_stacks/answers/1/host-7: launcher operator | launcher operator\n"
            "_: operator | operator\n"
            "_anything: operator | operator\n"
            "_stackss/question: operator | operator\n"
            "lockstep: all | operator\n"
            "lockstep/anything: all | operator\n"
            "lockstep/rendezvous/card: all | operator\n"
            "lockstep/rendezvous/card/3: all | task operator\n"
            "lockstep/rendezvous/card/03: all | operator\n"
            "lockstep/rendezvous/card/3/x: all | operator\n"
            "lockstep/rendezvous/card/4: all | operator\n"
            "lockstep/rendezvous/report/3: all | task operator\n"
            "lockstep/rendezvous/report/4: all | operator\n"
            "lockstep/rendezvous/look: all | launcher operator\n");
}

// Each request as a task makes it, with a key that it may not have, however it is spelled.
TEST(KeyRights, HoldForEveryRequestThatNamesAKey) {
  const Caller task{.standing = Standing::kTask};
  const auto refused = [](const ErrorPtr& error) {
    return error != nullptr && error->reason == Reason::kNotPermitted &&
           error->code == absl::StatusCode::kPermissionDenied;
  };
  for (const std::string key : {"_stacks/question", "/_stacks//question/", "//_x"}) {
    EXPECT_TRUE(refused(CheckKeys(SetKey{.caller = task, .key = key}, kSelf))) << key;
    EXPECT_TRUE(refused(CheckKeys(CompareAndSetKey{.caller = task, .key = key}, kSelf))) << key;
    EXPECT_TRUE(refused(CheckKeys(IncrementKey{.caller = task, .key = key}, kSelf))) << key;
    EXPECT_TRUE(refused(CheckKeys(MaxKey{.caller = task, .key = key}, kSelf))) << key;
    EXPECT_TRUE(refused(CheckKeys(DeleteKey{.caller = task, .key = key}, kSelf))) << key;
    EXPECT_TRUE(refused(CheckKeys(GetKey{.caller = task, .key = key}, kSelf))) << key;
    EXPECT_TRUE(refused(CheckKeys(TryGetKey{.caller = task, .key = key}, kSelf))) << key;
    EXPECT_TRUE(refused(CheckKeys(GetKeys{.caller = task, .keys = {"a", key}}, kSelf))) << key;
    EXPECT_TRUE(refused(CheckKeys(ListKeys{.caller = task, .directory = key}, kSelf))) << key;
    EXPECT_TRUE(refused(CheckKeys(WatchKeys{.caller = task, .key = key}, kSelf))) << key;
  }
  // What has all keys below it.
  for (const std::string key : {"", "/"}) {
    EXPECT_TRUE(refused(CheckKeys(DeleteKey{.caller = task, .key = key}, kSelf)));
    EXPECT_EQ(CheckKeys(ListKeys{.caller = task, .directory = key}, kSelf), nullptr);
    EXPECT_EQ(CheckKeys(WatchKeys{.caller = task, .key = key}, kSelf), nullptr);
  }
  EXPECT_TRUE(refused(CheckKeys(DeleteKey{.caller = task, .key = "lockstep"}, kSelf)));
  EXPECT_TRUE(
      refused(CheckKeys(DeleteKey{.caller = task, .key = "lockstep/rendezvous/card"}, kSelf)));
  const ErrorPtr error = CheckKeys(SetKey{.caller = task, .key = "_x"}, kSelf);
  EXPECT_THAT(error->message, HasSubstr("'_x'"));
  EXPECT_THAT(error->message, HasSubstr("role task"));
}

}  // namespace
}  // namespace lockstep::coord
