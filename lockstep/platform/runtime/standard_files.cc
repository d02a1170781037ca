#include "lockstep/platform/runtime/standard_files.h"

#include <fcntl.h>
#include <unistd.h>

namespace lockstep::runtime {

void OpenStandardFiles() {
  for (;;) {
    // Always the lowest that is free. Without CLOEXEC: programs that we start want them, too.
    const int fd = ::open("/dev/null", O_RDWR);
    if (fd >= 0 && fd <= STDERR_FILENO) continue;
    if (fd >= 0) ::close(fd);
    return;
  }
}

}  // namespace lockstep::runtime
