#include "lockstep/coord/barrier_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {
namespace {

ErrorPtr BarrierError(absl::string_view id, int64_t counter, absl::StatusCode code, Reason reason,
                      std::string text, std::string missing = "") {
  return MakeError(Error{.code = code,
                         .reason = reason,
                         .message = std::move(text),
                         .barrier = BarrierRef{std::string(id), counter},
                         .missing = std::move(missing)});
}

// What a barrier, one whom it lists, and a value cost beside what they hold.
constexpr size_t kBarrierBytes = 640;
constexpr size_t kParticipantBytes = 128;
constexpr size_t kBroughtBytes = 96;

// No id is used so often; a counter beyond it is made up.
constexpr int64_t kCounterMax = int64_t{1} << 62;

// Of those that fail by one member, so many are told of one by one.
constexpr size_t kFailuresToldMax = 10;

// How texts call an instance.
std::string NameOf(absl::string_view id, int64_t counter) {
  return absl::StrCat("barrier '", id, "::", counter, "'");
}

}  // namespace

BarrierTable::BarrierTable(const JobRecord& job, const Membership& membership)
    : job_(job), membership_(membership), everybody_(job.everybody), index_(everybody_) {}

void BarrierTable::Arrive(Time now, const ArriveAtBarrier& request, Effects& out) {
  auto found = barriers_.find(request.id);
  Barrier* barrier = found == barriers_.end() ? nullptr : &found->second;
  if (ErrorPtr error = CheckSizes(barrier, request)) return out.Fail(request.caller.call, error);
  if (IsOver(barrier, request)) {
    ErrorPtr fault = barrier->verdict ? nullptr : CheckMembers(*barrier, request);
    return fault ? out.Fail(request.caller.call, fault) : AnswerKept(*barrier, request, out);
  }

  if (Opens(barrier, request)) {
    if (open_.size() >= job_.options.open_barriers_max) {
      out.Fail(request.caller.call,
               BarrierError(request.id, request.counter - 1, absl::StatusCode::kResourceExhausted,
                            Reason::kLimitExceeded,
                            absl::StrCat(open_.size(),
                                         " barriers are open, which is the limit "
                                         "open_barriers_max; wait for some to end")));
      return;
    }
    Join(Open(now, request, out), request, out);
  } else if (barrier == nullptr) {
    // Nothing is kept of it: a first call with a wrong counter must not spoil the id for others.
    // The counter in the error makes the agent's next call the first.
    out.Fail(
        request.caller.call,
        BarrierError(request.id, -1, absl::StatusCode::kInternal, Reason::kBarrierCounterMismatch,
                     absl::StrCat(NameOf(request.id, request.counter), ": ",
                                  job_.NameWithLife(request.member),
                                  " is the first to come, but with counter ", request.counter,
                                  "; the others likely restarted; restart this member too")));
  } else {
    Join(*barrier, request, out);
  }
  ForgetOldest();
}

bool BarrierTable::IsOver(const Barrier* barrier, const ArriveAtBarrier& request) const {
  if (barrier == nullptr || !barrier->ended) return false;
  if (request.once && !barrier->open && !barrier->verdict) return true;
  return request.caller.native() && barrier->open && request.counter == barrier->counter - 1;
}

void BarrierTable::AnswerKept(const Barrier& barrier, const ArriveAtBarrier& request,
                              Effects& out) const {
  const CallId call = request.caller.call;
  const int64_t counter = barrier.open ? barrier.counter - 1 : barrier.counter;
  if (barrier.verdict) return out.Fail(call, barrier.verdict);
  if (barrier.values_forgotten && request.caller.native()) {
    return out.Fail(
        call, BarrierError(request.id, counter, absl::StatusCode::kDataLoss,
                           Reason::kBarrierValuesForgotten,
                           absl::StrCat(NameOf(request.id, counter),
                                        " has passed, but what its members brought is not kept any "
                                        "more, to stay below kept_barrier_values_bytes_max (",
                                        job_.options.kept_barrier_values_bytes_max,
                                        "); put large values under keys instead")));
  }
  out.Succeed(call, BarrierPassed{counter, barrier.values});
}

