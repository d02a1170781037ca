// Workers: who is there, and what each is told.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lockstep/dispatch/dispatcher_impl.h"

namespace lockstep::dispatch {

void Dispatcher::Impl::On(Time now, const WorkerPoll& request, Effects& out) {
  if (request.version != env_.options.worker_version) {
    return out.Fail(
        request.call,
        MakeError(absl::StatusCode::kFailedPrecondition, reason::kWorkerVersion,
                  absl::StrCat("the worker at ", request.address, " speaks version ",
                               request.version, ", and this dispatcher version ",
                               env_.options.worker_version, ": start both from the same release")));
  }
  if (request.worker == WorkerId() || request.address.empty() ||
      request.address.size() > env_.options.name_bytes_max) {
    return out.Fail(request.call, InvalidRequest("a worker has a number and an address"));
  }
  Worker* worker = env_.workers.Find(request.worker);
  if (request.leaving) {
    if (worker != nullptr) LoseWorker(now, request.worker, "it leaves", out);
    return out.Succeed(request.call, WorkerOrders{.service = env_.options.service});
  }
  const bool came = worker == nullptr;
  if (came) {
    if (Worker* former = env_.workers.FindByAddress(request.address); former != nullptr) {
      LoseWorker(now, former->id, "another process has its address", out);
    }
    if (env_.workers.size() >= env_.options.workers_max) {
      return out.Fail(request.call, LimitReached(absl::StrCat("there are ", env_.workers.size(),
                                                              " workers (workers_max)")));
    }
    worker = &env_.workers.Add(request.worker);
    worker->id = request.worker;
    out.Tell(Severity::kInfo, absl::StrCat("the worker at ", request.address, " has come"));
  } else if (worker->parked) {
    AnswerWorker(now, *worker, out);
  }
  worker->address = request.address;
  worker->host_card = request.host_card;
  worker->tags = request.tags;
  worker->host = request.host;
  worker->pid = request.pid;
  worker->heard = now;
  worker->link_ended = false;
  env_.deadlines.Set({.kind = DueKind::kWorkerLost, .worker = worker->id},
                     now + env_.options.worker_timeout);
  for (const ProcessingTime& time : request.times) {
    if (time.element_time > absl::ZeroDuration() && FindDataset(time.dataset) != nullptr) {
      worker->times[time.dataset] = time.element_time;
    }
  }
  worker->parked = request.call;
  env_.parked[request.call] = {.worker = worker->id};
  const absl::Duration wait = std::min(request.wait, env_.options.poll_wait_max);
  if (wait > absl::ZeroDuration()) {
    env_.deadlines.Set({.kind = DueKind::kWorkerPark, .worker = worker->id}, now + wait);
  }
  const bool seen = request.service == env_.options.service && request.after == worker->version;
  worker->dirty = worker->dirty || !seen || wait <= absl::ZeroDuration();
  if (came) {
    for (auto& [id, iteration] : iterations_) {
      iteration->WorkerCame(now, *worker, out);
      env_.touched.insert(id);
    }
  }
  for (const ResolveReport& report : request.resolved) {
    TakeResolved(now, request.worker, report, out);
  }
}

void Dispatcher::Impl::AnswerWorker(Time now, Worker& worker, Effects& out) {
  const CallId call = *worker.parked;
  worker.parked.reset();
  worker.dirty = false;
  env_.parked.erase(call);
  env_.deadlines.Clear({.kind = DueKind::kWorkerPark, .worker = worker.id});
  worker.heard = now;
  env_.deadlines.Set({.kind = DueKind::kWorkerLost, .worker = worker.id},
                     now + env_.options.worker_timeout);
  WorkerOrders orders{.service = env_.options.service,
                      .version = worker.version,
                      .poll_within = env_.options.worker_timeout / 2};
  for (const auto& [id, iteration] : iterations_) iteration->ListTasks(worker.id, orders.tasks);
  for (auto& [id, dataset] : datasets_) {
    if (!NeedsResolving(dataset) || Resolver(dataset) != worker.id) continue;
    AskToResolve(now, dataset, worker.id);
    orders.resolve.push_back(id);
  }
  out.Succeed(call, std::move(orders));
}

void Dispatcher::Impl::LoseWorker(Time /*now*/, WorkerId id, const std::string& why, Effects& out) {
  Worker* worker = env_.workers.Find(id);
  if (worker == nullptr) return;
  out.Tell(Severity::kWarning, absl::StrCat("the worker at ", worker->address, " is gone: ", why));
  if (worker->parked) {
    env_.parked.erase(*worker->parked);
    out.Fail(*worker->parked,
             MakeError(absl::StatusCode::kAborted, reason::kWorkerReplaced,
                       absl::StrCat("the worker at ", worker->address, " is not known: ", why)));
  }
  env_.deadlines.Clear({.kind = DueKind::kWorkerPark, .worker = id});
  env_.deadlines.Clear({.kind = DueKind::kWorkerLost, .worker = id});
  env_.workers.Remove(id);
  for (auto& [dataset_id, dataset] : datasets_) {
    dataset.resolve_tries.erase(id);
    ForgetResolver(dataset, id);
  }
  for (auto& [iteration_id, iteration] : iterations_) {
    iteration->WorkerGone(id, out);
    env_.touched.insert(iteration_id);
  }
  env_.workers.TouchAll();
}

}  // namespace lockstep::dispatch
