#include "lockstep/wire/native/data_events.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/error_reply.h"
#include "lockstep/wire/native/utf8.h"

namespace lockstep::wire::native {
namespace {

using native::MessageOf;  // those of the header too

// The names of both sides are the same, value by value.
static_assert(static_cast<int>(ReadingMode::kRounds) == static_cast<int>(dispatch::Mode::kRounds));
static_assert(static_cast<int>(DataSharding::kHint) == static_cast<int>(dispatch::Sharding::kHint));
static_assert(static_cast<int>(DataVisitation::kExactlyOnce) ==
                  static_cast<int>(dispatch::Visitation::kExactlyOnce) &&
              static_cast<int>(DataVisitation::kAtLeastOnce) ==
                  static_cast<int>(dispatch::Visitation::kAtLeastOnce) &&
              static_cast<int>(DataVisitation::kAtMostOnce) ==
                  static_cast<int>(dispatch::Visitation::kAtMostOnce));
static_assert(static_cast<int>(DataOnLost::kWait) == static_cast<int>(dispatch::OnLost::kWait) &&
              static_cast<int>(DataOnLost::kGoOn) == static_cast<int>(dispatch::OnLost::kGoOn));
static_assert(static_cast<int>(IterationPhase::kCollected) ==
              static_cast<int>(dispatch::Phase::kCollected));

// Whether the enum's value has a name here.
template <class E>
bool IsKnown(E value) {
  return NameOf(value) != "unknown";
}

absl::Status Unknown(std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(what), " is not known here: the other program is newer"));
}

absl::Duration DurationOf(int64_t us) { return absl::Microseconds(std::max<int64_t>(0, us)); }

dispatch::LaneAck AckOf(const LaneAck& from) {
  return {.lane = dispatch::LaneId(from.lane),
          .seq = from.seq,
          .elements = from.elements,
          .done = from.done};
}

LaneAck MessageOf(const dispatch::LaneAck& from) {
  return {.lane = from.lane.value(), .seq = from.seq, .elements = from.elements, .done = from.done};
}

dispatch::ReadingPlace PlaceOf(const ReadingPlace& from) {
  return {.elements = from.elements, .round = from.round, .turns = from.turns};
}

ReadingPlace MessageOf(const dispatch::ReadingPlace& from) {
  return {.elements = from.elements, .round = from.round, .turns = from.turns};
}

std::vector<dispatch::LaneAck> AcksOf(const std::vector<LaneAck>& from) {
  std::vector<dispatch::LaneAck> to;
  to.reserve(from.size());
  for (const LaneAck& ack : from) to.push_back(AckOf(ack));
  return to;
}

std::vector<LaneAck> MessagesOf(const std::vector<dispatch::LaneAck>& from) {
  std::vector<LaneAck> to;
  to.reserve(from.size());
  for (const dispatch::LaneAck& ack : from) to.push_back(MessageOf(ack));
  return to;
}

absl::StatusOr<dispatch::IterationSpec> SpecOf(IterationSpec& from) {
  if (!IsKnown(from.mode)) return Unknown("the mode of the iteration");
  if (!IsKnown(from.sharding)) return Unknown("the sharding of the iteration");
  if (!IsKnown(from.visitation)) return Unknown("the visitation of the iteration");
  if (!IsKnown(from.on_lost)) return Unknown("on_lost of the iteration");
  return dispatch::IterationSpec{.name = std::move(from.name),
                                 .repetition = from.repetition,
                                 .dataset = dispatch::DatasetId(from.dataset),
                                 .mode = static_cast<dispatch::Mode>(from.mode),
                                 .sharding = static_cast<dispatch::Sharding>(from.sharding),
                                 .visitation = static_cast<dispatch::Visitation>(from.visitation),
                                 .consumers = from.consumers,
                                 .shares = from.shares,
                                 .worker_addresses = std::move(from.worker_addresses),
                                 .cursor = std::move(from.cursor.data),
                                 .on_lost = static_cast<dispatch::OnLost>(from.on_lost)};
}

DataLane MessageOf(const dispatch::Lane& from) {
  DataLane to{.lane = from.lane.value(),
              .task = from.task.value(),
              .starting_round = from.starting_round,
              .closed = from.closed,
              .base_round = from.base_round,
              .base_element = from.base_element};
  if (from.first_element >= 0) to.first_element = from.first_element;
  if (from.done_before >= 0) to.done_before = from.done_before;
  to.grants.reserve(from.grants.size());
  for (const dispatch::Grant& grant : from.grants) {
    SegmentGrant& added = to.grants.emplace_back(SegmentGrant{.seq = grant.seq,
                                                              .segment = grant.segment,
                                                              .from = grant.from,
                                                              .worker = grant.worker.value()});
    if (grant.elements >= 0) added.elements = grant.elements;
  }
  return to;
}

