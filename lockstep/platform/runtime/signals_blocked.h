// For threads that must not get the signals of the program around them.
#pragma once

#include <csignal>

namespace lockstep::runtime {

// Blocks all signals on this thread while it lives. A thread inherits its maker's mask: one that is
// made meanwhile never gets a signal that is sent to the process.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace lockstep::runtime
