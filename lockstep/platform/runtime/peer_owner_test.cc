#include "lockstep/platform/runtime/peer_owner.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/runtime/acceptor.h"

namespace lockstep::runtime {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// "nobody", or anybody else who is not us.
constexpr uid_t kStranger = 65534;

// Takes connections at a port of the loopback interface.
class Listener {
 public:
  explicit Listener(int family = AF_INET) : fd_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in6 v6 = {};
    v6.sin6_family = AF_INET6;
    v6.sin6_addr = in6addr_loopback;
    sockaddr_in v4 = {};
    v4.sin_family = AF_INET;
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    size_ = family == AF_INET ? sizeof(v4) : sizeof(v6);
    sockaddr* const any =
        family == AF_INET ? reinterpret_cast<sockaddr*>(&v4) : reinterpret_cast<sockaddr*>(&v6);
    works_ = bind(fd_.get(), any, size_) == 0 && listen(fd_.get(), 16) == 0 &&
             getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address_), &size_) == 0;
  }

  bool works() const { return works_; }
  const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t size() const { return size_; }
  UniqueFd Accept() const { return UniqueFd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }

 private:
  UniqueFd fd_;
  sockaddr_storage address_ = {};
  socklen_t size_ = 0;
  bool works_ = false;
};

UniqueFd Connect(const sockaddr* address, socklen_t size) {
  UniqueFd fd(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(fd.get(), address, size), 0);
  return fd;
}

// A process of `kStranger` that connects, reads until the other end closes, and writes what it read
// into a pipe. Only system calls between fork and exit.
class Stranger {
 public:
  Stranger(const sockaddr* address, socklen_t size) {
    std::array<int, 2> ends;
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    heard_ = UniqueFd(ends[0]);
    UniqueFd tell(ends[1]);
    pid_ = fork();
    if (pid_ != 0) return;
    if (setuid(kStranger) != 0) _exit(1);
    const int fd = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, address, size) != 0) _exit(2);
    std::array<char, 512> bytes;
    for (ssize_t got; (got = read(fd, bytes.data(), bytes.size())) > 0;) {
      if (write(tell.get(), bytes.data(), static_cast<size_t>(got)) != got) _exit(3);
    }
    _exit(0);
  }
  ~Stranger() { EXPECT_EQ(waitpid(pid_, nullptr, 0), pid_); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  // All that it is sent, until it is closed.
  std::string Hear() const {
    std::string all;
    std::array<char, 512> bytes;
    for (ssize_t got; (got = read(heard_.get(), bytes.data(), bytes.size())) > 0;) {
      all.append(bytes.data(), static_cast<size_t>(got));
    }
    return all;
  }

 private:
  UniqueFd heard_;
  pid_t pid_ = 0;
};

class PeerOwner : public ::testing::TestWithParam<int> {};

TEST_P(PeerOwner, AConnectionOfThisProcessIsItsUsers) {
  const Listener listener(GetParam());
  if (!listener.works()) GTEST_SKIP() << "this host does not have that family";
  const UniqueFd near = Connect(listener.address(), listener.size());
  const UniqueFd far = listener.Accept();
  const auto owner = OwnerOfPeer(far.get());
  ASSERT_TRUE(owner.ok()) << owner.status();
  EXPECT_EQ(*owner, geteuid());
  const auto by_table = OwnerOfPeerByTable(far.get());
  ASSERT_TRUE(by_table.ok()) << by_table.status();
  EXPECT_EQ(*by_table, geteuid());
}

TEST_P(PeerOwner, Finding13_AnotherUsersConnectionIsThatUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  const Listener listener(GetParam());
  if (!listener.works()) GTEST_SKIP() << "this host does not have that family";
  const Stranger stranger(listener.address(), listener.size());
  const UniqueFd far = listener.Accept();
  const auto owner = OwnerOfPeer(far.get());
  ASSERT_TRUE(owner.ok()) << owner.status();
  EXPECT_EQ(*owner, kStranger);
  const auto by_table = OwnerOfPeerByTable(far.get());
  ASSERT_TRUE(by_table.ok()) << by_table.status();
  EXPECT_EQ(*by_table, kStranger);
}

