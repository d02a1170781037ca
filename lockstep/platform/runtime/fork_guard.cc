#include "lockstep/platform/runtime/fork_guard.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <map>

#include "lockstep/base/check.h"
#include "lockstep/base/mutex.h"

namespace lockstep::runtime {
namespace {

// Never destroyed: threads of ours may outlive main.
struct Guarded {
  Mutex mutex;
  // Descriptor and inode: one whose number means another file by now is left alone.
  std::map<int, ino_t> descriptors ABSL_GUARDED_BY(mutex);
};

std::atomic<uint64_t> generation = 0;

Guarded& TheGuard();

// The mutex is taken here and given back in the parent and in the child by the next two, which no
// analysis of one function follows.
void BeforeFork() ABSL_NO_THREAD_SAFETY_ANALYSIS { TheGuard().mutex.lock(); }
void InParent() ABSL_NO_THREAD_SAFETY_ANALYSIS { TheGuard().mutex.unlock(); }

void InChild() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  Guarded& guard = TheGuard();
  generation.fetch_add(1);
  for (const auto& [fd, inode] : guard.descriptors) {
    struct stat status = {};
    if (::fstat(fd, &status) == 0 && status.st_ino == inode) ::close(fd);
  }
  guard.descriptors.clear();
  guard.mutex.unlock();
}

Guarded& TheGuard() {
  static Guarded& guard = *new Guarded;
  return guard;
}

// With the handlers of `fork`, which are installed once, before anything is guarded.
Guarded& InstalledGuard() {
  static Guarded& guard = [&]() -> Guarded& {
    LOCKSTEP_CHECK(::pthread_atfork(BeforeFork, InParent, InChild) == 0);
    return TheGuard();
  }();
  return guard;
}

void Guard(Guarded& guard, int fd) ABSL_EXCLUSIVE_LOCKS_REQUIRED(guard.mutex) {
  struct stat status = {};
  if (::fstat(fd, &status) == 0) guard.descriptors[fd] = status.st_ino;
}

}  // namespace

uint64_t ForkGeneration() { return generation.load(std::memory_order_relaxed); }

Mutex& ForkMutex() { return InstalledGuard().mutex; }

int OpenSocket(int family, int type) {
  Guarded& guard = InstalledGuard();
  const MutexLock lock(guard.mutex);
  const int fd = ::socket(family, type | SOCK_CLOEXEC, 0);
  if (fd >= 0) Guard(guard, fd);
  return fd;
}

void GuardDescriptor(int fd) {
  Guarded& guard = InstalledGuard();
  const MutexLock lock(guard.mutex);
  Guard(guard, fd);
}

void CloseGuarded(int fd) {
  Guarded& guard = InstalledGuard();
  const MutexLock lock(guard.mutex);
  guard.descriptors.erase(fd);
  ::close(fd);
}

void CloseSocket(asio::ip::tcp::socket& socket) {
  if (!socket.is_open()) return;
  Guarded& guard = InstalledGuard();
  const MutexLock lock(guard.mutex);
  guard.descriptors.erase(socket.native_handle());
  asio::error_code ignored;
  socket.close(ignored);
}

void ResetSocket(asio::ip::tcp::socket& socket) {
  asio::error_code ignored;  // of a socket that is dead already
  socket.set_option(asio::socket_base::linger(true, 0), ignored);
  CloseSocket(socket);
}

}  // namespace lockstep::runtime
