#include "lockstep/wire/store/data_entry.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_format.h"
#include "lockstep/base/limits.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/store/records_messages.h"

namespace lockstep::wire::store {
namespace {

namespace record = dispatch::record;

// Of Entry, as it is listed in messages.h; a test compares.
constexpr uint32_t kDataField = 6;

using dispatch::ConsumerId;
using dispatch::ConsumerLife;
using dispatch::DatasetId;
using dispatch::IterationId;
using dispatch::LaneId;
using dispatch::TaskId;

// --- To messages ---

std::optional<DataError> ErrorOf(const dispatch::ErrorPtr& error) {
  if (error == nullptr) return std::nullopt;
  return DataError{.code = static_cast<int32_t>(error->code),
                   .reason = error->reason,
                   .message = {error->message}};
}

DataCountersKept MessageOf(const record::CountersKept& from) { return {.next_id = from.next_id}; }
DatasetRegistered MessageOf(const record::DatasetRegistered& from) {
  return {.dataset = from.dataset.value(),
          .name = {from.name},
          .identity = from.identity,
          .definition = {from.definition},
          .element_spec = {from.element_spec},
          .needs_manifest = from.needs_manifest};
}
DatasetResolved MessageOf(const record::DatasetResolved& from) {
  return {.dataset = from.dataset.value(), .manifest = {from.manifest}};
}
DatasetRetired MessageOf(const record::DatasetRetired& from) {
  return {.dataset = from.dataset.value()};
}
DatasetForgotten MessageOf(const record::DatasetForgotten& from) {
  return {.dataset = from.dataset.value()};
}
IterationOpened MessageOf(const record::IterationOpened& from) {
  IterationOpened to{.iteration = from.iteration.value(),
                     .name = {from.spec.name},
                     .repetition = from.spec.repetition,
                     .dataset = from.spec.dataset.value(),
                     .mode = static_cast<int32_t>(from.spec.mode),
                     .sharding = static_cast<int32_t>(from.spec.sharding),
                     .visitation = static_cast<int32_t>(from.spec.visitation),
                     .consumers = from.spec.consumers,
                     .shares = from.spec.shares,
                     .cursor = {from.spec.cursor},
                     .on_lost = static_cast<int32_t>(from.spec.on_lost)};
  for (const std::string& address : from.spec.worker_addresses) {
    to.worker_addresses.push_back({address});
  }
  return to;
}
IterationStarted MessageOf(const record::IterationStarted& from) {
  return {.iteration = from.iteration.value()};
}
ReadingPlace PlaceOf(const dispatch::ReadingPlace& from) {
  return {.elements = from.elements, .round = from.round, .turns = from.turns};
}
dispatch::ReadingPlace PlaceOf(const ReadingPlace& from) {
  return {.elements = from.elements, .round = from.round, .turns = from.turns};
}
IterationEnded MessageOf(const record::IterationEnded& from) {
  return {.iteration = from.iteration.value(), .error = ErrorOf(from.error)};
}
IterationCollected MessageOf(const record::IterationCollected& from) {
  return {.iteration = from.iteration.value()};
}
ConsumerJoined MessageOf(const record::ConsumerJoined& from) {
  ConsumerJoined to{.iteration = from.iteration.value(),
                    .consumer = from.consumer.value(),
                    .name = {from.name},
                    .life = from.life.value(),
                    .host = {from.host},
                    .pid = from.pid,
                    .machine = {from.machine},
                    .started = from.started,
                    .job = {from.job}};
  if (from.index >= 0) to.index = from.index;
  return to;
}
ConsumerReplaced MessageOf(const record::ConsumerReplaced& from) {
  return {.iteration = from.iteration.value(),
          .consumer = from.consumer.value(),
          .life = from.life.value(),
          .host = {from.host},
          .pid = from.pid,
          .machine = {from.machine},
          .started = from.started,
          .name = {from.name},
          .job = {from.job}};
}
ConsumerFinished MessageOf(const record::ConsumerFinished& from) {
  return {.iteration = from.iteration.value(),
          .consumer = from.consumer.value(),
          .end = PlaceOf(from.end)};
}
ConsumerGone MessageOf(const record::ConsumerGone& from) {
  return {.iteration = from.iteration.value(),
          .consumer = from.consumer.value(),
          .lease_ended = from.lease_ended};
}
TaskAdded MessageOf(const record::TaskAdded& from) {
  TaskAdded to{.iteration = from.iteration.value(), .task = from.task.value(), .home = {from.home}};
  if (from.share >= 0) to.share = from.share;
  if (from.starting_round >= 0) to.starting_round = from.starting_round;
  return to;
}
TaskStarted MessageOf(const record::TaskStarted& from) {
  return {.iteration = from.iteration.value(),
          .task = from.task.value(),
          .starting_round = from.starting_round};
}
SeatingAgreed MessageOf(const record::SeatingAgreed& from) {
  SeatingAgreed to{.iteration = from.iteration.value(), .first_round = from.first_round};
  for (const ConsumerId consumer : from.consumers) to.consumers.push_back(consumer.value());
  return to;
}
SegmentGranted MessageOf(const record::Granted& from) {
  return {.iteration = from.iteration.value(),
          .lane = from.lane.value(),
          .task = from.task.value(),
          .seq = from.seq,
          .segment = from.segment,
          .from = from.from};
}
ElementsAcknowledged MessageOf(const record::Acknowledged& from) {
  return {.iteration = from.iteration.value(),
          .lane = from.lane.value(),
          .seq = from.seq,
          .elements = from.elements,
          .done = from.done};
}
LaneTrimmed MessageOf(const record::LaneTrimmed& from) {
  return {.iteration = from.iteration.value(),
          .lane = from.lane.value(),
          .seq = from.seq,
          .first_element = from.first_element};
}
SeatingsTrimmed MessageOf(const record::SeatingsTrimmed& from) {
  return {.iteration = from.iteration.value(), .first_round = from.first_round};
}
LaneClosed MessageOf(const record::LaneClosed& from) {
  return {.iteration = from.iteration.value(), .lane = from.lane.value()};
}
SegmentCounted MessageOf(const record::Counted& from) {
  return {.iteration = from.iteration.value(),
          .lane = from.lane.value(),
          .seq = from.seq,
          .elements = from.elements};
}
PoolKept MessageOf(const record::PoolKept& from) {
  PoolKept to{.iteration = from.iteration.value(), .task = from.task.value(), .next = from.next};
  for (const dispatch::SegmentRest& rest : from.returned) {
    to.returned.push_back({rest.segment, rest.from});
  }
  return to;
}
LaneKept MessageOf(const record::LaneKept& from) {
  return {.iteration = from.iteration.value(),
          .lane = from.lane.value(),
          .task = from.task.value(),
          .next_seq = from.next_seq,
          .first_element = from.first_element,
          .base_round = from.base_round,
          .base_element = from.base_element,
          .closed = from.closed};
}
GrantKept MessageOf(const record::GrantKept& from) {
  GrantKept to{.iteration = from.iteration.value(),
               .lane = from.lane.value(),
               .task = from.task.value(),
               .seq = from.seq,
               .segment = from.segment,
               .from = from.from,
               .acknowledged = from.acknowledged,
               .done = from.done};
  if (from.elements >= 0) to.elements = from.elements;
  return to;
}
DataTotalsKept MessageOf(const record::TotalsKept& from) {
  return {.iteration = from.iteration.value(),
          .segments_done = from.segments_done,
          .elements_done = from.elements_done,
          .segments_dropped = from.segments_dropped};
}
LeaverKept MessageOf(const record::LeaverKept& from) {
  return {.iteration = from.iteration.value(),
          .consumer = from.consumer.value(),
          .name = {from.name},
          .seqs = from.seqs,
          .elements = from.elements};
}
FinishersKept MessageOf(const record::FinishersKept& from) {
  return {.iteration = from.iteration.value(), .indices = from.indices, .end = PlaceOf(from.end)};
}

IterationReopened MessageOf(const record::IterationReopened& from) {
  return {.iteration = from.iteration.value()};
}
LostAwaited MessageOf(const record::LostAwaited& from) {
  return {.iteration = from.iteration.value()};
}
ConsumerAway MessageOf(const record::ConsumerAway& from) {
  return {
      .iteration = from.iteration.value(), .consumer = from.consumer.value(), .ended = from.ended};
}
HistoryReturned MessageOf(const record::HistoryReturned& from) {
  return {.iteration = from.iteration.value(), .round = from.round};
}
PastKept MessageOf(const record::PastKept& from) {
  PastKept to{.iteration = from.iteration.value(), .lane = from.lane.value()};
  for (const dispatch::PastGrant& one : from.grants) {
    to.segments.push_back(one.segment);
    to.froms.push_back(one.from);
    to.elements.push_back(one.elements);
  }
  return to;
}

// Puts the message into the field of DataRecord that has its type.
template <class Message>
void Put(Message message, DataRecord& to) {
  native::ForEachField<DataRecord>([&](const auto& field) {
    using T = typename std::decay_t<decltype(field)>::Type;
    if constexpr (std::is_same_v<T, std::optional<Message>>) to.*field.member = std::move(message);
  });
}

DataRecord MessageOf(const dispatch::Record& from, int64_t age_ns) {
  DataRecord to{.age_ns = age_ns};
  std::visit([&](const auto& of) { Put(MessageOf(of), to); }, from);
  return to;
}

// --- And back ---

// What is found wrong, or nothing; the first one counts.
class Problem {
 public:
  template <class E>
  E EnumOf(int32_t value, E last, std::string_view what) {
    if (value >= 0 && value <= static_cast<int32_t>(last)) return static_cast<E>(value);
    Say(absl::StrFormat("%s %d, which this program does not know: a newer version wrote it", what,
                        value));
    return E{};
  }
  void Say(std::string what) {
    if (what_.empty()) what_ = std::move(what);
  }
  absl::Status status() const {
    return what_.empty() ? absl::OkStatus() : absl::InvalidArgumentError(what_);
  }

