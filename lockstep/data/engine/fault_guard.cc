#include "lockstep/data/engine/fault_guard.h"

#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstring>

#include "lockstep/base/check.h"

namespace lockstep::engine {
namespace {

// Where a copy of this thread goes on when it meets a page that is gone; null: it copies nothing.
thread_local sigjmp_buf* recover = nullptr;
struct sigaction previous;

void OnBusError(int signal, siginfo_t* info, void* context) {
  if (recover != nullptr) siglongjmp(*recover, 1);
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    // As it would have been without us: the instruction faults again, and ends the process.
    std::signal(signal, SIG_DFL);
  }
}

bool Install() {
  struct sigaction action = {};
  action.sa_sigaction = OnBusError;
  // Not blocked while it runs, for it does not return.
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &previous);
  return true;
}

}  // namespace

bool CopyGuarded(const std::byte* mapped, std::span<const ReadRequest> requests) {
  static const bool installed = Install();
  static_cast<void>(installed);
  // One copy at a time: an inner one would take away where the outer one goes on.
  LOCKSTEP_DCHECK(recover == nullptr);
  sigjmp_buf here;
  // Nothing in between has a destructor.
  if (sigsetjmp(here, 0) != 0) {
    recover = nullptr;
    return false;
  }
  recover = &here;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  for (const ReadRequest& request : requests) {
    std::memcpy(request.to, mapped + request.offset, request.bytes);
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  recover = nullptr;
  return true;
}

}  // namespace lockstep::engine
