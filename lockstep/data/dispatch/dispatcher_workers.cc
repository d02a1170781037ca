// Workers: who is there, and what each is told.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/data/dispatch/dispatcher_impl.h"

namespace lockstep::dispatch {

void Dispatcher::Impl::On(Time now, const WorkerPoll& request, Effects& out) {
  // Before anything else that it says, which may mean something else in its version.
  if (request.version != state_.options.worker_version) {
    return out.Fail(request.call,
                    MakeError(absl::StatusCode::kFailedPrecondition, reason::kWorkerVersion,
                              absl::StrCat("the worker at ", request.address, " speaks version ",
                                           request.version, ", and this dispatcher version ",
                                           state_.options.worker_version,
                                           ": start both from the same release")));
  }
  if (request.worker == WorkerId() || request.address.empty() ||
      request.address.size() > state_.options.name_bytes_max) {
    return out.Fail(request.call, InvalidRequest("a worker has a number and an address"));
  }
  Worker* worker = state_.workers.Find(request.worker);
  if (request.leaving) {
    // Its parked poll is answered as well, so it leaves no call behind.
    if (worker != nullptr) LoseWorker(now, request.worker, "it leaves", out);
    return out.Succeed(request.call, WorkerOrders{.service = state_.options.service});
  }
  const bool came = worker == nullptr;
  if (came) {
    // Before the newcomer counts: two workers of one address would both be sent readers.
    if (Worker* former = state_.workers.FindByAddress(request.address); former != nullptr) {
      LoseWorker(now, former->id, "another process has its address", out);
    }
    if (state_.workers.size() >= state_.options.workers_max) {
      return out.Fail(request.call, LimitReached(absl::StrCat("there are ", state_.workers.size(),
                                                              " workers (workers_max)")));
    }
    worker = &state_.workers.Add(request.worker);
    worker->id = request.worker;
    out.Tell(Severity::kInfo, absl::StrCat("the worker at ", request.address, " has come"));
  } else if (worker->parked) {
    // There is one parked poll: the former is answered, whatever there is to say.
    AnswerWorker(now, *worker, out);
  }
  worker->address = request.address;
  worker->host_card = request.host_card;
  worker->tags = request.tags;
  worker->host = request.host;
  worker->pid = request.pid;
  worker->heard = now;
  worker->link_ended = false;
  state_.deadlines.Set({.kind = DueKind::kWorkerLost, .worker = worker->id},
                       now + state_.options.worker_timeout);
  for (const ProcessingTime& time : request.times) {
    if (time.element_time > absl::ZeroDuration() && datasets_.Find(time.dataset) != nullptr) {
      worker->times[time.dataset] = time.element_time;
    }
  }
  worker->parked = request.call;
  state_.parked[request.call] = {.worker = worker->id};
  const absl::Duration wait = std::min(request.wait, state_.options.poll_wait_max);
  if (wait > absl::ZeroDuration()) {
    state_.deadlines.Set({.kind = DueKind::kWorkerPark, .worker = worker->id}, now + wait);
  }
  const bool seen = request.service == state_.options.service && request.after == worker->version;
  worker->dirty = worker->dirty || !seen || wait <= absl::ZeroDuration();
  if (came) {
    for (const auto& [id, iteration] : iterations_.all()) {
      iteration->WorkerCame(*worker, out);
      state_.touched.insert(id);
    }
  }
  // Last: what it found may begin iterations, which give the worker tasks as one that is there.
  for (const ResolveReport& report : request.resolved) {
    TakeResolved(now, request.worker, report, out);
  }
}

void Dispatcher::Impl::AnswerWorker(Time now, Worker& worker, Effects& out) {
  LOCKSTEP_DCHECK(worker.parked.has_value() && state_.parked.contains(*worker.parked));
  LOCKSTEP_DCHECK(worker.heard <= now);
  const CallId call = *worker.parked;
  worker.parked.reset();
  worker.dirty = false;
  state_.parked.erase(call);
  state_.deadlines.Clear({.kind = DueKind::kWorkerPark, .worker = worker.id});
  // Its time counts from what it was last told, too.
  worker.heard = now;
  state_.deadlines.Set({.kind = DueKind::kWorkerLost, .worker = worker.id},
                       now + state_.options.worker_timeout);
  WorkerOrders orders{.service = state_.options.service,
                      .version = worker.version,
                      // Half, so that one poll that is late does not make it lost.
                      .poll_within = state_.options.worker_timeout / 2};
  for (const auto& [id, iteration] : iterations_.all())
    iteration->ListTasks(worker.id, orders.tasks);
  for (const auto& [id, dataset] : datasets_.all()) {
    if (!NeedsResolving(id) || listing_.Choose(id) != worker.id) continue;
    // Asked with every answer, though it counts from the first: an answer may be lost.
    listing_.Ask(now, id, worker.id);
    orders.resolve.push_back(id);
  }
  out.Succeed(call, std::move(orders));
}

void Dispatcher::Impl::LoseWorker(Time /*now*/, WorkerId id, const std::string& why, Effects& out) {
  Worker* worker = state_.workers.Find(id);
  if (worker == nullptr) return;
  out.Tell(Severity::kWarning, absl::StrCat("the worker at ", worker->address, " is gone: ", why));
  if (worker->parked) {
    state_.parked.erase(*worker->parked);
    out.Fail(*worker->parked,
             MakeError(absl::StatusCode::kAborted, reason::kWorkerReplaced,
                       absl::StrCat("the worker at ", worker->address, " is not known: ", why)));
  }
  state_.deadlines.Clear({.kind = DueKind::kWorkerPark, .worker = id});
  state_.deadlines.Clear({.kind = DueKind::kWorkerLost, .worker = id});
  // Gone before the iterations hear of it, so that none of them chooses it again.
  state_.workers.Remove(id);
  listing_.ForgetWorker(id);
  for (const auto& [iteration_id, iteration] : iterations_.all()) {
    iteration->WorkerGone(id);
    state_.touched.insert(iteration_id);
  }
  // Its tasks may be theirs now.
  state_.workers.TouchAll();
}

}  // namespace lockstep::dispatch
