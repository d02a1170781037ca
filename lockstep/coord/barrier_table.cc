#include "lockstep/coord/barrier_table.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/base/limits.h"

namespace lockstep::coord {
namespace {

// What an open instance, one whom it lists, and a value cost beside what they hold.
constexpr size_t kInstanceBytes = 640;
constexpr size_t kParticipantBytes = 128;
constexpr size_t kBroughtBytes = 96;

// No id is used so often; a counter beyond it is made up.
constexpr int64_t kCounterMax = int64_t{1} << 62;

// At most this many of the barriers that fail because of one member are logged individually.
constexpr size_t kFailuresToldMax = 10;

// Tables larger than this are not checked as a whole at each step.
constexpr size_t kCheckedMax = 32;

// A caller of an instance that is over gets what is kept of it: one that meets once, and one whose
// session lost its link while the others went on to the next instance.
bool IsOver(const JobRecord& job, bool is_open, const KeptVerdicts::Verdict* last,
            const ArriveAtBarrier& request) {
  if (last == nullptr) return false;
  if (request.once && !is_open && !last->error) return true;
  if (!is_open || request.counter != last->counter) return false;
  // A stock member in a new life counts from 0 again, and comes to the open instance.
  const bool may_be_new = request.counter == 0 && job.Recoverable(request.member);
  return request.caller.native() || (!request.caller.agent.none() && !may_be_new);
}

bool Opens(const JobRecord& job, const KeptVerdicts& kept, const KeptVerdicts::Verdict* last,
           const ArriveAtBarrier& request) {
  if (last == nullptr) {
    // Of an id that was forgotten nobody knows the counter, so the first one who comes says it.
    return request.counter == 0 || request.once ||
           (kept.forgot_some() && request.counter > 0 && request.counter < kCounterMax);
  }
  // A recoverable member counts from 0 again in each life.
  return request.counter == last->counter + 1 ||
         (job.Recoverable(request.member) && request.counter == 0);
}

bool HasWrongCounter(const JobRecord& job, int64_t counter, const ArriveAtBarrier& request) {
  if (request.counter == counter || request.once) return false;
  return !job.Recoverable(request.member) || request.counter != 0;  // 0: in a new life
}

void AnswerKept(const BarrierErrors& errors, const KeptVerdicts::Verdict& last,
                const ArriveAtBarrier& request, Effects& out) {
  const CallId call = request.caller.call;
  // The verdict that all others got; it never changes (4).
  if (last.error) return out.Fail(call, last.error);
  // Stock callers read no values and lose nothing by that.
  if (last.values_forgotten && request.caller.native()) {
    return out.Fail(call, errors.ValuesForgotten({request.id, last.counter}));
  }
  out.Succeed(call, BarrierPassed{last.counter, last.values});
}

}  // namespace

BarrierView ViewOf(BarrierRef barrier, const Gathering& gathering) {
  BarrierView view{.barrier = std::move(barrier),
                   .opened = gathering.opened(),
                   .deadline = gathering.deadline(),
                   .awaited = gathering.Awaited()};
  for (const Gathering::Arrival& arrival : gathering.Waiting()) {
    view.waiting.push_back(arrival.member);
  }
  return view;
}

BarrierTable::BarrierTable(const JobRecord& job, const Membership& membership)
    : job_(job), errors_(job, membership), kept_(job), index_(job.everybody) {}

void BarrierTable::Arrive(Time now, const ArriveAtBarrier& request, Effects& out) {
  const CallId call = request.caller.call;
  const auto found = open_.find(request.id);
  Instance* open = found == open_.end() ? nullptr : &found->second;
  const KeptVerdicts::Verdict* last = kept_.Find(request.id);

  std::optional<size_t> brought;
  if (open != nullptr) {
    const auto own = open->brought.find(request.member);
    // Without its own: a caller that asks again replaces what it brought.
    brought = open->brought_bytes - (own == open->brought.end() ? 0 : own->second.size());
  }
  if (ErrorPtr error = errors_.OfSizes(request, brought)) return out.Fail(call, error);

  // Before anything opens: who asks again for the last instance must not be counted in the next.
  if (IsOver(job_, open != nullptr, last, request)) {
    ErrorPtr fault =
        last->error ? nullptr
                    : errors_.OfMembers({request.id, last->counter}, last->participants, request);
    return fault ? out.Fail(call, fault) : AnswerKept(errors_, *last, request, out);
  }

  if (open == nullptr && Opens(job_, kept_, last, request)) {
    // After the verdicts: whoever only asks for one opens nothing.
    if (open_.size() >= job_.options.open_barriers_max) {
      return out.Fail(call, errors_.TooManyOpen(request, open_.size()));
    }
    open = Open(now, request, out);
    // Opening may have failed at once, which has left a verdict.
    last = kept_.Find(request.id);
  }
  if (open != nullptr) {
    Join(*open, request, out);
  } else if (last != nullptr) {
    AnswerLate(*last, request, out);
  } else {
    // Nothing is kept of it: a first call with a wrong counter must not spoil the id for others.
    out.Fail(call, errors_.FirstWithWrongCounter(request));
  }
  // Last: `last` points into what this forgets.
  kept_.ForgetOldest();
  LOCKSTEP_DCHECK(InvariantsHold());
}

// This caller alone is answered, and what the others were told stands.
void BarrierTable::AnswerLate(const KeptVerdicts::Verdict& last, const ArriveAtBarrier& request,
                              Effects& out) const {
  const BarrierRef barrier{request.id, last.counter};
  ErrorPtr fault;
  if (HasWrongCounter(job_, last.counter, request)) fault = errors_.WrongCounter(barrier, request);
  // A list that was unlawful is none to compare with.
  const bool lawless = last.participants == nullptr;
  if (!fault && !last.error && !lawless) {
    fault = errors_.OfMembers(barrier, last.participants, request);
  }
  fault ? out.Fail(request.caller.call, fault) : AnswerKept(errors_, last, request, out);
}

BarrierTable::Instance* BarrierTable::Open(Time now, const ArriveAtBarrier& request, Effects& out) {
  LOCKSTEP_DCHECK(!open_.contains(request.id) && open_.size() < job_.options.open_barriers_max);
  // In the table from here on; nodes of a map do not move, so indices may point to it.
  Instance& instance = open_[request.id];
  instance.id = request.id;
  instance.counter = request.counter;
  if (const KeptVerdicts::Verdict* last = kept_.Find(request.id)) {
    // A later use of the id keeps the members of the first; who names others is told so in Join.
    instance.counter = last->counter + 1;
    instance.participants = last->participants;
    kept_.Hold(request.id);
  }
  ErrorPtr fault = errors_.OfUnknownMembers(instance.ref(), request);
  if (!fault && !instance.participants) {
    Participants list =
        request.members.empty() ? job_.everybody : MakeParticipants(request.members);
    fault = errors_.OfListed(instance.ref(), list, request.member);
    if (!fault) instance.participants = std::move(list);
  }
  const Time deadline = now + std::max(request.timeout, absl::ZeroDuration());
  // With a fault, everybody stands in for the missing list until the instance ends below.
  instance.gathering.emplace(fault ? job_.everybody : instance.participants, now, deadline);
  index_.Opened(&instance, instance.gathering->participants());
  if (!deadline.is_infinite()) deadlines_.emplace(deadline, instance.id);
  Count(instance);
  // After it is in the tables, from which `End` takes it, so that every failure leaves one verdict.
  if (!fault) fault = errors_.OfHealth(instance.ref(), instance.participants);
  if (!fault) return &instance;
  End(instance, fault, out);
  return nullptr;
}

void BarrierTable::Join(Instance& instance, const ArriveAtBarrier& request, Effects& out) {
  const CallId call = request.caller.call;
  LOCKSTEP_DCHECK(instance.participants != nullptr);  // with an unlawful list it ended in `Open`
  if (request.caller.standing == Standing::kTask) {
    // Who has no part in it cannot end it for those who have.
    ErrorPtr stranger = errors_.OfListed(instance.ref(), instance.participants, request.member);
    if (stranger) return out.Fail(call, stranger);
  }
  ErrorPtr fault = HasWrongCounter(job_, instance.counter, request)
                       ? errors_.WrongCounter(instance.ref(), request)
                       : errors_.OfMembers(instance.ref(), instance.participants, request);
  if (fault) {
    // Members that disagree about a barrier would wait for each other until its timeout, so all of
    // them are told now.
    End(instance, fault, out);
    return out.Fail(call, fault);
  }
  // A member waits with one call: its newest, since a retry replaces a call that broke.
  if (std::optional<CallId> older = instance.gathering->Arrive(request.member, call)) {
    calls_.erase(*older);
    out.Fail(*older, errors_.MoreRecentCall(instance.ref(), request.member));
  }
  calls_[call] = {&instance, request.member};
  index_.Waits(request.member, &instance);
  // A value of an older call does not count.
  DropBrought(instance, request.member);
  if (request.value) {
    instance.brought_bytes += request.value->size();
    instance.brought.emplace(request.member, *request.value);
    Count(instance);
  }
  // Last: it destroys the instance.
  if (instance.gathering->complete()) End(instance, nullptr, out);
}

void BarrierTable::Cancel(const CancelBarrier& request, Effects& out) {
  const CallId call = request.caller.call;
  const auto found = open_.find(request.id);
  Instance* open = found == open_.end() ? nullptr : &found->second;
  const KeptVerdicts::Verdict* last = kept_.Find(request.id);
  // Nothing has been open yet: there is nothing to cancel, and nothing that could be misunderstood.
  if (open == nullptr && last == nullptr && request.counter.value_or(0) == 0) {
    return out.Succeed(call);
  }
  const int64_t current = open ? open->counter : last ? last->counter : -1;
  // Without a counter, as stock agents ask, the caller means the current instance.
  const bool is_current = (open || last) && request.counter.value_or(current) == current;
  if (!is_current) return out.Fail(call, errors_.WrongCounterToCancel(request, current));
  // The right instance, but a verdict never changes (4).
  if (open == nullptr) return out.Fail(call, errors_.AlreadyOver({request.id, current}));
  if (request.caller.standing == Standing::kTask) {
    const Participants& participants = open->gathering->participants();
    if (ErrorPtr refusal = errors_.OfListed(open->ref(), participants, request.member)) {
      return out.Fail(call, refusal);
    }
  }
  End(*open, errors_.Cancelled(open->ref(), *open->gathering, request.member), out);
  out.Succeed(call);
  kept_.ForgetOldest();
  LOCKSTEP_DCHECK(InvariantsHold());
}

void BarrierTable::MemberGone(MemberIndex member, const ErrorPtr& because, Effects& out) {
  // It comes back and arrives again, so the others go on waiting for it.
  if (job_.Recoverable(member)) return MemberRestarted(member, out);
  size_t told = 0;
  LOCKSTEP_DCHECK(because != nullptr);
  // A copy of the list: `End` destroys what it points to. A member of many barriers must not flood
  // the log, so only the first failures get a line each.
  for (Instance* listing : index_.Listing(member)) {
    End(*listing, errors_.ParticipantGone(listing->ref(), *listing->gathering, because), out,
        told++ < kFailuresToldMax);
  }
  if (told > kFailuresToldMax) {
    out.Tell(Severity::kWarning,
             absl::StrCat("job '", job_.options.job, "': ", told - kFailuresToldMax,
                          " more barriers failed with ", job_.Describe(member)),
             {LogKind::kBarrierFailed, {}});
  }
  kept_.ForgetOldest();
  LOCKSTEP_DCHECK(InvariantsHold());
}

void BarrierTable::MemberRestarted(MemberIndex member, Effects& out) {
  // A copy of the list: `Withdraw` may destroy what it points to, and changes the index.
  for (Instance* waiting : index_.WaitingIn(member)) {
    const std::optional<CallId> stale = waiting->gathering->Withdraw(member);
    LOCKSTEP_CHECK(stale.has_value());
    calls_.erase(*stale);
    out.Fail(*stale, errors_.Restarted(waiting->ref(), member));
    Withdraw(*waiting, member);
  }
  LOCKSTEP_DCHECK(InvariantsHold());
}

bool BarrierTable::Forget(CallId call) {
  auto found = calls_.find(call);
  if (found == calls_.end()) return false;
  // Copied, since its entry goes first.
  const Waiter waiter = found->second;
  calls_.erase(found);
  const std::optional<CallId> withdrawn = waiter.instance->gathering->Withdraw(waiter.member);
  LOCKSTEP_DCHECK(withdrawn == call);  // (5)
  Withdraw(*waiter.instance, waiter.member);
  LOCKSTEP_DCHECK(InvariantsHold());
  return true;
}

void BarrierTable::Withdraw(Instance& instance, MemberIndex member) {
  LOCKSTEP_DCHECK(!instance.gathering->Waits(member));
  // Before the instance may be destroyed.
  index_.WaitsNoLonger(member, &instance);
  DropBrought(instance, member);
  if (!instance.gathering->empty()) return;
  // An instance without waiters leaves no verdict: the id stands as before it opened.
  kept_.Release(instance.id);
  Erase(instance);
}

void BarrierTable::DropBrought(Instance& instance, MemberIndex member) {
  auto brought = instance.brought.find(member);
  if (brought == instance.brought.end()) return;
  LOCKSTEP_DCHECK(instance.brought_bytes >= brought->second.size());
  instance.brought_bytes -= brought->second.size();
  instance.brought.erase(brought);
  Count(instance);
}

void BarrierTable::Count(Instance& instance) {
  size_t cost = kInstanceBytes + 4 * instance.id.size();
  // The list of everybody is shared by all instances and counted with the job.
  if (instance.participants != nullptr && instance.participants != job_.everybody) {
    cost += instance.participants->size() * kParticipantBytes;
  }
  cost += instance.gathering->size() * sizeof(std::optional<CallId>);
  cost += instance.brought.size() * kBroughtBytes + instance.brought_bytes;
  memory_ += cost - std::exchange(instance.cost, cost);
}

void BarrierTable::Erase(Instance& instance) {
  LOCKSTEP_DCHECK(memory_ >= instance.cost);
  memory_ -= instance.cost;
  // Before the instance goes: the tables still need its names.
  index_.Closed(&instance, instance.gathering->participants());
  deadlines_.erase({instance.gathering->deadline(), instance.id});
  open_.erase(open_.find(instance.id));
}

void BarrierTable::Close(Instance& instance, const ErrorPtr& error, const MemberValues& values,
                         Effects& out) {
  // All get the same verdict, in the order of their indices (3).
  for (const Gathering::Arrival& arrival : instance.gathering->Waiting()) {
    calls_.erase(arrival.call);
    index_.WaitsNoLonger(arrival.member, &instance);
    if (error) {
      out.Fail(arrival.call, error);
    } else {
      out.Succeed(arrival.call, BarrierPassed{instance.counter, values});
    }
  }
  Erase(instance);
}

void BarrierTable::End(Instance& instance, ErrorPtr error, Effects& out, bool tell) {
  LOCKSTEP_DCHECK(error != nullptr || instance.gathering->complete());        // (2)
  LOCKSTEP_DCHECK(instance.brought.size() <= instance.gathering->arrived());  // by those who wait
  if (error && tell) {
    out.Tell(Severity::kWarning, absl::StrCat("job '", job_.options.job, "': ", error->message),
             {LogKind::kBarrierFailed, {}});
  }
  // Moved out before `Close` destroys the instance, as are the names below.
  MemberValues values;
  if (!error && !instance.brought.empty()) {
    std::vector<MemberValue> all;
    all.reserve(instance.brought.size());
    for (auto& [member, value] : instance.brought) all.push_back({member, std::move(value)});
    values = std::make_shared<const std::vector<MemberValue>>(std::move(all));
  }
  const BarrierRef barrier = instance.ref();
  const Participants participants = instance.participants;
  Close(instance, error, values, out);
  // The shell keeps records before it sends replies, whatever the order here.
  out.records.push_back(record::BarrierEnded{.id = barrier.id,
                                             .counter = barrier.counter,
                                             .members = ListedMembers(job_, participants),
                                             .verdict = error,
                                             .values = values});
  kept_.Keep(barrier.id, {barrier.counter, participants, std::move(error), std::move(values)});
}

Time BarrierTable::NextDeadline() const {
  return deadlines_.empty() ? Time::Infinite() : deadlines_.begin()->first;
}

void BarrierTable::ReachDeadline(Time now, Effects& out) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    // `End` erases the entry, so each turn sees the next one.
    Instance& instance = open_.at(deadlines_.begin()->second);
    LOCKSTEP_DCHECK(instance.gathering->deadline() == deadlines_.begin()->first);  // (6)
    End(instance, errors_.TimedOut(now, instance.ref(), *instance.gathering), out);
  }
  kept_.ForgetOldest();
  LOCKSTEP_DCHECK(InvariantsHold());
}

