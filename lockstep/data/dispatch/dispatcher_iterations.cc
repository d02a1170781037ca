// Iterations: they are opened, read and collected.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/data/dispatch/dispatcher_impl.h"

namespace lockstep::dispatch {

namespace {

ErrorPtr UnknownIteration(IterationId id) {
  return MakeError(absl::StatusCode::kNotFound, reason::kUnknownIteration,
                   absl::StrCat("there is no iteration ", id.value(),
                                ": it was collected, or the service is another one"));
}

}  // namespace

void Dispatcher::Impl::On(Time now, const OpenIteration& request, Effects& out) {
  if (stopped_) {
    return out.Fail(request.call, MakeError(absl::StatusCode::kUnavailable, reason::kStopped,
                                            "the data service is stopping"));
  }
  Cursor start{.mode = request.spec.mode};
  if (ErrorPtr error = CheckRequest(state_.options, datasets_, request, start); error != nullptr) {
    return out.Fail(request.call, std::move(error));
  }
  // Whoever comes first makes it; the others join if they mean the same.
  Iteration* iteration = iterations_.FindOpened(request);
  if (iteration != nullptr) {
    if (ErrorPtr error = CheckSame(iteration->ledger(), datasets_, request.spec, start);
        error != nullptr) {
      return out.Fail(request.call, std::move(error));
    }
  } else {
    // Only a new one counts: whoever joins adds nothing.
    if (iterations_.size() >= state_.options.iterations_max) {
      return out.Fail(request.call, LimitReached(absl::StrCat("there are ", iterations_.size(),
                                                              " iterations (iterations_max)")));
    }
    const IterationId id(state_.ids.Next());
    IterationSpec spec = request.spec;
    // Recorded under its name, so that a restored dispatcher calls it the same.
    if (spec.name.empty()) spec.name = absl::StrCat(kAnonymous, id.value());
    Commit(now, record::IterationOpened{.iteration = id, .spec = std::move(spec)}, out);
    iteration = iterations_.Find(id);
    SetDatasetIdle(now, request.spec.dataset);
    // At once, where the dataset is known: the consumer begins to read with the first answer.
    StartIterations(now, request.spec.dataset, out);
  }
  LOCKSTEP_DCHECK(iteration != nullptr);
  iteration->Handle(now, request, out);
}

void Dispatcher::Impl::On(Time now, const ConsumerPoll& request, Effects& out) {
  Iteration* iteration = iterations_.Find(request.iteration);
  if (iteration == nullptr) return out.Fail(request.call, UnknownIteration(request.iteration));
  if (ErrorPtr error = CheckRequest(request); error != nullptr) {
    return out.Fail(request.call, std::move(error));
  }
  iteration->Handle(now, request, out);
}

void Dispatcher::Impl::On(Time now, const CloseConsumer& request, Effects& out) {
  Iteration* iteration = iterations_.Find(request.iteration);
  // It was collected meanwhile, and so the consumer has left.
  if (iteration == nullptr) return out.Succeed(request.call, ConsumerClosed{});
  if (ErrorPtr error = CheckRequest(request); error != nullptr) {
    return out.Fail(request.call, std::move(error));
  }
  iteration->Handle(now, request, out);
}

// Nobody has read it for iteration_timeout, or for the time of one that is over.
void Dispatcher::Impl::Collect(Time now, IterationId id, Effects& out) {
  Iteration* iteration = iterations_.Find(id);
  // Those that are away do not count: nobody has come for their places.
  if (iteration == nullptr || iteration->ledger().HasConsumersThere()) return;
  out.Tell(Severity::kInfo, absl::StrCat("iteration ", iteration->ledger().Name(),
                                         " is collected: nobody reads it"));
  const DatasetId dataset = iteration->spec().dataset;
  // What was given to its readers is given no more.
  iteration->End(
      now, MakeError(absl::StatusCode::kAborted, reason::kIterationCollected, "collected"), out);
  // Nobody has to be answered: consumers that are away have no call.
  LOCKSTEP_DCHECK(iteration->Count().parked == 0);
  iteration->Abandon(nullptr, out);
  // Behind the end and the answers, for which the iteration has to be there.
  Commit(now, record::IterationCollected{.iteration = id}, out);
  // Their tasks of it are gone.
  state_.workers.TouchAll();
  SetDatasetIdle(now, dataset);
}

}  // namespace lockstep::dispatch
