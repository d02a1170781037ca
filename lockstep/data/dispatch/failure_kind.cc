#include "lockstep/data/dispatch/failure_kind.h"

#include "absl/strings/match.h"

namespace lockstep::dispatch {

FailureKind KindOf(const Error& error) {
  // Before the prefixes: it is one of the source's reasons.
  if (error.reason == "source_changed") return FailureKind::kSourceChanged;
  for (const char* prefix : {"path_", "source_", "record_", "definition_", "element_"}) {
    if (absl::StartsWith(error.reason, prefix)) return FailureKind::kDeterministic;
  }
  if (absl::StartsWith(error.reason, "function_")) return FailureKind::kFunction;
  // A reason that is not known, too: others are tried before the iteration fails.
  return FailureKind::kWorker;
}

}  // namespace lockstep::dispatch
