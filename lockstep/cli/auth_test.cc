// `lockstep auth` and `lockstep token`, on files.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/cli/auth_files.h"
#include "lockstep/cli/command_testing.h"
#include "lockstep/cli/subcommands.h"
#include "lockstep/platform/runtime/secret_file.h"
#include "lockstep/platform/tls/certificates.h"

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class AuthCommands : public testing::Test {
 protected:
  ~AuthCommands() override { std::filesystem::remove_all(directory_); }

  static Ran Run(const std::vector<std::string>& words) {
    return RunAdded({}, words, [](CLI::App& app, Invocation& invocation) {
      AddAuth(app, invocation);
      AddToken(app, invocation);
    });
  }

  mode_t ModeOf(const std::string& path) {
    struct stat state = {};
    EXPECT_EQ(::stat(path.c_str(), &state), 0) << path;
    return state.st_mode & 0777;
  }

  const std::string directory_ = testing::TempDir() + "auth_test." + std::to_string(::getpid());
  const AuthFiles files_{directory_};
};

TEST_F(AuthCommands, InitMakesAllFilesOnce) {
  const Ran made = Run({"auth", "init", directory_, "--name", "head.cluster"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, AllOf(HasSubstr("head.cluster"), HasSubstr("lockstep serve")));
  for (const std::string& secret : {files_.authority_key, files_.server_key, files_.token_key}) {
    EXPECT_EQ(ModeOf(secret), 0600u) << secret;
  }
  EXPECT_EQ(ModeOf(directory_), 0700u);
  // What clients pin is the authority, which the server sends behind its own certificate.
  EXPECT_EQ(*tls::FingerprintOfLast(*runtime::ReadSmallFile(files_.server)),
            *tls::FingerprintOf(*runtime::ReadSmallFile(files_.authority)));

  const std::string key = *runtime::ReadSecretFile(files_.token_key);
  const Ran again = Run({"auth", "init", directory_});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, HasSubstr("exists"));
  EXPECT_EQ(*runtime::ReadSecretFile(files_.token_key), key);
}

TEST_F(AuthCommands, RenewKeepsTheAuthority) {
  ASSERT_EQ(Run({"auth", "init", directory_}).code, 0);
  const std::string before = *runtime::ReadSmallFile(files_.server);
  ASSERT_EQ(Run({"auth", "renew", directory_}).code, 0);
  const std::string after = *runtime::ReadSmallFile(files_.server);
  EXPECT_NE(after, before);
  EXPECT_EQ(*tls::FingerprintOfLast(after), *tls::FingerprintOfLast(before));
  EXPECT_EQ(ModeOf(files_.server_key), 0600u);
}

TEST_F(AuthCommands, TokensAreCreatedInspectedAndOutliveOneRotation) {
  ASSERT_EQ(Run({"auth", "init", directory_}).code, 0);
  const std::string file = directory_ + "/launch.token";
  const Ran made = Run({"token", "create", "--auth", directory_, "--role", "launch", "--job",
                        "digits", "--for", "2h", "--to", file});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(made.out, "");
  EXPECT_EQ(ModeOf(file), 0600u);

  const Ran shown = Run({"token", "inspect", file, "--auth", directory_});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("launch"), HasSubstr("digits"), HasSubstr("signed with")));

  ASSERT_EQ(Run({"auth", "rotate", directory_}).code, 0);
  EXPECT_EQ(Run({"token", "inspect", file, "--auth", directory_}).code, 0);
  ASSERT_EQ(Run({"auth", "rotate", directory_}).code, 0);
  const Ran gone = Run({"token", "inspect", file, "--auth", directory_});
  EXPECT_EQ(gone.code, 1);
  EXPECT_THAT(gone.err, HasSubstr("key that this server does not have"));
}

TEST_F(AuthCommands, WhatMakesNoSenseIsSaid) {
  ASSERT_EQ(Run({"auth", "init", directory_}).code, 0);
  const auto create = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"token", "create", "--auth", directory_};
    words.insert(words.end(), more.begin(), more.end());
    return Run(words);
  };
  EXPECT_THAT(create({"--role", "root"}).err, HasSubstr("observe, task, launch"));
  EXPECT_THAT(create({"--role", "task"}).err, HasSubstr("--job is required"));
  EXPECT_EQ(create({"--role", "task"}).code, kExitUsage);
  EXPECT_THAT(create({"--role", "operator", "--for", "soon"}).err, HasSubstr("--for soon"));
  EXPECT_THAT(create({"--role", "operator", "--for", "-1h"}).err, HasSubstr("--for"));
  EXPECT_THAT(Run({"token", "create", "--auth", "/nowhere", "--role", "operator"}).err,
              HasSubstr("/nowhere/token.key"));
  EXPECT_THAT(Run({"auth", "renew", "/nowhere"}).err, HasSubstr("/nowhere/ca.pem"));
  EXPECT_THAT(Run({"auth", "rotate", "/nowhere"}).err, HasSubstr("/nowhere/token.key"));
  EXPECT_EQ(create({"--role", "observe"}).code, 0);
}

}  // namespace
}  // namespace lockstep::cli