void BarrierTable::FailAll(const ErrorPtr& error, Effects& out) {
  while (!open_.empty()) {
    Instance& instance = open_.begin()->second;
    const BarrierRef barrier = instance.ref();
    const Participants participants = instance.participants;
    // No record: the attempt is over, and a replay knows of no open instance. The verdict is kept
    // all the same, for callers of this attempt that come late.
    Close(instance, error, nullptr, out);
    kept_.Keep(barrier.id, {barrier.counter, participants, error, nullptr});
  }
  kept_.ForgetOldest();
  LOCKSTEP_DCHECK(InvariantsHold());
}

absl::Status BarrierTable::Apply(Time, const record::BarrierEnded& record) {
  const KeptVerdicts::Verdict* last = kept_.Find(record.id);
  if (last != nullptr && record.counter <= last->counter) {
    return absl::InvalidArgumentError(absl::StrCat(NameOfInstance(record.id, record.counter),
                                                   " ended after ",
                                                   NameOfInstance(record.id, last->counter)));
  }
  for (MemberIndex member : record.members) {
    if (job_.IsMember(member)) continue;
    return absl::InvalidArgumentError(absl::StrCat(NameOfInstance(record.id, record.counter),
                                                   " lists ", job_.Name(member),
                                                   ", which is not of the job"));
  }
  // A later use keeps the members of the first, as `Open` does.
  Participants participants = last == nullptr ? nullptr : last->participants;
  // An instance that failed by its list has none.
  const bool lawless = record.verdict && record.members.empty() &&
                       (record.verdict->reason == Reason::kBarrierUnknownMember ||
                        record.verdict->reason == Reason::kBarrierNotParticipant);
  if (!participants && !lawless) {
    participants = record.members.empty() ? job_.everybody : MakeParticipants(record.members);
  }
  kept_.Keep(record.id, {record.counter, std::move(participants), record.verdict, record.values,
                         record.values_forgotten});
  kept_.ForgetOldest();
  return absl::OkStatus();
}