ErrorPtr BarrierTable::CheckSizes(const Barrier* barrier, const ArriveAtBarrier& request) const {
  const CoordinatorOptions& options = job_.options;
  auto over = [&](absl::string_view what, absl::string_view limit, size_t value,
                  absl::string_view advice) {
    return MakeError(absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
                     absl::StrCat(what, " is over ", limit, " (", value, "); ", advice));
  };
  // Stock services take an empty one, so stock clients may.
  if (request.id.empty() && request.caller.native()) {
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kInvalidArgument,
                     "a barrier has a name: all who meet there call it the same");
  }
  if (request.id.size() > options.barrier_id_bytes_max) {
    return over(absl::StrCat("a barrier id of ", request.id.size(), " bytes"),
                "barrier_id_bytes_max", options.barrier_id_bytes_max, "use a shorter id");
  }
  if (!request.value) return nullptr;
  if (request.value->size() > options.barrier_value_bytes_max) {
    return over(absl::StrCat("a value of ", request.value->size(), " bytes for ",
                             NameOf(request.id, request.counter)),
                "barrier_value_bytes_max", options.barrier_value_bytes_max,
                "put it under a key instead");
  }
  if (barrier == nullptr || !barrier->open) return nullptr;
  size_t bytes = barrier->brought_bytes + request.value->size();
  if (auto older = barrier->brought.find(request.member); older != barrier->brought.end()) {
    bytes -= older->second.size();
  }
  if (bytes <= options.barrier_values_bytes_max) return nullptr;
  return over(
      absl::StrCat("what the members bring to ", NameOf(request.id, request.counter), ", with the ",
                   request.value->size(), " bytes of ", job_.NameWithLife(request.member), ","),
      "barrier_values_bytes_max", options.barrier_values_bytes_max,
      "put large values under keys instead");
}

bool BarrierTable::Opens(const Barrier* barrier, const ArriveAtBarrier& request) const {
  if (barrier == nullptr)
    return request.counter == 0 || request.once ||
           (forgot_some_ && request.counter > 0 && request.counter < kCounterMax);
  if (barrier->open) return false;
  return request.counter == barrier->counter + 1 ||
         (job_.Recoverable(request.member) && request.counter == 0);
}

BarrierTable::Barrier& BarrierTable::Open(Time now, const ArriveAtBarrier& request, Effects& out) {
  Barrier& barrier = barriers_[request.id];
  if (barrier.ended) {
    ended_.erase(barrier.place);
    ++barrier.counter;
  } else {
    barrier.id = request.id;
    barrier.counter = request.counter;
  }
  ErrorPtr fault = CheckList(barrier, request);
  if (!fault && !barrier.participants) {
    Participants list = ListOf(request);
    fault = CheckListed(barrier, list, request.member);
    if (!fault) barrier.participants = std::move(list);
  }
  // A later use of the id keeps the members of the first; who names others is told so in Join.
  const Time deadline = now + std::max(request.timeout, absl::ZeroDuration());
  barrier.open =
      std::make_unique<Gathering>(fault ? everybody_ : barrier.participants, now, deadline);
  open_.insert(barrier.id);
  index_.Opened(&barrier, barrier.open->participants());
  if (!deadline.is_infinite()) deadlines_.emplace(deadline, barrier.id);

  Count(barrier);
  if (!fault) fault = CheckHealth(barrier);
  if (fault) End(barrier, fault, out);
  return barrier;
}

