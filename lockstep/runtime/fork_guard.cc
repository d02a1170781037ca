#include "lockstep/runtime/fork_guard.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <map>

#include "lockstep/base/check.h"

namespace lockstep::runtime {
namespace {

// Never destroyed: threads of ours may outlive main.
struct Guarded {
  std::mutex mutex;
  // Descriptor and inode: one whose number means another file by now is left alone.
  std::map<int, ino_t> descriptors;
};

std::atomic<uint64_t> generation = 0;

Guarded& TheGuard();

void BeforeFork() { TheGuard().mutex.lock(); }
void InParent() { TheGuard().mutex.unlock(); }

void InChild() {
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

// With the mutex held.
void Guard(int fd) {
  struct stat status = {};
  if (::fstat(fd, &status) == 0) TheGuard().descriptors[fd] = status.st_ino;
}

// Before anything is guarded, and once.
void InstallHandlers() {
  static const bool installed = [] {
    TheGuard();
    LOCKSTEP_CHECK(::pthread_atfork(BeforeFork, InParent, InChild) == 0);
    return true;
  }();
  static_cast<void>(installed);
}

}  // namespace

uint64_t ForkGeneration() { return generation.load(std::memory_order_relaxed); }

std::mutex& ForkMutex() {
  InstallHandlers();
  return TheGuard().mutex;
}

int OpenSocket(int family, int type) {
  const std::lock_guard lock(ForkMutex());
  const int fd = ::socket(family, type | SOCK_CLOEXEC, 0);
  if (fd >= 0) Guard(fd);
  return fd;
}

void GuardDescriptor(int fd) {
  const std::lock_guard lock(ForkMutex());
  Guard(fd);
}

void CloseGuarded(int fd) {
  const std::lock_guard lock(ForkMutex());
  TheGuard().descriptors.erase(fd);
  ::close(fd);
}

void CloseSocket(asio::ip::tcp::socket& socket) {
  if (!socket.is_open()) return;
  const std::lock_guard lock(ForkMutex());
  TheGuard().descriptors.erase(socket.native_handle());
  asio::error_code ignored;
  socket.close(ignored);
}

}  // namespace lockstep::runtime
