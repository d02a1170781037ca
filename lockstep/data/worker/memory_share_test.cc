#include "lockstep/data/worker/memory_share.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "lockstep/platform/runtime/unique_fd.h"
#include "lockstep/wire/native/codec.h"

namespace lockstep::data {
namespace {

constexpr uid_t kStranger = 65534;
// More than may wait without having said whose they are, several times over.
constexpr int kConnections = 300;

// A process of another user that connects again and again, and ends well if each connection is
// closed to it. Only system calls between fork and exit.
pid_t StartStranger(const std::string& name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const pid_t pid = fork();
  if (pid != 0) return pid;
  if (setuid(kStranger) != 0) _exit(1);
  alarm(60);
  for (int i = 0; i < kConnections; ++i) {
    const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0) _exit(2);
    char byte = 0;
    if (recv(fd, &byte, 1, 0) > 0) _exit(3);
    close(fd);
  }
  _exit(0);
}

TEST(MemoryShareTest, Finding20_OtherUsersOfTheHostPushNoConsumerOut) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
  runtime::Loop loop;
  transport::Arena arena({});
  const auto share = MemoryShare::Start(loop, arena);
  ASSERT_TRUE(share.ok()) << share.status();
  // A consumer of ours that has connected, and has not said yet who it is.
  const auto told = (*share)->Open();
  const auto ours = transport::UnixSocket::Connect(loop.io(), (*share)->unix_address());
  ASSERT_TRUE(ours.ok()) << ours.status();
  const pid_t stranger = StartStranger((*share)->unix_address().substr(1));
  int status = 0;
  while (waitpid(stranger, &status, WNOHANG) == 0) {
    loop.io().run_for(std::chrono::milliseconds(5));
  }
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0) << "its connections were not closed to it";
  EXPECT_TRUE((*ours)->Send(wire::native::Encode(told), {}).ok());
  loop.io().run_for(std::chrono::milliseconds(5));
  // The connection stands: there is nothing to receive, and no end.
  const auto received = (*ours)->Receive();
  ASSERT_TRUE(received.ok()) << received.status();
  EXPECT_FALSE(received->has_value());
}

}  // namespace
}  // namespace lockstep::data