void BarrierTable::Count(Barrier& barrier) {
  size_t cost = kBarrierBytes + 4 * barrier.id.size();
  if (barrier.participants != nullptr && barrier.participants != everybody_) {
    const size_t each = barrier.open ? kParticipantBytes : sizeof(MemberIndex);
    cost += barrier.participants->size() * each;
  }
  if (barrier.open) cost += barrier.open->size() * sizeof(std::optional<CallId>);
  cost += barrier.brought.size() * kBroughtBytes + barrier.brought_bytes + barrier.values_bytes;
  memory_ += cost - std::exchange(barrier.cost, cost);
}

void BarrierTable::Erase(const std::string& id) {
  const auto found = barriers_.find(id);
  memory_ -= found->second.cost;
  barriers_.erase(found);
}

void BarrierTable::Join(Barrier& barrier, const ArriveAtBarrier& request, Effects& out) {
  const CallId call = request.caller.call;
  ErrorPtr fault = CheckCounter(barrier, request);
  if (!barrier.open) {
    // Over: this caller alone is answered, and what the others were told stands.
    const bool lawless = barrier.participants == nullptr;
    if (!fault && !barrier.verdict && !lawless) fault = CheckMembers(barrier, request);
    if (!fault) fault = barrier.verdict;
    if (fault) return out.Fail(call, fault);
    return AnswerKept(barrier, request, out);
  }

  if (!fault) fault = CheckMembers(barrier, request);
  if (fault) {
    // Members that disagree about a barrier would wait for each other until its timeout, so all of
    // them are told now.
    End(barrier, fault, out);
    out.Fail(call, fault);
    return;
  }
  if (std::optional<CallId> older = barrier.open->Arrive(request.member, call)) {
    calls_.erase(*older);
    out.Fail(*older,
             MakeError(Error{.code = absl::StatusCode::kCancelled,
                             .reason = Reason::kSuperseded,
                             .message = absl::StrCat("there's a more recent barrier call of ",
                                                     job_.NameWithLife(request.member), " for ",
                                                     NameOf(barrier.id, barrier.counter)),
                             .from_service = false}));
  }
  calls_[call] = {&barrier, request.member};
  index_.Waits(request.member, &barrier);
  DropBrought(barrier, request.member);
  if (request.value) {
    barrier.brought_bytes += request.value->size();
    barrier.brought.emplace(request.member, *request.value);
    Count(barrier);
  }
  if (barrier.open->complete()) End(barrier, nullptr, out);
}

Participants BarrierTable::ListOf(const ArriveAtBarrier& request) const {
  return request.members.empty() ? everybody_ : MakeParticipants(request.members);
}

ErrorPtr BarrierTable::CheckList(const Barrier& barrier, const ArriveAtBarrier& request) const {
  for (MemberIndex member : request.members) {
    if (job_.IsMember(member)) continue;
    return BarrierError(
        barrier.id, barrier.counter, absl::StatusCode::kInvalidArgument,
        Reason::kBarrierUnknownMember,
        absl::StrCat(NameOf(barrier.id, barrier.counter), ": ", job_.NameWithLife(request.member),
                     " lists an unexpected task, ", job_.Name(member),
                     ", that is not in the cluster; job '", job_.options.job, "' has ",
                     job_.options.size, " members"));
  }
  return nullptr;
}

ErrorPtr BarrierTable::CheckHealth(const Barrier& barrier) const {
  if (membership_.failed() == 0) return nullptr;
  for (MemberIndex member : *barrier.participants) {
    const Membership::Member& m = membership_.Get(member);
    if (m.state != MemberState::kError || job_.Recoverable(member)) continue;
    return BarrierError(
        barrier.id, barrier.counter, absl::StatusCode::kInternal, Reason::kBarrierMemberFailed,
        absl::StrCat(NameOf(barrier.id, barrier.counter), ": ", job_.Describe(member),
                     " is already in error before the barrier was called: ", m.error->message));
  }
  return nullptr;
}