dispatch::Lane LaneOf(const DataLane& from) {
  dispatch::Lane to;
  to.lane = dispatch::LaneId(from.lane);
  to.task = dispatch::TaskId(from.task);
  to.starting_round = from.starting_round;
  to.base_round = from.base_round;
  to.base_element = from.base_element;
  to.first_element = from.first_element.value_or(-1);
  to.done_before = from.done_before.value_or(-1);
  to.closed = from.closed;
  for (const SegmentGrant& grant : from.grants) {
    to.grants.push_back({.seq = grant.seq,
                         .segment = grant.segment,
                         .from = grant.from,
                         .worker = dispatch::WorkerId(grant.worker),
                         .elements = grant.elements.value_or(-1)});
  }
  return to;
}

ConsumerPollReply MessageOf(const dispatch::Assignment& from) {
  ConsumerPollReply to{.service = from.service,
                       .version = from.version,
                       .phase = static_cast<IterationPhase>(from.phase),
                       .error = MessageOf(from.error),
                       .block_round = from.block_round,
                       .next_segment = from.next_segment,
                       .waits_for = ToUtf8(from.waits_for),
                       .rest_is_own = from.rest_is_own,
                       .ack_needed = ToUtf8(from.ack_needed)};
  for (const dispatch::Lane& lane : from.lanes) to.lanes.push_back(MessageOf(lane));
  for (const dispatch::WorkerAddress& worker : from.workers) {
    to.workers.push_back({.worker = worker.worker.value(),
                          .address = worker.address,
                          .host_card = {worker.host_card}});
  }
  for (const dispatch::Seating& seating : from.seatings) {
    RoundSeating& added = to.seatings.emplace_back(
        RoundSeating{.first_round = seating.first_round, .consumers = seating.consumers});
    if (seating.index >= 0) added.index = seating.index;
  }
  for (const auto& [segment, at] : from.returned) to.returned.push_back({segment, at});
  return to;
}

WorkerPollReply MessageOf(const dispatch::WorkerOrders& from) {
  WorkerPollReply to{.service = from.service,
                     .version = from.version,
                     .poll_within_us = absl::ToInt64Microseconds(from.poll_within)};
  for (const dispatch::WorkerTask& task : from.tasks) {
    WorkerTask& added = to.tasks.emplace_back(WorkerTask{.task = task.task.value(),
                                                         .iteration = task.iteration.value(),
                                                         .dataset = task.dataset.value()});
    if (task.starting_round >= 0) added.starting_round = task.starting_round;
  }
  for (const dispatch::DatasetId dataset : from.resolve) to.resolve.push_back(dataset.value());
  return to;
}

}  // namespace

absl::StatusOr<dispatch::OpenIteration> EventOf(OpenIteration& from, CallId call) {
  auto spec = SpecOf(from.spec);
  if (!spec.ok()) return spec.status();
  std::optional<dispatch::ReadingPlace> place;
  if (from.from) place = PlaceOf(*from.from);
  return dispatch::OpenIteration{.call = call,
                                 .spec = *std::move(spec),
                                 .consumer = std::move(from.consumer),
                                 .life = dispatch::ConsumerLife(from.life),
                                 .index = from.index.value_or(-1),
                                 .have = AcksOf(from.have),
                                 .from = place,
                                 .host = std::move(from.host),
                                 .pid = from.pid,
                                 .machine = std::move(from.machine),
                                 .started = from.started,
                                 .member = from.member};
}

absl::StatusOr<dispatch::ConsumerPoll> EventOf(ConsumerPoll& from, CallId call) {
  dispatch::ConsumerPoll to;
  to.call = call;
  to.iteration = dispatch::IterationId(from.iteration);
  to.consumer = dispatch::ConsumerId(from.consumer);
  to.life = dispatch::ConsumerLife(from.life);
  to.number = from.number;
  to.service = from.service;
  to.after = from.after;
  to.wait = DurationOf(from.wait_us);
  to.acks = AcksOf(from.acks);
  for (const LaneProgress& one : from.progress) {
    to.progress.push_back({dispatch::LaneId(one.lane), one.seq, one.needs});
  }
  for (const SegmentCount& one : from.counts) {
    to.counts.push_back({dispatch::LaneId(one.lane), one.seq, one.elements});
  }
  for (const uint64_t worker : from.unreachable) {
    to.unreachable.push_back(dispatch::WorkerId(worker));
  }
  for (const SegmentFailure& one : from.failures) {
    to.failures.push_back({.lane = dispatch::LaneId(one.lane),
                           .seq = one.seq,
                           .segment = one.segment,
                           .worker = dispatch::WorkerId(one.worker),
                           .error = ErrorOf(one.error)});
  }
  to.round = from.round;
  to.blocked_round = from.blocked_round;
  to.finished = from.finished;
  to.end = PlaceOf(from.end);
  to.waits_for = std::move(from.waits_for);
  to.element_time = DurationOf(from.element_time_us);
  to.handed_before = from.handed_before;
  to.unacknowledged = from.unacknowledged;
  to.unacknowledged_bytes = from.unacknowledged_bytes;
  to.has_all = from.has_all;
  to.keeps_cursors = from.keeps_cursors;
  return to;
}

