#include "lockstep/platform/runtime/standard_files.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace lockstep::runtime {
namespace {

bool IsOpen(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

// In a process of its own, which ends with 0 when all is as it should be.
int InAChild(bool (*holds)()) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(holds() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(StandardFiles, ThoseThatAreClosedAreOpened) {
  EXPECT_EQ(InAChild([] {
              ::close(STDIN_FILENO);
              ::close(STDERR_FILENO);
              OpenStandardFiles();
              return IsOpen(STDIN_FILENO) && IsOpen(STDERR_FILENO) &&
                     ::write(STDERR_FILENO, "x", 1) == 1;
            }),
            0);
}

TEST(StandardFiles, NothingElseIsOpened) {
  EXPECT_EQ(InAChild([] {
              const int before = ::open("/dev/null", O_RDWR);
              ::close(before);
              OpenStandardFiles();
              return !IsOpen(before);
            }),
            0);
}

}  // namespace
}  // namespace lockstep::runtime
