// The two threads that the client has in each process.
#pragma once

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "asio/io_context.hpp"

namespace lockstep::client {

// A loop for all links of this process, and a thread that calls back into the program around us.
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

  asio::io_context& io() { return io_; }
  // Runs it on the loop, in order.
  void Post(Function function);

  // Runs it on the callback thread, in order.
  void Callback(Function function);
  bool OnCallbackThread() const;

 private:
  struct Callbacks;

  Threads();

  asio::io_context io_;
  Callbacks& callbacks_;
};

}  // namespace lockstep::client