absl::StatusOr<dispatch::CloseConsumer> EventOf(CloseConsumer& from, CallId call) {
  return dispatch::CloseConsumer{.call = call,
                                 .iteration = dispatch::IterationId(from.iteration),
                                 .consumer = dispatch::ConsumerId(from.consumer),
                                 .life = dispatch::ConsumerLife(from.life),
                                 .acks = AcksOf(from.acks),
                                 .round = from.round,
                                 .finished = from.finished,
                                 .end = PlaceOf(from.end)};
}

absl::StatusOr<dispatch::WorkerPoll> EventOf(WorkerPoll& from, CallId call) {
  dispatch::WorkerPoll to;
  to.call = call;
  to.worker = dispatch::WorkerId(from.worker);
  to.version = from.version;
  to.address = std::move(from.address);
  to.host_card = std::move(from.host_card.data);
  to.tags = std::move(from.tags);
  to.host = std::move(from.host);
  to.pid = from.pid;
  to.service = from.service;
  to.after = from.after;
  to.wait = DurationOf(from.wait_us);
  for (ResolveReport& report : from.resolved) {
    to.resolved.push_back({.dataset = dispatch::DatasetId(report.dataset),
                           .manifest = std::move(report.manifest.data),
                           .files = report.files,
                           .error = ErrorOf(report.error)});
  }
  for (const ProcessingTime& time : from.times) {
    to.times.push_back(
        {dispatch::DatasetId(time.dataset), absl::Nanoseconds(time.element_time_ns)});
  }
  to.leaving = from.leaving;
  return to;
}

std::string EncodeAnswer(const dispatch::Answer& answer) {
  return std::visit(
      [](const auto& from) -> std::string {
        using T = std::decay_t<decltype(from)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return {};
        } else if constexpr (std::is_same_v<T, dispatch::ConsumerClosed>) {
          return Encode(CloseConsumerReply{});
        } else if constexpr (std::is_same_v<T, dispatch::DatasetRegistered>) {
          // What else belongs to it is the shell's to add.
          return Encode(RegisterDatasetReply{.dataset = from.dataset.value(), .name = from.name});
        } else if constexpr (std::is_same_v<T, dispatch::DatasetGiven>) {
          return Encode(GetDatasetReply{.dataset = from.dataset.value(),
                                        .name = from.name,
                                        .identity = from.identity,
                                        .definition = {from.definition},
                                        .element_spec = from.element_spec,
                                        .needs_manifest = from.needs_manifest,
                                        .resolved = from.resolved,
                                        .manifest = {from.manifest}});
        } else if constexpr (std::is_same_v<T, dispatch::IterationOpened>) {
          OpenIterationReply reply{.iteration = from.iteration.value(),
                                   .consumer = from.consumer.value(),
                                   .name = from.name,
                                   .lease_had_ended = from.lease_had_ended,
                                   .counted = MessagesOf(from.counted)};
          if (from.index >= 0) reply.index = from.index;
          return Encode(reply);
        } else {
          return Encode(MessageOf(from));
        }
      },
      answer);
}

absl::Status StatusOf(const dispatch::Error& error) {
  return WithReason(absl::Status(error.code, error.message), error.reason);
}

IterationSpec MessageOf(const dispatch::IterationSpec& from) {
  return {.name = ToUtf8(from.name),
          .repetition = from.repetition,
          .dataset = from.dataset.value(),
          .mode = static_cast<ReadingMode>(from.mode),
          .sharding = static_cast<DataSharding>(from.sharding),
          .visitation = static_cast<DataVisitation>(from.visitation),
          .consumers = from.consumers,
          .shares = from.shares,
          .worker_addresses = from.worker_addresses,
          .cursor = {from.cursor},
          .on_lost = static_cast<DataOnLost>(from.on_lost)};
}