ErrorPtr BarrierTable::CheckCounter(const Barrier& barrier, const ArriveAtBarrier& request) const {
  if (request.counter == barrier.counter || request.once) return nullptr;
  if (job_.Recoverable(request.member) && request.counter == 0) return nullptr;  // in a new life
  const bool restarted = request.counter == 0 || barrier.counter == 0;
  return BarrierError(
      barrier.id, barrier.counter, absl::StatusCode::kInternal, Reason::kBarrierCounterMismatch,
      absl::StrCat(
          NameOf(barrier.id, barrier.counter), ": ", job_.NameWithLife(request.member),
          " came with counter ", request.counter, "; ",
          restarted ? "one of the tasks has likely restarted, or was too quick / slow"
                    : "one task is way too quick / slow: it went on after a timeout before another "
                      "had come once",
          "; look at the first failure in the logs of both"));
}

ErrorPtr BarrierTable::CheckMembers(const Barrier& barrier, const ArriveAtBarrier& request) const {
  const std::vector<MemberIndex>& expected = *barrier.participants;
  const bool same = request.members.empty() ? expected.size() == everybody_->size()
                                            : request.members == expected ||
                                                  *MakeParticipants(request.members) == expected;
  if (!same) {
    return BarrierError(
        barrier.id, barrier.counter, absl::StatusCode::kInvalidArgument,
        Reason::kBarrierConflictingMembers,
        absl::StrCat("Conflicting tasks specified by different processes for the same barrier: ",
                     NameOf(barrier.id, barrier.counter), " waits for ", job_.NameSome(expected),
                     ", but ", job_.NameWithLife(request.member), " names ",
                     request.members.empty() ? "everybody" : job_.NameSome(*ListOf(request)),
                     "; call it with the same list everywhere"));
  }
  return CheckListed(barrier, barrier.participants, request.member);
}

ErrorPtr BarrierTable::CheckListed(const Barrier& barrier, const Participants& participants,
                                   MemberIndex member) const {
  if (std::binary_search(participants->begin(), participants->end(), member)) return nullptr;
  return BarrierError(barrier.id, barrier.counter, absl::StatusCode::kInvalidArgument,
                      Reason::kBarrierNotParticipant,
                      absl::StrCat("A non-participating task (", job_.NameWithLife(member),
                                   ") called ", NameOf(barrier.id, barrier.counter),
                                   ", which is of ", job_.NameSome(*participants)));
}

void BarrierTable::Cancel(const CancelBarrier& request, Effects& out) {
  const CallId call = request.caller.call;
  auto found = barriers_.find(request.id);
  if (found == barriers_.end()) {
    if (request.counter.value_or(0) == 0) return out.Succeed(call);
  } else if (Barrier& barrier = found->second;
             !request.counter || *request.counter == barrier.counter) {
    if (!barrier.open) {
      return out.Fail(
          call, BarrierError(barrier.id, barrier.counter, absl::StatusCode::kFailedPrecondition,
                             Reason::kBarrierAlreadyPassed,
                             absl::StrCat(NameOf(barrier.id, barrier.counter),
                                          " has already been passed, or failed")));
    }
    End(barrier,
        BarrierError(barrier.id, barrier.counter, absl::StatusCode::kCancelled,
                     Reason::kBarrierCancelled,
                     absl::StrCat(NameOf(barrier.id, barrier.counter), " was cancelled by ",
                                  job_.NameWithLife(request.member), " with ", Progress(barrier))),
        out);
    out.Succeed(call);
    return ForgetOldest();
  }
  const int64_t current = found == barriers_.end() ? -1 : found->second.counter;
  out.Fail(call, BarrierError(request.id, current, absl::StatusCode::kFailedPrecondition,
                              Reason::kBarrierCounterMismatch,
                              absl::StrCat(NameOf(request.id, *request.counter),
                                           " cannot be cancelled: the current counter is ", current,
                                           ", likely due to a restart")));
}

