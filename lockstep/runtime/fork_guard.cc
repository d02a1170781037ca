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
struct Guard {
  std::mutex mutex;
  // Descriptor and inode: one whose number means another file by now is left alone.
  std::map<int, ino_t> sockets;
};

std::atomic<uint64_t> generation = 0;

Guard& TheGuard();

void BeforeFork() { TheGuard().mutex.lock(); }
void InParent() { TheGuard().mutex.unlock(); }

void InChild() {
  Guard& guard = TheGuard();
  generation.fetch_add(1);
  for (const auto& [fd, inode] : guard.sockets) {
    struct stat status = {};
    if (::fstat(fd, &status) == 0 && status.st_ino == inode) ::close(fd);
  }
  guard.sockets.clear();
  guard.mutex.unlock();
}

Guard& TheGuard() {
  static Guard& guard = *new Guard;
  return guard;
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
  if (fd < 0) return fd;
  struct stat status = {};
  if (::fstat(fd, &status) == 0) TheGuard().sockets[fd] = status.st_ino;
  return fd;
}

void CloseSocket(asio::ip::tcp::socket& socket) {
  if (!socket.is_open()) return;
  const std::lock_guard lock(ForkMutex());
  TheGuard().sockets.erase(socket.native_handle());
  asio::error_code ignored;
  socket.close(ignored);
}

}  // namespace lockstep::runtime