OpenIteration MessageOf(const dispatch::OpenIteration& from) {
  OpenIteration to{.spec = MessageOf(from.spec),
                   .consumer = ToUtf8(from.consumer),
                   .life = from.life.value(),
                   .have = MessagesOf(from.have),
                   .host = ToUtf8(from.host),
                   .pid = from.pid,
                   .machine = ToUtf8(from.machine),
                   .started = from.started,
                   .member = from.member};
  if (from.index >= 0) to.index = from.index;
  if (from.from) to.from = MessageOf(*from.from);
  return to;
}

ConsumerPoll MessageOf(const dispatch::ConsumerPoll& from) {
  ConsumerPoll to{.iteration = from.iteration.value(),
                  .consumer = from.consumer.value(),
                  .life = from.life.value(),
                  .number = from.number,
                  .service = from.service,
                  .after = from.after,
                  .wait_us = absl::ToInt64Microseconds(from.wait),
                  .acks = MessagesOf(from.acks),
                  .round = from.round,
                  .blocked_round = from.blocked_round,
                  .finished = from.finished,
                  .waits_for = ToUtf8(from.waits_for),
                  .element_time_us = absl::ToInt64Microseconds(from.element_time),
                  .end = MessageOf(from.end),
                  .handed_before = from.handed_before,
                  .unacknowledged = from.unacknowledged,
                  .unacknowledged_bytes = from.unacknowledged_bytes,
                  .has_all = from.has_all,
                  .keeps_cursors = from.keeps_cursors};
  for (const auto& one : from.progress)
    to.progress.push_back({one.lane.value(), one.seq, one.needs});
  for (const auto& one : from.counts) {
    to.counts.push_back({one.lane.value(), one.seq, one.elements});
  }
  for (const auto worker : from.unreachable) to.unreachable.push_back(worker.value());
  for (const auto& one : from.failures) {
    to.failures.push_back({.lane = one.lane.value(),
                           .seq = one.seq,
                           .segment = one.segment,
                           .worker = one.worker.value(),
                           .error = MessageOf(one.error)});
  }
  return to;
}

CloseConsumer MessageOf(const dispatch::CloseConsumer& from) {
  return {.iteration = from.iteration.value(),
          .consumer = from.consumer.value(),
          .life = from.life.value(),
          .acks = MessagesOf(from.acks),
          .round = from.round,
          .finished = from.finished,
          .end = MessageOf(from.end)};
}

absl::StatusOr<dispatch::IterationOpened> AnswerOf(OpenIterationReply& from) {
  return dispatch::IterationOpened{.iteration = dispatch::IterationId(from.iteration),
                                   .consumer = dispatch::ConsumerId(from.consumer),
                                   .name = std::move(from.name),
                                   .index = from.index.value_or(-1),
                                   .lease_had_ended = from.lease_had_ended,
                                   .counted = AcksOf(from.counted)};
}

absl::StatusOr<dispatch::Assignment> AnswerOf(ConsumerPollReply& from) {
  if (!IsKnown(from.phase)) return Unknown("the phase of the iteration");
  dispatch::Assignment to;
  to.service = from.service;
  to.version = from.version;
  to.phase = static_cast<dispatch::Phase>(from.phase);
  to.error = ErrorOf(from.error);
  for (const DataLane& lane : from.lanes) to.lanes.push_back(LaneOf(lane));
  for (WorkerAddress& worker : from.workers) {
    to.workers.push_back({.worker = dispatch::WorkerId(worker.worker),
                          .address = std::move(worker.address),
                          .host_card = std::move(worker.host_card.data)});
  }
  to.block_round = from.block_round;
  for (const RoundSeating& seating : from.seatings) {
    to.seatings.push_back({.first_round = seating.first_round,
                           .consumers = seating.consumers,
                           .index = seating.index.value_or(-1)});
  }
  to.next_segment = from.next_segment;
  to.waits_for = std::move(from.waits_for);
  to.rest_is_own = from.rest_is_own;
  to.ack_needed = std::move(from.ack_needed);
  for (const ReturnedSegment& one : from.returned) to.returned.emplace_back(one.segment, one.from);
  return to;
}

dispatch::ErrorPtr ErrorOf(const absl::Status& status) {
  return dispatch::MakeError(status.code(), ReasonOf(status), std::string(status.message()));
}

DataError MessageOf(const dispatch::ErrorPtr& error) {
  if (error == nullptr) return {};
  return {.code = static_cast<int32_t>(error->code),
          .reason = ToUtf8(error->reason),
          .message = {error->message}};
}

dispatch::ErrorPtr ErrorOf(const std::optional<DataError>& from) {
  if (!from || from->code == 0) return nullptr;
  const int code = from->code;
  const bool known = code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  return dispatch::MakeError(
      known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown, from->reason,
      from->message.data);
}

}  // namespace lockstep::wire::native