void BarrierTable::MemberGone(MemberIndex member, const ErrorPtr& because, Effects& out) {
  if (job_.Recoverable(member)) return MemberRestarted(member, out);
  const bool left = because->reason == Reason::kMemberLeft;
  size_t told = 0;
  for (Barrier* listing : index_.Listing(member)) {
    Barrier& barrier = *listing;
    End(barrier,
        BarrierError(
            barrier.id, barrier.counter, absl::StatusCode::kInternal,
            left ? Reason::kBarrierMemberLeft : Reason::kBarrierMemberFailed,
            absl::StrCat("Barrier failed because a participant ",
                         left ? "left: " : "is in error: ", NameOf(barrier.id, barrier.counter),
                         " with ", Progress(barrier), "; ", because->message)),
        out, told++ < kFailuresToldMax);
  }
  if (told > kFailuresToldMax) {
    out.Tell(Severity::kWarning,
             absl::StrCat("job '", job_.options.job, "': ", told - kFailuresToldMax,
                          " more barriers failed with ", job_.Describe(member)),
             {NoticeKind::kBarrierFailed, {}});
  }
  ForgetOldest();
}

void BarrierTable::MemberRestarted(MemberIndex member, Effects& out) {
  for (Barrier* waiting : index_.WaitingIn(member)) {
    Barrier& barrier = *waiting;
    const std::optional<CallId> stale = barrier.open->Withdraw(member);
    LOCKSTEP_CHECK(stale.has_value());
    calls_.erase(*stale);
    out.Fail(*stale,
             BarrierError(
                 barrier.id, barrier.counter, absl::StatusCode::kCancelled, Reason::kSuperseded,
                 absl::StrCat(NameOf(barrier.id, barrier.counter), ": ", job_.NameWithLife(member),
                              " failed or restarted while it waited")));
    Withdraw(barrier, member);
  }
}

bool BarrierTable::Forget(CallId call) {
  auto found = calls_.find(call);
  if (found == calls_.end()) return false;
  auto [barrier, member] = found->second;
  calls_.erase(found);
  barrier->open->Withdraw(member);
  Withdraw(*barrier, member);
  return true;
}

// The member's call is withdrawn from the gathering already.
void BarrierTable::Withdraw(Barrier& barrier, MemberIndex member) {
  index_.WaitsNoLonger(member, &barrier);
  DropBrought(barrier, member);
  if (barrier.open->empty()) Abandon(barrier);
}

void BarrierTable::DropBrought(Barrier& barrier, MemberIndex member) {
  auto brought = barrier.brought.find(member);
  if (brought == barrier.brought.end()) return;
  barrier.brought_bytes -= brought->second.size();
  barrier.brought.erase(brought);
  Count(barrier);
}

void BarrierTable::Abandon(Barrier& barrier) {
  open_.erase(barrier.id);
  index_.Closed(&barrier, barrier.open->participants());
  deadlines_.erase({barrier.open->deadline(), barrier.id});
  barrier.open.reset();
  if (!barrier.ended) {
    const std::string id = barrier.id;
    return Erase(id);
  }
  Count(barrier);
  --barrier.counter;
  barrier.place = ended_.insert(ended_.end(), &barrier);
}

void BarrierTable::Close(Barrier& barrier, const ErrorPtr& verdict, const MemberValues& values,
                         Effects& out) {
  LOCKSTEP_CHECK(barrier.open != nullptr);
  for (const Gathering::Arrival& arrival : barrier.open->Waiting()) {
    calls_.erase(arrival.call);
    index_.WaitsNoLonger(arrival.member, &barrier);
    if (verdict) {
      out.Fail(arrival.call, verdict);
    } else {
      out.Succeed(arrival.call, BarrierPassed{barrier.counter, values});
    }
  }
  open_.erase(barrier.id);
  index_.Closed(&barrier, barrier.open->participants());
  deadlines_.erase({barrier.open->deadline(), barrier.id});
  barrier.open.reset();
  barrier.brought.clear();
  barrier.brought_bytes = 0;
  Count(barrier);
}