// The kernel says "root" of an end that no process has any more: who connects, writes and closes
// must not be served as root.
TEST_P(PeerOwner, Finding13_WhoHasClosedIsNobody) {
  const Listener listener(GetParam());
  if (!listener.works()) GTEST_SKIP() << "this host does not have that family";
  {
    const UniqueFd near = Connect(listener.address(), listener.size());
    ASSERT_EQ(write(near.get(), "x", 1), 1);
  }
  const UniqueFd far = listener.Accept();
  const auto owner = OwnerOfPeer(far.get());
  ASSERT_TRUE(owner.ok()) << owner.status();
  EXPECT_EQ(*owner, std::nullopt);
  const auto by_table = OwnerOfPeerByTable(far.get());
  ASSERT_TRUE(by_table.ok()) << by_table.status();
  EXPECT_EQ(*by_table, std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Families, PeerOwner, ::testing::Values(AF_INET, AF_INET6),
                         [](const auto& family) {
                           return std::string(family.param == AF_INET ? "IPv4" : "IPv6");
                         });

TEST(AllowedPeers, RootAndOneselfAlwaysAndOthersByName) {
  const auto none = ParseAllowedPeers({});
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->Allow(0));
  EXPECT_TRUE(none->Allow(geteuid()));
  EXPECT_FALSE(none->Allow(kStranger));
  const auto number = ParseAllowedPeers({"65534"});
  ASSERT_TRUE(number.ok());
  EXPECT_TRUE(number->Allow(kStranger));
  EXPECT_FALSE(number->Allow(kStranger - 1));
  EXPECT_THAT(number->ToText(), HasSubstr("65534"));
  const auto any = ParseAllowedPeers({"any"});
  ASSERT_TRUE(any.ok());
  EXPECT_TRUE(any->Allow(kStranger));
  EXPECT_THAT(std::string(ParseAllowedPeers({"no such user"}).status().message()),
              HasSubstr("--allow-uid no such user"));
}

// An acceptor that serves one connection, or refuses it, and what the other side sees of it.
class Serving {
 public:
  explicit Serving(AllowedPeers allowed)
      : acceptor_(
            loop_, {.allowed = std::move(allowed), .goodbye_to_strangers = "not for you"},
            [this](int fd) {
              taken = UniqueFd(fd);
              loop_.Stop();
            },
            [this](std::string text) {
              complaint = std::move(text);
              loop_.Stop();
            }) {
    EXPECT_TRUE(acceptor_.Listen({.host = "127.0.0.1", .port = 0}).ok());
    acceptor_.Start();
  }

  std::string HeardByStranger() {
    const asio::ip::tcp::endpoint at = acceptor_.address();
    const Stranger stranger(at.data(), static_cast<socklen_t>(at.size()));
    loop_.Run();
    if (taken.valid()) {
      EXPECT_EQ(write(taken.get(), "welcome", 7), 7);
    }
    taken.reset();
    return stranger.Hear();
  }

  UniqueFd taken;
  std::string complaint;

 private:
  Loop loop_;
  Acceptor acceptor_;
};

TEST(Acceptor, Finding13_AnotherUserOfTheHostIsRefusedWithAWord) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  Serving serving{{}};
  EXPECT_EQ(serving.HeardByStranger(), "not for you");
  EXPECT_THAT(serving.complaint, HasSubstr("of user 65534"));
  EXPECT_THAT(serving.complaint, HasSubstr("--allow-uid"));
}

TEST(Acceptor, AnotherUserWhoIsAllowedIsServed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  Serving serving{{.uids = {kStranger}}};
  EXPECT_EQ(serving.HeardByStranger(), "welcome");
  EXPECT_THAT(serving.complaint, IsEmpty());
}

}  // namespace
}  // namespace lockstep::runtime
