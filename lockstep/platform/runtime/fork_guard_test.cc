#include "lockstep/platform/runtime/fork_guard.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "asio/io_context.hpp"
#include "gtest/gtest.h"

namespace lockstep::runtime {
namespace {

// Runs `claim` in a forked child and returns what it returned.
template <class Claim>
bool HoldsInChild(Claim claim) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(claim() ? 0 : 1);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool IsOpen(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(ForkGuard, ClosesSocketsInTheChildOnly) {
  asio::io_context io;
  const int fd = OpenSocket(AF_INET, SOCK_STREAM);
  ASSERT_GE(fd, 0);
  asio::ip::tcp::socket socket(io);
  socket.assign(asio::ip::tcp::v4(), fd);
  EXPECT_TRUE(HoldsInChild([fd] { return !IsOpen(fd); }));
  EXPECT_TRUE(IsOpen(fd));
  CloseSocket(socket);
  EXPECT_FALSE(IsOpen(fd));
}

TEST(ForkGuard, LeavesAloneADescriptorWhoseNumberWasUsedAgain) {
  const int fd = OpenSocket(AF_INET, SOCK_STREAM);
  ASSERT_GE(fd, 0);
  ::close(fd);  // behind the guard's back
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_TRUE(ends[0] == fd || ends[1] == fd);
  EXPECT_TRUE(HoldsInChild([fd] { return IsOpen(fd); }));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(ForkGuard, CountsGenerationsInTheChildAndFreesTheMutexThere) {
  const uint64_t before = ForkGeneration();
  EXPECT_TRUE(HoldsInChild([before] {
    const std::lock_guard lock(ForkMutex());
    return ForkGeneration() == before + 1;
  }));
  EXPECT_EQ(ForkGeneration(), before);
}

}  // namespace
}  // namespace lockstep::runtime
