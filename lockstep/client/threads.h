// The two threads that the client has in each process, and its loop.
#pragma once

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "lockstep/client/loop_driver.h"

namespace lockstep::client {

// A thread for the loop of all links of this process, while no caller drives it (LoopDriver), and
// one that calls back into the program around us.
//
// Both block all signals and have names. They are started when they are first needed and never
// ended: that way nobody must join a thread from within itself, nor at exit, when they do nothing
// that touches what is being destroyed. A forked child gets threads of its own; those of its parent
// are left where they are.
//
// Threads: thread-safe.
class Threads {
 public:
  using Function = absl::AnyInvocable<void()>;

  // Of this process. The reference is good for ever.
  static Threads& Get();

  LoopDriver& loop() { return loop_; }

  // Runs it on the callback thread, in order.
  void Callback(Function function);
  bool OnCallbackThread() const;

 private:
  struct Callbacks;

  Threads();

  LoopDriver loop_;
  Callbacks& callbacks_;
};

}  // namespace lockstep::client