void BarrierTable::End(Barrier& barrier, ErrorPtr verdict, Effects& out, bool tell) {
  if (verdict && tell) {
    out.Tell(Severity::kWarning, absl::StrCat("job '", job_.options.job, "': ", verdict->message),
             {NoticeKind::kBarrierFailed, {}});
  }
  MemberValues values;
  if (!verdict && !barrier.brought.empty()) {
    std::vector<MemberValue> all;
    all.reserve(barrier.brought.size());
    for (auto& [member, value] : barrier.brought) all.push_back({member, std::move(value)});
    values = std::make_shared<const std::vector<MemberValue>>(std::move(all));
  }
  Close(barrier, verdict, values, out);
  out.records.push_back(record::BarrierEnded{.id = barrier.id,
                                             .counter = barrier.counter,
                                             .members = ListedBy(barrier),
                                             .verdict = verdict,
                                             .values = values});
  Keep(barrier, std::move(verdict), std::move(values), false);
}

std::vector<MemberIndex> BarrierTable::ListedBy(const Barrier& barrier) const {
  if (!barrier.participants || barrier.participants->size() == everybody_->size()) return {};
  return *barrier.participants;
}

void BarrierTable::Keep(Barrier& barrier, ErrorPtr verdict, MemberValues values, bool forgotten) {
  DropValues(barrier);
  barrier.ended = true;
  barrier.verdict = std::move(verdict);
  barrier.place = ended_.insert(ended_.end(), &barrier);
  barrier.values_forgotten = forgotten;
  if (!values) return Count(barrier);
  for (const MemberValue& value : *values) barrier.values_bytes += value.value.size();
  barrier.values = std::move(values);
  barrier.values_place = valued_.insert(valued_.end(), &barrier);
  values_bytes_ += barrier.values_bytes;
  Count(barrier);
  while (values_bytes_ > job_.options.kept_barrier_values_bytes_max) {
    Barrier& oldest = *valued_.front();
    DropValues(oldest);
    oldest.values_forgotten = true;
  }
}

void BarrierTable::DropValues(Barrier& barrier) {
  if (!barrier.values) return;
  values_bytes_ -= std::exchange(barrier.values_bytes, 0);
  valued_.erase(barrier.values_place);
  barrier.values = nullptr;
  Count(barrier);
}

void BarrierTable::ForgetOldest() {
  while (ended_.size() > job_.options.kept_barriers_max) {
    Barrier& oldest = *ended_.front();
    DropValues(oldest);
    const std::string id = oldest.id;
    ended_.pop_front();
    Erase(id);
  }
  // Told from what is left of it, so that it outlives a snapshot.
  if (ended_.size() >= job_.options.kept_barriers_max) forgot_some_ = true;
}

Time BarrierTable::NextDeadline() const {
  return deadlines_.empty() ? Time::Infinite() : deadlines_.begin()->first;
}

void BarrierTable::ReachDeadline(Time now, Effects& out) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    Barrier& barrier = barriers_.at(deadlines_.begin()->second);
    End(barrier, TimedOut(now, barrier), out);
  }
  ForgetOldest();
}

std::string BarrierTable::Progress(const Barrier& barrier) const {
  const Gathering& open = *barrier.open;
  return absl::StrCat(open.arrived(), "/", open.size(), " members; missing ",
                      job_.NameSome(open.Awaited()));
}

