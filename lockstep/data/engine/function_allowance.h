// Which Python functions of datasets a worker may run: what its operator named, nothing else.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::engine {

// A module's and a function's names together: `function_reference_bytes_max`.
inline constexpr size_t kFunctionReferenceBytesMax = 512;

// How a reference is allowed, which decides what the process that runs it accepts.
enum class FunctionGrant {
  // The operator named the function: whatever object has that name.
  kByName,
  // The operator named the module: a function that was defined in it, and not what it imported.
  kByModule,
};

// A dataset comes from whoever reaches the server, and a Python function is any code that a module
// can reach. So a worker runs none by default. Immutable, thread-safe; pure.
class FunctionAllowance {
 public:
  // Nothing.
  FunctionAllowance() = default;
  // From `MODULE` and `MODULE:NAME`. INVALID_ARGUMENT: one is neither, or its module could run or
  // reach anything (builtins, os, subprocess, ...), which no operator can mean.
  static absl::StatusOr<FunctionAllowance> Parse(const std::vector<std::string>& allowed);

  // PERMISSION_DENIED with kFunctionRefused: says how an operator allows it.
  absl::StatusOr<FunctionGrant> Find(std::string_view reference) const;

 private:
  std::set<std::string, std::less<>> modules_;
  std::set<std::pair<std::string, std::string>> names_;  // module, name
};

}  // namespace lockstep::engine
