#include "lockstep/rendezvous/transport/pass_descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::transport {
namespace {

using ::testing::HasSubstr;
using Outcome = ReceivedDescriptors::Outcome;

struct Pair {
  explicit Pair(int type) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
    near.reset(ends[0]);
    far.reset(ends[1]);
  }
  runtime::UniqueFd near;
  runtime::UniqueFd far;
};

int OpenDescriptors() {
  int count = 0;
  DIR* const folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

bool SameFile(int a, int b) {
  struct stat first = {};
  struct stat second = {};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_ino == second.st_ino &&
         first.st_dev == second.st_dev;
}

class PassDescriptorsTest : public ::testing::TestWithParam<int> {
 protected:
  PassDescriptorsTest() : pair_(GetParam()) {}

  absl::StatusOr<ReceivedDescriptors> Receive() {
    return ReceiveDescriptors(pair_.far.get(), buffer_);
  }
  std::string Text(const ReceivedDescriptors& received) const {
    return {reinterpret_cast<const char*>(buffer_.data()), received.bytes};
  }

  Pair pair_;
  std::array<std::byte, 64> buffer_ = {};
};

TEST_P(PassDescriptorsTest, BringsAMessageWithItsDescriptors) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const runtime::UniqueFd first(ends[0]);
  const runtime::UniqueFd second(ends[1]);
  EXPECT_EQ(SendDescriptors(pair_.near.get(), "two", ends).value(), 3u);
  const auto received = Receive();
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(received->outcome, Outcome::kMessage);
  EXPECT_EQ(Text(*received), "two");
  ASSERT_EQ(received->fds.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(SameFile(received->fds[i].get(), ends[i]));
    EXPECT_NE(::fcntl(received->fds[i].get(), F_GETFD) & FD_CLOEXEC, 0);
  }
}

TEST_P(PassDescriptorsTest, BringsAMessageWithout) {
  EXPECT_EQ(SendDescriptors(pair_.near.get(), "none", {}).value(), 4u);
  const auto received = Receive();
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(Text(*received), "none");
  EXPECT_TRUE(received->fds.empty());
}

TEST_P(PassDescriptorsTest, SendsAsManyAsTheLimitAndNoMore) {
  std::vector<int> fds(kPassedDescriptorsMax, pair_.near.get());
  EXPECT_TRUE(SendDescriptors(pair_.near.get(), "x", fds).ok());
  const auto received = Receive();
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_EQ(received->fds.size(), kPassedDescriptorsMax);
  fds.push_back(fds[0]);
  const auto sent = SendDescriptors(pair_.near.get(), "x", fds);
  EXPECT_EQ(sent.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(sent.status().message()), HasSubstr("passed_descriptors_max"));
  EXPECT_EQ(SendDescriptors(pair_.near.get(), "", {}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(PassDescriptorsTest, SaysThatItWouldBlockAndThatThePeerClosed) {
  ASSERT_EQ(::fcntl(pair_.far.get(), F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(Receive()->outcome, Outcome::kWouldBlock);
  pair_.near.reset();
  EXPECT_EQ(Receive()->outcome, Outcome::kClosed);
}

TEST_P(PassDescriptorsTest, SendsNothingWhereThereIsNoRoom) {
  ASSERT_EQ(::fcntl(pair_.near.get(), F_SETFL, O_NONBLOCK), 0);
  size_t sent = 1;
  while (sent > 0) sent = SendDescriptors(pair_.near.get(), std::string(1000, 'x'), {}).value();
  EXPECT_EQ(SendDescriptors(pair_.near.get(), "x", {}).value(), 0u);
}

TEST_P(PassDescriptorsTest, FailsWithoutASignalWhenThePeerIsGone) {
  pair_.far.reset();
  const auto sent = SendDescriptors(pair_.near.get(), "x", {});
  ASSERT_FALSE(sent.ok());
  EXPECT_THAT(std::string(sent.status().message()), HasSubstr("sendmsg"));
}

TEST_P(PassDescriptorsTest, ClosesWhatCameWithMoreThanTheLimit) {
  // What a peer can send that does not keep to our limit.
  std::vector<int> fds(kPassedDescriptorsMax + 4, pair_.near.get());
  alignas(cmsghdr) char control[CMSG_SPACE((kPassedDescriptorsMax + 4) * sizeof(int))] = {};
  char byte = 'x';
  iovec bytes = {&byte, 1};
  msghdr header = {};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::copy(fds.begin(), fds.end(), reinterpret_cast<int*>(CMSG_DATA(rights)));
  const int before = OpenDescriptors();
  ASSERT_EQ(::sendmsg(pair_.near.get(), &header, 0), 1);
  const auto received = Receive();
  EXPECT_EQ(received.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(received.status().message()), HasSubstr("passed_descriptors_max"));
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST_P(PassDescriptorsTest, NamesTheLimitOfDescriptorsAndLeaksNone) {
  const std::vector<int> fds(8, pair_.near.get());
  ASSERT_TRUE(SendDescriptors(pair_.near.get(), "x", fds).ok());
  const int before = OpenDescriptors();
  const runtime::UniqueFd lowest_free(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  rlimit limit = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  // Room for three of the eight, or fewer.
  const rlimit tight = {static_cast<rlim_t>(lowest_free.get()) + 4, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  const auto received = Receive();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(received.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(received.status().message()), HasSubstr("RLIMIT_NOFILE"));
  EXPECT_EQ(OpenDescriptors(), before + 1);
}

TEST_P(PassDescriptorsTest, KnowsTheProcessAtTheOtherEnd) {
  const auto peer = PeerCredentials(pair_.near.get());
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_EQ(peer->pid, ::getpid());
  EXPECT_EQ(peer->uid, ::getuid());
}

INSTANTIATE_TEST_SUITE_P(Sockets, PassDescriptorsTest,
                         ::testing::Values(SOCK_STREAM, SOCK_SEQPACKET));

TEST(PassDescriptors, RefusesAMessageThatDoesNotFit) {
  const Pair pair(SOCK_SEQPACKET);
  std::array<std::byte, 4> buffer;
  ASSERT_TRUE(SendDescriptors(pair.near.get(), "five!", {}).ok());
  EXPECT_EQ(ReceiveDescriptors(pair.far.get(), buffer).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(ReceiveDescriptors(pair.far.get(), {}).ok());
}

TEST(PassDescriptors, HasNoCredentialsOfWhatIsNoSocket) {
  const runtime::UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(std::string(PeerCredentials(fd.get()).status().message()), HasSubstr("SO_PEERCRED"));
}

}  // namespace
}  // namespace lockstep::transport