ErrorPtr BarrierTable::TimedOut(Time now, const Barrier& barrier) const {
  const Gathering& open = *barrier.open;
  const std::vector<MemberIndex> awaited = open.Awaited();
  // Stock clients look for the first three words.
  return BarrierError(barrier.id, barrier.counter, absl::StatusCode::kDeadlineExceeded,
                      Reason::kBarrierTimedOut,
                      absl::StrCat("Barrier timed out: ", NameOf(barrier.id, barrier.counter),
                                   " after ", FormatSpan(now - open.opened()), " with ",
                                   open.arrived(), "/", open.size(), " members; the first was ",
                                   open.first() ? job_.NameWithLife(*open.first()) : "nobody",
                                   "; missing ", membership_.DescribeMissing(now, awaited),
                                   "; look at what the missing do, or give the barrier more time"),
                      job_.ListNames(awaited));
}

void BarrierTable::FailAll(const ErrorPtr& error, Effects& out) {
  const std::set<std::string> open = open_;  // closing one changes the set
  for (const std::string& id : open) {
    Barrier& barrier = barriers_.at(id);
    Close(barrier, error, nullptr, out);
    Keep(barrier, error, nullptr, false);
  }
  ForgetOldest();
}

absl::Status BarrierTable::Apply(Time, const record::BarrierEnded& record) {
  Barrier& barrier = barriers_[record.id];
  if (barrier.ended) {
    if (record.counter <= barrier.counter) {
      return absl::InvalidArgumentError(absl::StrCat(
          NameOf(record.id, record.counter), " ended after ", NameOf(record.id, barrier.counter)));
    }
    ended_.erase(barrier.place);
  }
  for (MemberIndex member : record.members) {
    if (job_.IsMember(member)) continue;
    return absl::InvalidArgumentError(absl::StrCat(NameOf(record.id, record.counter), " lists ",
                                                   job_.Name(member), ", which is not of the job"));
  }
  barrier.id = record.id;
  barrier.counter = record.counter;
  // An instance that failed by its list has none.
  const bool lawless = record.verdict && record.members.empty() &&
                       (record.verdict->reason == Reason::kBarrierUnknownMember ||
                        record.verdict->reason == Reason::kBarrierNotParticipant);
  if (!barrier.participants && !lawless) {
    barrier.participants = record.members.empty() ? everybody_ : MakeParticipants(record.members);
  }
  Keep(barrier, record.verdict, record.values, record.values_forgotten);
  ForgetOldest();
  return absl::OkStatus();
}

void BarrierTable::Snapshot(std::vector<TimedRecord>& out) const {
  auto add = [&](const Barrier& barrier) {
    out.push_back({Time(), record::BarrierEnded{
                               .id = barrier.id,
                               .counter = barrier.open ? barrier.counter - 1 : barrier.counter,
                               .members = ListedBy(barrier),
                               .verdict = barrier.verdict,
                               .values = barrier.values,
                               .values_forgotten = barrier.values_forgotten}});
  };
  for (const Barrier* barrier : ended_) add(*barrier);
  for (const std::string& id : open_) {
    if (const Barrier& barrier = barriers_.at(id); barrier.ended) add(barrier);
  }
}

std::vector<BarrierView> BarrierTable::View(size_t rows_max) const {
  std::vector<std::pair<Time, const Barrier*>> oldest;
  for (const std::string& id : open_) {
    const Barrier& barrier = barriers_.at(id);
    oldest.emplace_back(barrier.open->opened(), &barrier);
  }
  std::stable_sort(oldest.begin(), oldest.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  if (oldest.size() > rows_max) oldest.resize(rows_max);
  std::vector<BarrierView> views;
  size_t members = 0;
  for (const auto& [opened, pointer] : oldest) {
    const Barrier& barrier = *pointer;
    if (members >= kViewMembersMax) break;
    BarrierView view{.barrier = {barrier.id, barrier.counter},
                     .opened = barrier.open->opened(),
                     .deadline = barrier.open->deadline(),
                     .awaited = barrier.open->Awaited()};
    for (const Gathering::Arrival& arrival : barrier.open->Waiting()) {
      view.waiting.push_back(arrival.member);
    }
    members += view.waiting.size() + view.awaited.size();
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace lockstep::coord
