// Signals as notices. The handler that was there before is called too, and a second signal of the
// same kind acts as if nobody watched.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lockstep/preempt/source_options.h"
#include "lockstep/preempt/watched_source.h"

namespace lockstep::preempt {

struct SignalOptions {
  std::vector<int> signals;
  std::optional<absl::Duration> lead;  // absent: a signal does not say
  // Whether the handler before is called on the first signal too.
  bool chain = true;
  // How often it is looked whether the handler is still ours.
  absl::Duration interval = absl::Seconds(5);
};

// From `Open` to `Close` a handler of ours stands for each signal. The first one is a notice, and
// goes to the handler that was there before, if there was one. The second goes to that handler, or
// acts as by default: who asks twice means it. In a child that was forked, where nobody looks,
// every signal acts as it did before.
//
// Bounds: one watch of a signal in a process at a time; ALREADY_EXISTS.
std::unique_ptr<Watch> MakeSignalWatch(SignalOptions options);

// Wrong ones are refused there.
SignalOptions ReadSignalOptions(OptionReader& options);

// "TERM", "SIGTERM" or "USR1+TERM": those that end a process and can be caught. INVALID_ARGUMENT:
// another one.
absl::StatusOr<std::vector<int>> ParseSignals(absl::string_view text);
std::string SignalName(int signal);

}  // namespace lockstep::preempt
