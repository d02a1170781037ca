// Failed calls as Python exceptions.
#pragma once

#include <nanobind/nanobind.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::python {

// Thrown on the way to Python; becomes one of the classes in lockstep/_errors.py.
struct StatusError {
  absl::Status status;
};

// The exception object for a status that is not OK. Needs the GIL.
nanobind::object ErrorObject(const absl::Status& status);

// What Python has raised meanwhile (a signal handler's KeyboardInterrupt) goes before the status.
void ThrowUnlessOk(const absl::Status& status);

template <class T>
T ValueOrThrow(absl::StatusOr<T> result) {
  ThrowUnlessOk(result.status());
  return *std::move(result);
}

void RegisterErrors();

}  // namespace lockstep::python
