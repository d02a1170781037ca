#include "lockstep/platform/runtime/stop_signals.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::runtime {
namespace {

constexpr std::array kSignals = {SIGTERM, SIGINT};

// What a handler can reach. Lock-free, as handlers need it.
std::atomic<int> told_fd = -1;
std::atomic<int> first_signal = 0;
std::array<struct sigaction, kSignals.size()> before;

void Came(int signal) {
  const int saved = errno;
  int none = 0;
  if (!first_signal.compare_exchange_strong(none, signal)) ::_exit(128 + signal);
  const uint64_t one = 1;
  // It cannot be full: it is written once.
  [[maybe_unused]] const ssize_t written = ::write(told_fd.load(), &one, sizeof(one));
  errno = saved;
}

}  // namespace

StopSignals::StopSignals(Loop& loop, std::function<void(int signal)> first)
    : came_(loop.io(), ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  LOCKSTEP_CHECK(told_fd.load() == -1);
  first_signal = 0;
  told_fd = ::fcntl(came_.native_handle(), F_DUPFD_CLOEXEC, 0);
  struct sigaction action = {};
  action.sa_handler = Came;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  for (const int signal : kSignals) ::sigaddset(&action.sa_mask, signal);
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &before[i]);
  came_.async_wait(asio::posix::stream_descriptor::wait_read,
                   [first = std::move(first)](const asio::error_code& error) {
                     if (!error) first(first_signal.load());
                   });
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before[i], nullptr);
  ::close(told_fd.exchange(-1));
}

}  // namespace lockstep::runtime
