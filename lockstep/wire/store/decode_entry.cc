#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/base/limits.h"
#include "lockstep/wire/native/codec.h"
#include "lockstep/wire/native/utf8.h"
#include "lockstep/wire/store/data_entry.h"
#include "lockstep/wire/store/entry.h"
#include "lockstep/wire/store/records_messages.h"
#include "lockstep/wire/store/torch_entry.h"

namespace lockstep::wire::store {
namespace {

namespace record = coord::record;

constexpr size_t kSessionBytes = 16;
static_assert(kSessionBytes == sizeof(SessionId::high) + sizeof(SessionId::low));

// What is found wrong, or nothing; the first one counts.
class Problem {
 public:
  void Say(std::string what) {
    if (what_.empty()) what_ = std::move(what);
  }
  absl::Status status() const {
    return what_.empty() ? absl::OkStatus() : absl::InvalidArgumentError(what_);
  }

 private:
  std::string what_;
};

coord::Reason ReasonOf(const std::string& name, Problem& problem) {
  for (int i = 0; i <= static_cast<int>(coord::kLastReason); ++i) {
    if (coord::ReasonName(static_cast<coord::Reason>(i)) == name) {
      return static_cast<coord::Reason>(i);
    }
  }
  problem.Say(
      absl::StrCat("this program does not know the reason '", name, "': a newer version wrote it"));
  return coord::Reason::kInvalidArgument;
}

SessionId SessionOf(const Bytes& bytes, Problem& problem) {
  SessionId session;
  if (bytes.data.empty()) return session;
  if (bytes.data.size() != kSessionBytes) {
    problem.Say(absl::StrFormat("a session of %d bytes", bytes.data.size()));
    return session;
  }
  for (size_t i = 0; i < kSessionBytes; ++i) {
    uint64_t& half = i < kSessionBytes / 2 ? session.high : session.low;
    half = half << 8 | static_cast<uint8_t>(bytes.data[i]);
  }
  return session;
}

coord::ErrorPtr ErrorOf(std::optional<Error>& error, Problem& problem) {
  if (!error) return nullptr;
  coord::Error out{.code = static_cast<absl::StatusCode>(error->code),
                   .reason = ReasonOf(error->reason, problem),
                   .message = std::move(error->message.data),
                   .from_service = error->from_service,
                   .reported = error->reported};
  if (error->origin) out.origin = MemberIndex(*error->origin);
  if (error->barrier_id) out.barrier = {std::move(error->barrier_id->data), error->barrier_counter};
  if (error->right_service) out.right_service = ServiceIncarnation(*error->right_service);
  out.missing = std::move(error->missing.data);
  return coord::MakeError(std::move(out));
}

std::vector<MemberIndex> MembersOf(const std::vector<int32_t>& indices) {
  std::vector<MemberIndex> members;
  members.reserve(indices.size());
  for (const int32_t index : indices) members.push_back(MemberIndex(index));
  return members;
}

coord::Record RecordOf(AttemptBegan& from, Problem&) {
  return record::AttemptBegan{from.attempt, ServiceIncarnation(from.service)};
}
coord::Record RecordOf(AttemptRuns&, Problem&) { return record::AttemptRuns{}; }
coord::Record RecordOf(AttemptFailed& from, Problem& problem) {
  return record::AttemptFailed{ErrorOf(from.root_cause, problem)};
}
coord::Record RecordOf(ShutdownEnded& from, Problem& problem) {
  return record::ShutdownEnded{ErrorOf(from.verdict, problem)};
}

coord::Record RecordOf(MemberChanged& from, Problem& problem) {
  if (from.state < MemberState::kDisconnected || from.state > MemberState::kError) {
    problem.Say("a member in a state that this program does not know");
  }
  record::MemberChanged to{.member = MemberIndex(from.member),
                           .state = static_cast<coord::MemberState>(from.state),
                           .incarnation = Incarnation(from.incarnation),
                           .life = from.life,
                           .error = ErrorOf(from.error, problem),
                           .left = from.left,
                           .recoverable = from.recoverable,
                           .role = std::move(from.role.data),
                           .peer = std::move(from.peer.data),
                           .host = std::move(from.host.data),
                           .pid = from.pid,
                           .session = SessionOf(from.session, problem)};
  for (Label& label : from.labels) {
    to.labels.emplace_back(std::move(label.name.data), std::move(label.value.data));
  }
  return to;
}

coord::Record RecordOf(ProcessChanged& from, Problem&) {
  return record::ProcessChanged{.member = MemberIndex(from.member),
                                .host = std::move(from.host.data),
                                .pid = from.pid,
                                .running = from.running,
                                .stopped = from.stopped,
                                .left_out = from.left_out,
                                .failed = from.failed,
                                .newer = from.newer,
                                .former = from.former};
}

coord::Record RecordOf(ErrorKept& from, Problem& problem) {
  return record::ErrorKept{.code = static_cast<absl::StatusCode>(from.code),
                           .reason = ReasonOf(from.reason, problem),
                           .message = std::move(from.message.data),
                           .origin = std::move(from.origin.data),
                           .consequence = from.consequence,
                           .attempt = from.attempt};
}

coord::Record RecordOf(KeySet& from, Problem&) {
  record::KeySet to{.key = std::move(from.key.data),
                    .value = std::move(from.value.data),
                    .revision = from.revision};
  if (to.value == nullptr) to.value = std::make_shared<const std::string>();
  if (from.ttl_ns) to.ttl = absl::Nanoseconds(*from.ttl_ns);
  if (from.owner) to.owner = MemberIndex(*from.owner);
  return to;
}

coord::Record RecordOf(KeyDeleted& from, Problem&) {
  return record::KeyDeleted{std::move(from.key.data), from.below, from.revision};
}

coord::Record RecordOf(BarrierEnded& from, Problem& problem) {
  record::BarrierEnded to{.id = std::move(from.id.data),
                          .counter = from.counter,
                          .members = MembersOf(from.members),
                          .verdict = ErrorOf(from.verdict, problem),
                          .values_forgotten = from.values_forgotten};
  if (!from.has_values) return to;
  auto values = std::make_shared<std::vector<coord::MemberValue>>();
  for (MemberValue& value : from.values) {
    values->push_back({MemberIndex(value.member), std::move(value.value.data)});
  }
  to.values = std::move(values);
  return to;
}

coord::Record RecordOf(IndexAgreed& from, Problem& problem) {
  return record::IndexAgreed{.name = std::move(from.name.data),
                             .counter = from.counter,
                             .members = MembersOf(from.members),
                             .verdict = ErrorOf(from.verdict, problem),
                             .index = from.index};
}

coord::Record RecordOf(SessionChanged& from, Problem& problem) {
  return record::SessionChanged{SessionOf(from.session, problem), from.open};
}

coord::Record RecordOf(AnswerKept& from, Problem& problem) {
  return record::AnswerKept{.session = SessionOf(from.session, problem),
                            .number = from.number,
                            .revision = from.revision,
                            .deleted = from.deleted,
                            .result = from.result,
                            .swapped = from.swapped,
                            .key = std::move(from.key.data),
                            .through = from.through};
}

// Of an enum that begins with 1 here, and with 0 there.
template <class Enum>
Enum EnumOf(int32_t number, Enum last, std::string_view what, Problem& problem) {
  if (number < 1 || number > static_cast<int32_t>(last) + 1) {
    problem.Say(absl::StrFormat("%s %d, which this program does not know", what, number));
    return Enum{};
  }
  return static_cast<Enum>(number - 1);
}

// Counted from the beginning of time, which is when the record says that it was made.
Time TimeOf(const std::optional<int64_t>& in_ns) {
  return in_ns ? Time::FromNanoseconds(*in_ns) : Time::Infinite();
}

coord::Record RecordOf(PreemptionChanged& from, Problem& problem) {
  auto state = std::make_shared<coord::PreemptionState>();
  state->version = from.version;
  state->id = from.id;
  state->phase =
      EnumOf(from.phase, coord::PreemptionPhase::kEnded, "a preemption in phase", problem);
  state->round = from.round;
  state->sync_step = from.sync_step;
  state->withdrawn = from.withdrawn;
  state->outcome = EnumOf(from.outcome, coord::PreemptionOutcome::kNobodyAnswered,
                          "a preemption with outcome", problem);
  state->text = std::move(from.text.data);
  state->death = TimeOf(from.death_in_ns);
  state->since = Time::FromNanoseconds(from.since_in_ns);
  for (PreemptionNotice& notice : from.notices) {
    state->notices.push_back({.source = std::move(notice.source.data),
                              .event = std::move(notice.event.data),
                              .subjects = MembersOf(notice.subjects),
                              .death = TimeOf(notice.death_in_ns),
                              .text = std::move(notice.text.data)});
  }
  return record::PreemptionChanged{std::move(state), Time()};
}

coord::Record RecordOf(SyncMemberChanged& from, Problem& problem) {
  return record::SyncMemberChanged{
      .member = MemberIndex(from.member),
      .state = EnumOf(from.state, coord::SyncState::kLate, "a preempted member in state", problem),
      .step = from.step,
      .text = std::move(from.text.data)};
}

coord::Record RecordOf(OwnerGone& from, Problem&) {
  return record::OwnerGone{MemberIndex(from.member)};
}

coord::Record RecordOf(Record& from, Problem& problem) {
  int set = 0;
  coord::Record to;
  native::ForEachField<Record>([&](const auto& field) {
    if constexpr (native::IsOptional<typename std::decay_t<decltype(field)>::Type>::value) {
      auto& message = from.*field.member;
      if (!message) return;
      ++set;
      to = RecordOf(*message, problem);
    }
  });
  // None: a kind that was added later.
  if (set != 1) {
    problem.Say(
        absl::StrFormat("a record of %d kinds that this program knows, instead of one: a "
                        "newer version wrote it",
                        set));
  }
  return to;
}

Job JobOf(JobCreated& from, Problem& problem) {
  Job to{.name = std::move(from.name),
         .size = from.size,
         .recoverable = from.recoverable,
         .temporary = from.temporary,
         .host = std::move(from.host),
         .port = static_cast<uint16_t>(from.port),
         .incarnation_seed = from.incarnation_seed};
  if (from.size < 1 || from.size > kMembersMax || from.port < 0 || from.port > 65535) {
    problem.Say(absl::StrFormat("a job of %d members at port %d", from.size, from.port));
  }
  for (RoleSize& role : from.roles) to.roles.push_back({std::move(role.name), role.size});
  return to;
}

// Of a job. What is wrong with them is the job's business alone.
absl::Status ReadJob(Entry& entry, Time written, ReadEntry& read) {
  Problem problem;
  if (entry.job_created) read.created = JobOf(*entry.job_created, problem);
  read.records.reserve(entry.records.size());
  for (Record& record : entry.records) {
    const absl::Duration age = absl::Nanoseconds(std::max<int64_t>(0, record.age_ns));
    read.records.push_back({written - age, RecordOf(record, problem)});
  }
  if (absl::Status status = problem.status(); !status.ok()) return status;
  read.torch.reserve(entry.torch.size());
  for (TorchRecord& from : entry.torch) {
    absl::StatusOr<tcpstore::Record> record = TorchRecordOf(from);
    if (!record.ok()) return record.status();
    read.torch.push_back(*std::move(record));
  }
  for (EventKept& event : entry.events) {
    read.events.push_back({.kind = static_cast<native::EventKind>(event.kind),
                           .severity = static_cast<native::EventSeverity>(event.severity),
                           .attempt = event.attempt,
                           .member = native::ToUtf8(event.member.data),
                           .text = native::ToUtf8(event.text.data),
                           .at_unix_us = event.at_unix_us});
  }
  return absl::OkStatus();
}

// Of the data service.
absl::Status ReadDataOf(Entry& entry, Time written, ReadEntry& read) {
  read.data.reserve(entry.data.size());
  for (DataRecord& from : entry.data) {
    const absl::Duration age = absl::Nanoseconds(std::max<int64_t>(0, from.age_ns));
    absl::StatusOr<ReadData> record = DataRecordOf(from);
    if (!record.ok()) return record.status();
    record->at = written - age;
    read.data.push_back(*std::move(record));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ReadEntry> DecodeEntry(std::string_view bytes, const Moment& now) {
  absl::StatusOr<Entry> entry = native::Decode<Entry>(bytes);
  if (!entry.ok()) return entry.status();
  const absl::Duration ago =
      std::max(absl::ZeroDuration(), now.wall - absl::FromUnixMicros(entry->wall_us));
  const Time written = now.now - ago;
  ReadEntry read{.job = std::move(entry->job),
                 .deleted = entry->job_deleted.has_value(),
                 .of_data = !entry->data.empty()};
  absl::Status status = read.of_data ? ReadDataOf(*entry, written, read)  // there is no job
                                     : ReadJob(*entry, written, read);
  if (status.ok()) return read;
  return ReadEntry{.job = std::move(read.job),
                   .deleted = read.deleted,
                   .of_data = read.of_data,
                   .unfit = std::move(status)};
}

}  // namespace lockstep::wire::store