 private:
  std::string what_;
};

dispatch::Record RecordOf(DataCountersKept& from, Problem&) {
  return record::CountersKept{from.next_id};
}
dispatch::Record RecordOf(DatasetRegistered& from, Problem&) {
  return record::DatasetRegistered{.dataset = DatasetId(from.dataset),
                                   .name = std::move(from.name.data),
                                   .identity = std::move(from.identity),
                                   .definition = std::move(from.definition.data),
                                   .element_spec = std::move(from.element_spec.data),
                                   .needs_manifest = from.needs_manifest};
}
dispatch::Record RecordOf(DatasetResolved& from, Problem&) {
  return record::DatasetResolved{DatasetId(from.dataset), std::move(from.manifest.data)};
}
dispatch::Record RecordOf(DatasetRetired& from, Problem&) {
  return record::DatasetRetired{DatasetId(from.dataset)};
}
dispatch::Record RecordOf(DatasetForgotten& from, Problem&) {
  return record::DatasetForgotten{DatasetId(from.dataset)};
}
dispatch::Record RecordOf(IterationOpened& from, Problem& problem) {
  record::IterationOpened to{
      .iteration = IterationId(from.iteration),
      .spec = {.name = std::move(from.name.data),
               .repetition = from.repetition,
               .dataset = DatasetId(from.dataset),
               .mode = problem.EnumOf(from.mode, dispatch::Mode::kRounds, "an iteration of mode"),
               .sharding = problem.EnumOf(from.sharding, dispatch::Sharding::kHint,
                                          "an iteration of sharding"),
               .visitation = problem.EnumOf(from.visitation, dispatch::Visitation::kAtMostOnce,
                                            "an iteration of visitation"),
               .consumers = from.consumers,
               .shares = from.shares,
               .cursor = std::move(from.cursor.data),
               .on_lost = problem.EnumOf(from.on_lost, dispatch::OnLost::kGoOn,
                                         "an iteration of on_lost")}};
  for (Bytes& address : from.worker_addresses) {
    to.spec.worker_addresses.push_back(std::move(address.data));
  }
  return to;
}
dispatch::Record RecordOf(IterationStarted& from, Problem&) {
  return record::IterationStarted{IterationId(from.iteration)};
}
dispatch::Record RecordOf(IterationEnded& from, Problem&) {
  record::IterationEnded to{.iteration = IterationId(from.iteration), .error = nullptr};
  if (from.error) {
    to.error = dispatch::MakeError(static_cast<absl::StatusCode>(from.error->code),
                                   from.error->reason, std::move(from.error->message.data));
  }
  return to;
}
dispatch::Record RecordOf(IterationCollected& from, Problem&) {
  return record::IterationCollected{IterationId(from.iteration)};
}
dispatch::Record RecordOf(ConsumerJoined& from, Problem&) {
  return record::ConsumerJoined{.iteration = IterationId(from.iteration),
                                .consumer = ConsumerId(from.consumer),
                                .name = std::move(from.name.data),
                                .life = ConsumerLife(from.life),
                                .index = from.index.value_or(-1),
                                .host = std::move(from.host.data),
                                .pid = from.pid,
                                .machine = std::move(from.machine.data),
                                .started = from.started,
                                .job = std::move(from.job.data)};
}
dispatch::Record RecordOf(ConsumerReplaced& from, Problem&) {
  return record::ConsumerReplaced{.iteration = IterationId(from.iteration),
                                  .consumer = ConsumerId(from.consumer),
                                  .life = ConsumerLife(from.life),
                                  .host = std::move(from.host.data),
                                  .pid = from.pid,
                                  .machine = std::move(from.machine.data),
                                  .started = from.started,
                                  .name = std::move(from.name.data),
                                  .job = std::move(from.job.data)};
}
dispatch::Record RecordOf(ConsumerFinished& from, Problem&) {
  return record::ConsumerFinished{IterationId(from.iteration), ConsumerId(from.consumer),
                                  PlaceOf(from.end)};
}
dispatch::Record RecordOf(ConsumerGone& from, Problem&) {
  return record::ConsumerGone{IterationId(from.iteration), ConsumerId(from.consumer),
                              from.lease_ended};
}
dispatch::Record RecordOf(TaskAdded& from, Problem&) {
  return record::TaskAdded{.iteration = IterationId(from.iteration),
                           .task = TaskId(from.task),
                           .home = std::move(from.home.data),
                           .share = from.share.value_or(-1),
                           .starting_round = from.starting_round.value_or(-1)};
}
dispatch::Record RecordOf(TaskStarted& from, Problem&) {
  return record::TaskStarted{IterationId(from.iteration), TaskId(from.task), from.starting_round};
}
dispatch::Record RecordOf(SeatingAgreed& from, Problem&) {
  record::SeatingAgreed to{.iteration = IterationId(from.iteration),
                           .first_round = from.first_round};
  for (const int64_t consumer : from.consumers) to.consumers.push_back(ConsumerId(consumer));
  return to;
}
dispatch::Record RecordOf(SegmentGranted& from, Problem&) {
  return record::Granted{.iteration = IterationId(from.iteration),
                         .lane = LaneId(from.lane),
                         .task = TaskId(from.task),
                         .seq = from.seq,
                         .segment = from.segment,
                         .from = from.from};
}
dispatch::Record RecordOf(ElementsAcknowledged& from, Problem&) {
  return record::Acknowledged{.iteration = IterationId(from.iteration),
                              .lane = LaneId(from.lane),
                              .seq = from.seq,
                              .elements = from.elements,
                              .done = from.done};
}
dispatch::Record RecordOf(LaneTrimmed& from, Problem&) {
  return record::LaneTrimmed{.iteration = IterationId(from.iteration),
                             .lane = LaneId(from.lane),
                             .seq = from.seq,
                             .first_element = from.first_element};
}
dispatch::Record RecordOf(SeatingsTrimmed& from, Problem&) {
  return record::SeatingsTrimmed{IterationId(from.iteration), from.first_round};
}
dispatch::Record RecordOf(LaneClosed& from, Problem&) {
  return record::LaneClosed{IterationId(from.iteration), LaneId(from.lane)};
}
dispatch::Record RecordOf(SegmentCounted& from, Problem&) {
  return record::Counted{.iteration = IterationId(from.iteration),
                         .lane = LaneId(from.lane),
                         .seq = from.seq,
                         .elements = from.elements};
}
dispatch::Record RecordOf(PoolKept& from, Problem&) {
  record::PoolKept to{
      .iteration = IterationId(from.iteration), .task = TaskId(from.task), .next = from.next};
  for (const SegmentRest& rest : from.returned) to.returned.push_back({rest.segment, rest.from});
  return to;
}
dispatch::Record RecordOf(LaneKept& from, Problem&) {
  return record::LaneKept{.iteration = IterationId(from.iteration),
                          .lane = LaneId(from.lane),
                          .task = TaskId(from.task),
                          .next_seq = from.next_seq,
                          .first_element = from.first_element,
                          .base_round = from.base_round,
                          .base_element = from.base_element,
                          .closed = from.closed};
}
dispatch::Record RecordOf(GrantKept& from, Problem&) {
  return record::GrantKept{.iteration = IterationId(from.iteration),
                           .lane = LaneId(from.lane),
                           .task = TaskId(from.task),
                           .seq = from.seq,
                           .segment = from.segment,
                           .from = from.from,
                           .acknowledged = from.acknowledged,
                           .elements = from.elements.value_or(-1),
                           .done = from.done};
}
dispatch::Record RecordOf(DataTotalsKept& from, Problem&) {
  return record::TotalsKept{.iteration = IterationId(from.iteration),
                            .segments_done = from.segments_done,
                            .elements_done = from.elements_done,
                            .segments_dropped = from.segments_dropped};
}
dispatch::Record RecordOf(LeaverKept& from, Problem&) {
  return record::LeaverKept{.iteration = IterationId(from.iteration),
                            .consumer = ConsumerId(from.consumer),
                            .name = std::move(from.name.data),
                            .seqs = std::move(from.seqs),
                            .elements = std::move(from.elements)};
}
dispatch::Record RecordOf(FinishersKept& from, Problem&) {
  return record::FinishersKept{IterationId(from.iteration), std::move(from.indices),
                               PlaceOf(from.end)};
}

dispatch::Record RecordOf(IterationReopened& from, Problem&) {
  return record::IterationReopened{IterationId(from.iteration)};
}
dispatch::Record RecordOf(LostAwaited& from, Problem&) {
  return record::LostAwaited{IterationId(from.iteration)};
}
dispatch::Record RecordOf(ConsumerAway& from, Problem&) {
  return record::ConsumerAway{IterationId(from.iteration), ConsumerId(from.consumer), from.ended};
}
dispatch::Record RecordOf(HistoryReturned& from, Problem&) {
  return record::HistoryReturned{IterationId(from.iteration), from.round};
}
dispatch::Record RecordOf(PastKept& from, Problem& problem) {
  record::PastKept to{.iteration = IterationId(from.iteration), .lane = LaneId(from.lane)};
  if (from.froms.size() != from.segments.size() || from.elements.size() != from.segments.size()) {
    problem.Say("a lane's past in lists of different lengths");
    return to;
  }
  for (size_t i = 0; i < from.segments.size(); ++i) {
    to.grants.push_back(
        {.segment = from.segments[i], .from = from.froms[i], .elements = from.elements[i]});
  }
  return to;
}

Entry EntryAt(absl::Time wall) { return {.wall_us = absl::ToUnixMicros(wall)}; }

}  // namespace

size_t EncodeDataRecords(absl::Time wall, absl::Span<const dispatch::Record> records,
                         std::string& out) {
  native::EncodeTo(EntryAt(wall), out);
  size_t put = 0;
  while (put < records.size() && out.size() < kEntryBytesSoftMax) {
    native::EncodeFieldTo(kDataField, MessageOf(records[put++], 0), out);
  }
  return put;
}

size_t EncodeDataRecords(const Moment& now, absl::Span<const dispatch::TimedRecord> records,
                         std::string& out) {
  native::EncodeTo(EntryAt(now.wall), out);
  size_t put = 0;
  while (put < records.size() && out.size() < kEntryBytesSoftMax) {
    const dispatch::TimedRecord& one = records[put++];
    const int64_t age = std::max<int64_t>(0, absl::ToInt64Nanoseconds(now.now - one.at));
    native::EncodeFieldTo(kDataField, MessageOf(one.record, age), out);
  }
  return put;
}

absl::StatusOr<ReadData> DataRecordOf(DataRecord& from) {
  int set = 0;
  ReadData to;
  Problem problem;
  native::ForEachField<DataRecord>([&](const auto& field) {
    if constexpr (native::IsOptional<typename std::decay_t<decltype(field)>::Type>::value) {
      auto& message = from.*field.member;
      if (!message) return;
      ++set;
      to.record = RecordOf(*message, problem);
    }
  });
  if (set != 1) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "a record of the data service of %d kinds that this program knows, instead of one: a newer "
        "version wrote it",
        set));
  }
  to.unfit = problem.status();
  return to;
}

}  // namespace lockstep::wire::store
