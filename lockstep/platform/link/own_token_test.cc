#include "lockstep/platform/link/own_token.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/runtime/secret_file.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::link {
namespace {

using ::testing::HasSubstr;

class OwnTokenTest : public ::testing::Test {
 protected:
  OwnTokenTest() { ::setenv("LOCKSTEP_TOKEN_FILE", path_.c_str(), 1); }
  ~OwnTokenTest() override {
    ::unsetenv("LOCKSTEP_TOKEN_FILE");
    ::unlink(path_.c_str());
  }
  void Write(const std::string& text, mode_t mode = 0600) {
    ASSERT_TRUE(runtime::ReplaceSecretFile(path_, text).ok());
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
  }

  const std::string path_ = absl::StrCat(::testing::TempDir(), "own_token_test.", ::getpid());
};

// As long as those of Kubernetes, which renews them in place.
TEST_F(OwnTokenTest, IsReadAnewEachTime) {
  const std::string first(1500, 'a');
  Write(first, 0400);
  EXPECT_EQ(*OwnToken(), first);
  Write("second\n");
  EXPECT_EQ(*OwnToken(), "second");
}

TEST_F(OwnTokenTest, OfAFileThatOthersCanReadIsRefused) {
  for (const mode_t mode : {0644, 0640, 0604}) {
    Write("token", mode);
    EXPECT_EQ(wire::native::ReasonOf(OwnToken().status()), "token_file");
  }
}

TEST_F(OwnTokenTest, OfAFileThatIsLongerThanATokenIsRefused) {
  Write(std::string(3072, 'a') + "\n");
  EXPECT_TRUE(OwnToken().ok());
  Write(std::string(3073, 'a'));
  const absl::Status status = OwnToken().status();
  EXPECT_EQ(wire::native::ReasonOf(status), "token_file");
  EXPECT_THAT(std::string(status.message()), HasSubstr("token_bytes_max"));
}

}  // namespace
}  // namespace lockstep::link
