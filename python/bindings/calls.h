// How calls of the client are made from Python: waiting without the GIL, looking for Ctrl-C, being
// called back, and the end of the interpreter.
//
// The client's threads never take the GIL. What they have to tell goes into one queue; a Python
// thread (lockstep/_dispatch.py) takes it from there and makes Python objects of it.
//
// Bounds: the queue holds one entry for each asynchronous call on its way and what callbacks have
// not been called with yet; the client gives a callback its next change only when it has taken the
// last one.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "errors.h"
#include "lockstep/client/call.h"

namespace lockstep::python {

// Names an asynchronous call, or a callback, in lockstep/_dispatch.py.
using Ticket = uint64_t;

// Seconds, None for no limit.
using Seconds = std::optional<double>;

inline absl::Duration ToDuration(Seconds seconds) {
  return seconds ? absl::Seconds(*seconds) : absl::InfiniteDuration();
}

// Makes the Python object of a result. Called with the GIL; throws StatusError.
using MakeObject = absl::AnyInvocable<nanobind::object()>;

// For the dispatcher. From any thread, with or without the GIL.
void Post(Ticket ticket, MakeObject make);

// CANCELLED when the interpreter is ending.
void ThrowIfEnding();

// Releases the GIL for a call that waits, and counts it, so that the interpreter does not end
// beneath it: a thread that would ask for the GIL afterwards is ended by Python, through our
// frames. Throws when the interpreter is ending.
class WithoutGil {
 public:
  // `cancelled`, if not null: a wait of this object ends soon after it is true.
  explicit WithoutGil(const std::atomic<bool>* cancelled = nullptr);
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

  // To be asked every 50 ms by the thread that waits.
  Interrupted LooksForEnd() const;

 private:
  const std::atomic<bool>* cancelled_;
  bool on_main_thread_;
  uint64_t round_;
  PyThreadState* state_;
};

// One call in both forms. Without a ticket it waits: `block(interrupted)` returns Status or
// StatusOr<T>, and `make` turns the value into the answer. With one it returns what cancels it:
// `start(completion)` begins the asynchronous form.
template <class T, class Block, class Start, class Make>
nanobind::object Call(std::optional<Ticket> ticket, const std::atomic<bool>* cancelled, Block block,
                      Start start, Make make) {
  if (!ticket) {
    absl::StatusOr<T> result = absl::UnknownError("");
    {
      WithoutGil without(cancelled);
      result = block(without.LooksForEnd());
    }
    return make(ValueOrThrow(std::move(result)));
  }
  ThrowIfEnding();
  return nanobind::cast(start([ticket = *ticket, make](absl::StatusOr<T> result) {
    Post(ticket, [make, result = std::move(result)]() mutable {
      return make(ValueOrThrow(std::move(result)));
    });
  }));
}

// As Call, of what gives nothing but success.
template <class Block, class Start>
nanobind::object CallForNothing(std::optional<Ticket> ticket, const std::atomic<bool>* cancelled,
                                Block block, Start start) {
  if (!ticket) {
    absl::Status status;
    {
      WithoutGil without(cancelled);
      status = block(without.LooksForEnd());
    }
    ThrowUnlessOk(status);
    return nanobind::none();
  }
  ThrowIfEnding();
  return nanobind::cast(start([ticket = *ticket](absl::Status status) {
    Post(ticket, [status = std::move(status)] {
      ThrowUnlessOk(status);
      return nanobind::object(nanobind::none());
    });
  }));
}

void BindCalls(nanobind::module_& module);

}  // namespace lockstep::python
