#include "lockstep/wire/native/data_view.h"

#include "absl/time/time.h"
#include "lockstep/data/dispatch/shape.h"
#include "lockstep/wire/native/data_events.h"
#include "lockstep/wire/native/utf8.h"

namespace lockstep::wire::native {
namespace {

DatasetStatus MessageOf(const dispatch::DatasetRow& from) {
  return {.dataset = from.dataset.value(),
          .name = ToUtf8(from.name),
          .identity = from.identity,
          .needs_manifest = from.needs_manifest,
          .resolved = from.resolved,
          .definition_bytes = from.definition_bytes,
          .manifest_bytes = from.manifest_bytes,
          .iterations = from.iterations};
}

WorkerStatus MessageOf(const dispatch::WorkerRow& from) {
  return {.worker = from.worker.value(),
          .address = ToUtf8(from.address),
          .host = ToUtf8(from.host),
          .pid = from.pid,
          .tags = from.tags,
          .tasks = from.tasks,
          .grants = from.grants,
          .silent_us = absl::ToInt64Microseconds(from.silent),
          .element_time_ns = absl::ToInt64Nanoseconds(from.element_time)};
}

ConsumerStatus MessageOf(const dispatch::ConsumerRow& from) {
  ConsumerStatus to{.consumer = from.consumer.value(),
                    .name = ToUtf8(from.name),
                    .host = ToUtf8(from.host),
                    .pid = from.pid,
                    .blocked_round = from.blocked_round,
                    .elements = from.elements,
                    .grants = from.grants,
                    .finished = from.finished,
                    .silent_us = absl::ToInt64Microseconds(from.silent),
                    .waits_for = ToUtf8(from.waits_for),
                    .element_time_us = absl::ToInt64Microseconds(from.element_time),
                    .unacknowledged = from.unacknowledged,
                    .unacknowledged_bytes = from.unacknowledged_bytes,
                    .away = from.away};
  if (from.index >= 0) to.index = from.index;
  if (from.round >= 0) to.round = from.round;
  return to;
}

TaskStatus MessageOf(const dispatch::TaskRow& from) {
  TaskStatus to{.task = from.task.value(),
                .worker = from.worker.value(),
                .stand_in = from.stand_in,
                .finished = from.finished};
  if (from.starting_round >= 0) to.starting_round = from.starting_round;
  if (from.share >= 0) to.share = from.share;
  return to;
}

IterationStatus MessageOf(const dispatch::IterationRow& from) {
  IterationStatus to{.iteration = from.iteration.value(),
                     .spec = native::MessageOf(from.spec),
                     .phase = static_cast<IterationPhase>(from.phase),
                     .granted = from.granted,
                     .done = from.done,
                     .dropped = from.dropped,
                     .elements = from.elements,
                     .agreeing = ToUtf8(from.agreeing),
                     .waits_for = ToUtf8(from.waits_for),
                     .workers_wanted = from.workers_wanted};
  if (from.error != nullptr) to.error = native::MessageOf(from.error);
  // Below zero: not known yet.
  if (from.segments != dispatch::kInfinite && from.segments >= 0) to.segments = from.segments;
  if (from.round >= 0) to.round = from.round;
  for (const auto& consumer : from.consumers) to.consumers.push_back(MessageOf(consumer));
  for (const auto& task : from.tasks) to.tasks.push_back(MessageOf(task));
  return to;
}

}  // namespace

DataStatusReply FromDataView(const dispatch::View& view) {
  DataStatusReply reply{.workers_wanted = view.workers_wanted, .parked = view.parked};
  for (const auto& dataset : view.datasets) reply.datasets.push_back(MessageOf(dataset));
  for (const auto& iteration : view.iterations) reply.iterations.push_back(MessageOf(iteration));
  for (const auto& worker : view.workers) reply.workers.push_back(MessageOf(worker));
  return reply;
}

}  // namespace lockstep::wire::native
