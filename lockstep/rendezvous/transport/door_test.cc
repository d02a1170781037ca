#include "lockstep/rendezvous/transport/door.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "asio/io_context.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lockstep/platform/runtime/fork_guard.h"
#include "lockstep/platform/tls/openssl.h"
#include "lockstep/platform/tls/secrets.h"
#include "lockstep/rendezvous/transport/proof.h"

namespace lockstep::transport {
namespace {

using asio::ip::tcp;
using ::testing::HasSubstr;

constexpr uid_t kStranger = 65534;

class DoorTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    runtime::SetSharedSecrets(tls::MakeSharedSecrets([] { return &tls::LinkedOpenSsl(); }));
  }
  void TearDown() override {
    if (door_) door_->Close();
    for (tcp::socket& socket : proven_) runtime::CloseSocket(socket);
    io_.poll();
  }

  void Open(size_t unproven_max = 512, absl::Duration timeout = absl::Minutes(1),
            const std::string& host = "127.0.0.1") {
    auto door = Door::Start(
        io_,
        {.host = host,
         .key = {.secret = secret_, .encrypt = encrypt_},
         .unproven_max = unproven_max,
         .timeout = timeout,
         .refused = [this](const std::string& why) { refused_.push_back(why); }},
        [this](ProvenConnection proven) { proven_.push_back(std::move(proven.socket)); });
    ASSERT_TRUE(door.ok()) << door.status();
    door_ = *std::move(door);
  }
  tcp::endpoint At() {
    const auto address = runtime::ParseAddress(door_->address());
    return {asio::ip::make_address("127.0.0.1"), address->port};
  }
  // False: not within a minute.
  bool RunUntil(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      io_.run_one_for(std::chrono::milliseconds(10));
    }
    return true;
  }
  // As a member does that has a card with this secret.
  absl::StatusOr<tcp::socket> Dial(const std::string& secret) {
    std::optional<absl::StatusOr<ProvenConnection>> dialed;
    DialDoor(io_, *runtime::ParseAddress(door_->address()), {.secret = secret, .encrypt = encrypt_},
             absl::Minutes(1),
             [&](absl::StatusOr<ProvenConnection> proven) { dialed = std::move(proven); });
    EXPECT_TRUE(RunUntil([&] { return dialed.has_value(); }));
    if (!dialed->ok()) return dialed->status();
    return std::move((*dialed)->socket);
  }
  // As somebody who knows how to connect, no more.
  tcp::socket Connect() {
    tcp::socket socket(io_);
    socket.connect(At());
    return socket;
  }
  // What it is sent; waits for that much, or for the end.
  std::string Hear(tcp::socket& socket, size_t bytes) {
    std::string heard;
    EXPECT_TRUE(RunUntil([&] {
      std::array<char, 256> room;
      while (heard.size() < bytes) {
        const ssize_t count = ::recv(socket.native_handle(), room.data(),
                                     std::min(room.size(), bytes - heard.size()), MSG_DONTWAIT);
        if (count == 0 || (count < 0 && errno == ECONNRESET)) return true;
        if (count < 0) return false;
        heard.append(room.data(), static_cast<size_t>(count));
      }
      return true;
    }));
    return heard;
  }
  bool IsClosed(tcp::socket& socket) { return Hear(socket, 1).empty(); }
  static void Say(tcp::socket& socket, const std::string& bytes) {
    EXPECT_EQ(::send(socket.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  const std::string secret_ = std::string(runtime::kSecretBytes, 's');
  bool encrypt_ = false;
  asio::io_context io_;
  std::shared_ptr<Door> door_;
  std::vector<tcp::socket> proven_;
  std::vector<std::string> refused_;
};

TEST_F(DoorTest, AMemberGetsInAndWhatItSaysNextIsForTheOwner) {
  Open();
  auto member = Dial(secret_);
  ASSERT_TRUE(member.ok()) << member.status();
  ASSERT_EQ(proven_.size(), 1);
  Say(*member, "hello");
  EXPECT_EQ(Hear(proven_[0], 5), "hello");
  Say(proven_[0], "welcome");
  EXPECT_EQ(Hear(*member, 7), "welcome");
  EXPECT_TRUE(refused_.empty());
}

TEST_F(DoorTest, AnotherSecretIsNone) {
  Open();
  const auto stranger = Dial(std::string(runtime::kSecretBytes, 'x'));
  EXPECT_TRUE(absl::IsUnavailable(stranger.status())) << stranger.status();
  ASSERT_TRUE(RunUntil([&] { return !refused_.empty(); }));
  EXPECT_TRUE(proven_.empty());
  EXPECT_THAT(refused_[0], HasSubstr("it does not know the secret"));
  EXPECT_THAT(refused_[0], HasSubstr("127.0.0.1:"));
  EXPECT_EQ(refused_[0].find(secret_), std::string::npos);
}

TEST_F(DoorTest, WhoSpeaksBeforeHeProvesIsNotHeard) {
  Open();
  tcp::socket stranger = Connect();
  EXPECT_EQ(Hear(stranger, kChallengeBytes).size(), kChallengeBytes);
  Say(stranger, std::string(kProofBytes, 'x') + "a hello, and requests");
  EXPECT_TRUE(IsClosed(stranger));
  EXPECT_TRUE(proven_.empty());
  EXPECT_EQ(refused_.size(), 1);
}

TEST_F(DoorTest, AProofThatWasHeardDoesNotOpenAgain) {
  Open();
  // In the middle between a member and the door.
  ProofGiver member(runtime::Secrets(), secret_, std::string(kProofNumberBytes, 'm'));
  tcp::socket first = Connect();
  const std::string proof = *member.Take(Hear(first, kChallengeBytes));
  Say(first, proof);
  ASSERT_TRUE(RunUntil([&] { return proven_.size() == 1; }));
  tcp::socket again = Connect();
  EXPECT_EQ(Hear(again, kChallengeBytes).size(), kChallengeBytes);
  Say(again, proof);
  EXPECT_TRUE(IsClosed(again));
  EXPECT_EQ(proven_.size(), 1);
}

TEST_F(DoorTest, ATruncatedProofAndNoneEndWithTheTimeout) {
  Open(512, absl::Milliseconds(50));
  tcp::socket silent = Connect();
  tcp::socket half = Connect();
  Say(half, std::string(kProofBytes - 1, 'x'));
  for (tcp::socket* each : {&silent, &half}) {
    EXPECT_EQ(Hear(*each, kChallengeBytes).size(), kChallengeBytes);
    EXPECT_TRUE(IsClosed(*each));
  }
  EXPECT_TRUE(proven_.empty());
  ASSERT_EQ(refused_.size(), 2);
  EXPECT_THAT(refused_[0], HasSubstr("proof_timeout"));
}

TEST_F(DoorTest, WhoEndsBeforeHisProofIsGone) {
  Open();
  {
    tcp::socket stranger = Connect();
    EXPECT_EQ(Hear(stranger, kChallengeBytes).size(), kChallengeBytes);
  }
  ASSERT_TRUE(RunUntil([&] { return !refused_.empty(); }));
  EXPECT_TRUE(proven_.empty());
}

TEST_F(DoorTest, ManyThatProveNothingKeepNoMemberOut) {
  Open(/*unproven_max=*/4);
  std::vector<tcp::socket> strangers;
  for (int i = 0; i < 10; ++i) {
    strangers.push_back(Connect());
    EXPECT_EQ(Hear(strangers.back(), kChallengeBytes).size(), kChallengeBytes);
  }
  EXPECT_EQ(refused_.size(), 6);
  EXPECT_THAT(refused_[0], HasSubstr("unproven_max"));
  EXPECT_TRUE(IsClosed(strangers.front()));
  ASSERT_TRUE(Dial(secret_).ok());
  EXPECT_EQ(proven_.size(), 1);
}

TEST_F(DoorTest, WhoListensWhereAMemberDidGetsNoHello) {
  Open();
  // A card of another process: its address, and another secret; the door asks, and the dialer must
  // not believe what comes then.
  tcp::acceptor acceptor(io_, {asio::ip::make_address("127.0.0.1"), 0});
  std::optional<absl::StatusOr<ProvenConnection>> dialed;
  DialDoor(io_, {.host = "127.0.0.1", .port = acceptor.local_endpoint().port()},
           {.secret = secret_}, absl::Minutes(1),
           [&](absl::StatusOr<ProvenConnection> proven) { dialed = std::move(proven); });
  tcp::socket impostor(io_);
  bool accepted = false;
  acceptor.async_accept(impostor, [&](const asio::error_code& error) { accepted = !error; });
  ASSERT_TRUE(RunUntil([&] { return accepted; }));
  Say(impostor, std::string(kProofMagic) + std::string(kProofNumberBytes, 'i'));
  EXPECT_EQ(Hear(impostor, kProofBytes).size(), kProofBytes);
  Say(impostor, std::string(kCounterproofBytes, 'x'));
  ASSERT_TRUE(RunUntil([&] { return dialed.has_value(); }));
  EXPECT_TRUE(absl::IsPermissionDenied(dialed->status())) << dialed->status();
  EXPECT_EQ(Hear(impostor, 1), "");
}

// At any address: the secret is asked for where the kernel cannot say who calls, too.
TEST_F(DoorTest, AtAnAddressOfOtherHostsTheProofIsAllThereIs) {
  Open(512, absl::Minutes(1), "0.0.0.0");
  tcp::socket stranger = Connect();
  EXPECT_EQ(Hear(stranger, kChallengeBytes).size(), kChallengeBytes);
  Say(stranger, std::string(kProofBytes, 'x'));
  EXPECT_TRUE(IsClosed(stranger));
  EXPECT_TRUE(proven_.empty());
}

TEST_F(DoorTest, AnEncryptedDoorTakesMembersByTlsOnly) {
  encrypt_ = true;
  Open();
  ASSERT_TRUE(Dial(secret_).ok());
  // The end that dials knows first.
  ASSERT_TRUE(RunUntil([&] { return proven_.size() == 1; }));
  EXPECT_FALSE(Dial(std::string(runtime::kSecretBytes, 'x')).ok());
  tcp::socket stranger = Connect();
  Say(stranger, std::string(kProofBytes, 'x'));
  EXPECT_TRUE(IsClosed(stranger));
  EXPECT_TRUE(RunUntil([&] { return refused_.size() == 2; }));
  EXPECT_EQ(proven_.size(), 1);
}

// With the right secret: before it is asked for, the kernel is.
TEST_F(DoorTest, AnotherUserOfTheHostIsClosedAndNamed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  Open();
  const tcp::endpoint at = At();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (setuid(kStranger) != 0) _exit(1);
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, at.data(), static_cast<socklen_t>(at.size())) != 0) _exit(2);
    char byte = 0;
    // Not even the challenge comes.
    _exit(::recv(fd, &byte, 1, 0) <= 0 ? 0 : 3);
  }
  EXPECT_TRUE(RunUntil([&] { return !refused_.empty(); }));
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  ASSERT_FALSE(refused_.empty());
  EXPECT_THAT(refused_[0], HasSubstr("of user 65534"));
  EXPECT_TRUE(proven_.empty());
  // A member gets in all the same.
  ASSERT_TRUE(Dial(secret_).ok());
}

}  // namespace
}  // namespace lockstep::transport
