// What a failure that a worker reported means for the iteration. Pure.
#pragma once

#include "lockstep/data/dispatch/error.h"

namespace lockstep::dispatch {

// Workers pass on reasons of their own, so that the dispatcher knows them by their text only. That
// text is looked at here and nowhere else: the machine decides by the kind.
enum class FailureKind {
  kWorker,         // another worker may do better
  kFunction,       // so too, but it is the program's own function that failed
  kDeterministic,  // every worker fails in the same way
  kSourceChanged,  // so too, since the files are not those that were listed
};

// By the reason alone; one that is not known is the worker's.
FailureKind KindOf(const Error& error);

// Whether no other worker does better.
inline bool IsDeterministic(FailureKind kind) {
  return kind == FailureKind::kDeterministic || kind == FailureKind::kSourceChanged;
}

}  // namespace lockstep::dispatch
