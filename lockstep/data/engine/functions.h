// Running a user's function over elements, wherever it runs.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/data/engine/element.h"
#include "lockstep/data/plan/definition.h"

namespace lockstep::engine {

// A Python function, and what goes in and comes out.
struct Function {
  std::string reference;  // "module:function"
  plan::ElementSpec input;
  plan::ElementSpec output;
  absl::Duration timeout;  // of one element
};

// Of one element: what the function returned, or why there is nothing.
struct FunctionResult {
  // A frame whose leaves are those of `output`; of which segment and index it says does not matter.
  std::optional<Element> element;
  std::string error;  // why there is none: for people, with the traceback
};

// Threads: implementations are thread-safe; runs of several segments call at once.
class FunctionRunner {
 public:
  virtual ~FunctionRunner() = default;
  // A result for each element, in their order. An error: the function cannot be run at all.
  virtual absl::StatusOr<std::vector<FunctionResult>> Call(const Function& function,
                                                           std::span<const Element> elements) = 0;
  // Whether it would be run at all; PERMISSION_DENIED with kFunctionRefused: not here.
  virtual absl::Status Check(const std::string& reference) const = 0;
  // Calls that run, and those to come, end soon with CANCELLED.
  virtual void Stop() {}
};

}  // namespace lockstep::engine