std::vector<BarrierView> BarrierTable::View(size_t rows_max) const {
  static_assert(kViewMembersMax >= kMembersMax, "a view shows one barrier whole");
  std::vector<const Instance*> oldest;
  for (const auto& [id, instance] : open_) oldest.push_back(&instance);
  // Stable: instances of one moment stay in the order of their ids.
  std::stable_sort(oldest.begin(), oldest.end(), [](const Instance* a, const Instance* b) {
    return a->gathering->opened() < b->gathering->opened();
  });
  // Before the rows are made, which cost as much as they have members.
  if (oldest.size() > rows_max) oldest.resize(rows_max);
  std::vector<BarrierView> views;
  size_t members = 0;
  for (const Instance* instance : oldest) {
    // At least the oldest is shown, however many members it has.
    if (members >= kViewMembersMax) break;
    BarrierView view = ViewOf(instance->ref(), *instance->gathering);
    members += view.waiting.size() + view.awaited.size();
    views.push_back(std::move(view));
  }
  return views;
}

bool BarrierTable::InvariantsHold() const {
  if (open_.size() > kCheckedMax || calls_.size() > kCheckedMax) return true;
  size_t waiting = 0, timed = 0, cost = 0;
  for (const auto& [id, instance] : open_) {
    LOCKSTEP_CHECK(id == instance.id && instance.participants != nullptr);
    LOCKSTEP_CHECK(!instance.gathering->empty());
    LOCKSTEP_CHECK(!instance.gathering->complete());  // (2)
    if (const KeptVerdicts::Verdict* last = kept_.Find(id)) {
      LOCKSTEP_CHECK(last->counter < instance.counter);  // (4)
    }
    waiting += instance.gathering->arrived();
    timed += deadlines_.count({instance.gathering->deadline(), id});
    cost += instance.cost;
  }
  LOCKSTEP_CHECK(waiting == calls_.size());    // (5)
  LOCKSTEP_CHECK(timed == deadlines_.size());  // (6)
  LOCKSTEP_CHECK(cost == memory_);
  return true;
}

}  // namespace lockstep::coord
