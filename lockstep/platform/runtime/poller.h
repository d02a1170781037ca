// Something besides its sockets that a loop looks at. Pure interface.
#pragma once

namespace lockstep::runtime {

// What comes through memory, where no system call says so: a loop asks for it while it spins, and
// is woken by whoever brings it when it sleeps.
//
// Threads: called on the loop.
class Poller {
 public:
  virtual ~Poller() = default;

  // Takes what has come; whether there was anything.
  virtual bool Poll() = 0;
  // The loop is about to sleep: whoever brings something after this wakes it. False: something has
  // come already.
  virtual bool PrepareToSleep() = 0;
  // The loop does not sleep any more.
  virtual void Awake() = 0;
};

}  // namespace lockstep::runtime
