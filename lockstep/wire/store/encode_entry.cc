#include <utility>

#include "absl/strings/string_view.h"
#include "lockstep/base/limits.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/store/entry.h"
#include "lockstep/wire/store/records_messages.h"

namespace lockstep::wire::store {
namespace {

namespace record = coord::record;

// Fields of Entry and Record, as they are listed in messages.h; a test compares.
constexpr uint32_t kRecordsField = 5;
constexpr uint32_t kEventsField = 8;
constexpr uint32_t kAgeField = 1;

void PutVarint(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

Bytes BytesOf(SessionId session) {
  if (session.none()) return {};
  Bytes bytes;
  for (const uint64_t half : {session.high, session.low}) {
    for (int shift = 56; shift >= 0; shift -= 8) {
      bytes.data.push_back(static_cast<char>(half >> shift));
    }
  }
  return bytes;
}

std::optional<Error> ErrorOf(const coord::ErrorPtr& error) {
  if (error == nullptr) return std::nullopt;
  Error out{.code = static_cast<int32_t>(error->code),
            .reason = std::string(coord::ReasonName(error->reason)),
            .message = {error->message},
            .from_service = error->from_service,
            .reported = error->reported};
  if (error->origin) out.origin = error->origin->value();
  if (error->barrier) {
    out.barrier_id = Bytes{error->barrier->id};
    out.barrier_counter = error->barrier->counter;
  }
  if (error->right_service) out.right_service = error->right_service->value();
  out.missing = {error->missing};
  return out;
}

std::vector<int32_t> IndicesOf(const std::vector<MemberIndex>& members) {
  std::vector<int32_t> indices;
  indices.reserve(members.size());
  for (const MemberIndex member : members) indices.push_back(member.value());
  return indices;
}

AttemptBegan MessageOf(const record::AttemptBegan& from) {
  return {.attempt = from.attempt, .service = from.service.value()};
}
AttemptRuns MessageOf(const record::AttemptRuns&) { return {}; }
AttemptFailed MessageOf(const record::AttemptFailed& from) {
  return {.root_cause = ErrorOf(from.root_cause)};
}
ShutdownEnded MessageOf(const record::ShutdownEnded& from) {
  return {.verdict = ErrorOf(from.verdict)};
}

MemberChanged MessageOf(const record::MemberChanged& from) {
  MemberChanged to{.member = from.member.value(),
                   .state = static_cast<MemberState>(from.state),
                   .incarnation = from.incarnation.value(),
                   .life = from.life,
                   .error = ErrorOf(from.error),
                   .left = from.left,
                   .recoverable = from.recoverable,
                   .role = {from.role},
                   .peer = {from.peer},
                   .host = {from.host},
                   .pid = from.pid,
                   .session = BytesOf(from.session)};
  for (const auto& [name, value] : from.labels) to.labels.push_back({{name}, {value}});
  return to;
}

ProcessChanged MessageOf(const record::ProcessChanged& from) {
  return {.member = from.member.value(),
          .host = {from.host},
          .pid = from.pid,
          .running = from.running,
          .stopped = from.stopped,
          .left_out = from.left_out,
          .failed = from.failed,
          .newer = from.newer,
          .former = from.former};
}

ErrorKept MessageOf(const record::ErrorKept& from) {
  return {.code = static_cast<int32_t>(from.code),
          .reason = std::string(coord::ReasonName(from.reason)),
          .message = {from.message},
          .origin = {from.origin},
          .consequence = from.consequence,
          .attempt = from.attempt};
}

KeySet MessageOf(const record::KeySet& from) {
  KeySet to{.key = {from.key}, .revision = from.revision, .value = {from.value}};
  if (from.ttl != absl::InfiniteDuration()) to.ttl_ns = absl::ToInt64Nanoseconds(from.ttl);
  if (from.owner) to.owner = from.owner->value();
  return to;
}

KeyDeleted MessageOf(const record::KeyDeleted& from) {
  return {.key = {from.key}, .below = from.below, .revision = from.revision};
}

BarrierEnded MessageOf(const record::BarrierEnded& from) {
  BarrierEnded to{.id = {from.id},
                  .counter = from.counter,
                  .members = IndicesOf(from.members),
                  .verdict = ErrorOf(from.verdict),
                  .has_values = from.values != nullptr,
                  .values_forgotten = from.values_forgotten};
  if (from.values == nullptr) return to;
  for (const coord::MemberValue& value : *from.values) {
    to.values.push_back({.member = value.member.value(), .value = {value.value}});
  }
  return to;
}

IndexAgreed MessageOf(const record::IndexAgreed& from) {
  return {.name = {from.name},
          .counter = from.counter,
          .members = IndicesOf(from.members),
          .verdict = ErrorOf(from.verdict),
          .index = from.index};
}

SessionChanged MessageOf(const record::SessionChanged& from) {
  return {.session = BytesOf(from.session), .open = from.open};
}

AnswerKept MessageOf(const record::AnswerKept& from) {
  return {.session = BytesOf(from.session),
          .number = from.number,
          .revision = from.revision,
          .deleted = from.deleted,
          .result = from.result,
          .swapped = from.swapped,
          .key = {from.key},
          .through = from.through};
}

std::optional<int64_t> In(Time from, Time then) {
  if (then.is_infinite()) return std::nullopt;
  return absl::ToInt64Nanoseconds(then - from);
}

PreemptionChanged MessageOf(const record::PreemptionChanged& from) {
  const coord::PreemptionState& state = *from.state;
  PreemptionChanged to{.version = state.version,
                       .id = state.id,
                       .phase = static_cast<int32_t>(state.phase) + 1,
                       .round = state.round,
                       .sync_step = state.sync_step,
                       .withdrawn = state.withdrawn,
                       .outcome = static_cast<int32_t>(state.outcome) + 1,
                       .text = {state.text},
                       .death_in_ns = In(from.at, state.death),
                       .since_in_ns = In(from.at, state.since).value_or(0)};
  for (const coord::PreemptionNotice& notice : state.notices) {
    to.notices.push_back({.source = {notice.source},
                          .event = {notice.event},
                          .subjects = IndicesOf(notice.subjects),
                          .death_in_ns = In(from.at, notice.death),
                          .text = {notice.text}});
  }
  return to;
}

SyncMemberChanged MessageOf(const record::SyncMemberChanged& from) {
  return {.member = from.member.value(),
          .state = static_cast<int32_t>(from.state) + 1,
          .step = from.step,
          .text = {from.text}};
}

OwnerGone MessageOf(const record::OwnerGone& from) { return {.member = from.member.value()}; }

// The field of Record that holds such a message.
template <class Message>
constexpr uint32_t FieldOf() {
  uint32_t number = 0;
  native::ForEachField<Record>([&](const auto& field) {
    using T = typename std::decay_t<decltype(field)>::Type;
    if constexpr (std::is_same_v<T, std::optional<Message>>) number = field.number;
  });
  return number;
}

// Field by field, and not as one Record, most of which would be empty: values are long, and there
// are many records.
void PutRecord(const coord::Record& record, int64_t age_ns, std::string& out) {
  std::visit(
      [&](const auto& of) {
        const auto message = MessageOf(of);
        constexpr uint32_t kField = FieldOf<std::decay_t<decltype(message)>>();
        static_assert(kField != 0, "a record without a field in Record");
        std::string age;
        if (age_ns != 0) {
          PutVarint(kAgeField << 3, age);
          PutVarint(static_cast<uint64_t>(age_ns), age);
        }
        PutVarint(kRecordsField << 3 | 2, out);
        PutVarint(age.size() + native::EncodedFieldSize(kField, message), out);
        out += age;
        native::EncodeFieldTo(kField, message, out);
      },
      record);
}

void PutHead(const std::string& job, absl::Time wall, std::string& out) {
  native::EncodeTo(Entry{.job = job, .wall_us = absl::ToUnixMicros(wall)}, out);
}

}  // namespace

size_t EncodeRecords(const std::string& job, absl::Time wall,
                     absl::Span<const coord::Record> records, std::string& out) {
  PutHead(job, wall, out);
  size_t put = 0;
  while (put < records.size() && out.size() < kEntryBytesSoftMax) {
    PutRecord(records[put++], 0, out);
  }
  return put;
}

size_t EncodeRecords(const std::string& job, const Moment& now,
                     absl::Span<const coord::TimedRecord> records, std::string& out) {
  PutHead(job, now.wall, out);
  size_t put = 0;
  while (put < records.size() && out.size() < kEntryBytesSoftMax) {
    const coord::TimedRecord& timed = records[put++];
    PutRecord(timed.record, std::max<int64_t>(0, absl::ToInt64Nanoseconds(now.now - timed.at)),
              out);
  }
  return put;
}

void AppendEvents(absl::Span<const native::JobEvent> events, std::string& out) {
  for (const native::JobEvent& event : events) {
    native::EncodeFieldTo(kEventsField,
                          EventKept{.at_unix_us = event.at_unix_us,
                                    .kind = static_cast<int32_t>(event.kind),
                                    .severity = static_cast<int32_t>(event.severity),
                                    .attempt = event.attempt,
                                    .member = {event.member},
                                    .text = {event.text.substr(0, kErrorTextBytesMax)}},
                          out);
  }
}

void EncodeJob(const Job& job, absl::Time wall, std::string& out) {
  JobCreated created{.name = job.name,
                     .size = job.size,
                     .recoverable = job.recoverable,
                     .temporary = job.temporary,
                     .host = job.host,
                     .port = job.port,
                     .incarnation_seed = job.incarnation_seed};
  for (const coord::RoleOptions& role : job.roles) created.roles.push_back({role.name, role.size});
  native::EncodeTo(
      Entry{
          .job = job.name, .wall_us = absl::ToUnixMicros(wall), .job_created = std::move(created)},
      out);
}

void EncodeJobDeleted(const std::string& name, absl::Time wall, std::string& out) {
  native::EncodeTo(
      Entry{.job = name, .wall_us = absl::ToUnixMicros(wall), .job_deleted = JobDeleted{}}, out);
}

}  // namespace lockstep::wire::store
