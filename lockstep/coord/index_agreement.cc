#include "lockstep/coord/index_agreement.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {
namespace {

// No name is used so often; a counter beyond it is made up.
constexpr int64_t kCounterMax = int64_t{1} << 62;

// Tables with more instances or calls are not compared at every step.
constexpr size_t kCheckedMax = 32;

// The lowest multiple of `stride` from `index` on; absent when it does not fit in 64 bits.
std::optional<int64_t> RoundUp(int64_t index, int64_t stride) {
  LOCKSTEP_DCHECK(index >= 0 && stride > 0);
  const int64_t rest = index % stride;
  if (rest == 0) return index;
  int64_t rounded = 0;
  if (__builtin_add_overflow(index - rest, rest > 0 ? stride : 0, &rounded)) return std::nullopt;
  return rounded;
}

void AnswerWith(CallId call, const KeptAgreements::Verdict& verdict, Effects& out) {
  if (verdict.error) return out.Fail(call, verdict.error);
  out.Succeed(call, IndexAgreed{verdict.counter, verdict.index});
}

}  // namespace

IndexAgreement::IndexAgreement(const JobRecord& job, const Membership& membership)
    : job_(job),
      membership_(membership),
      errors_(job, membership),
      kept_(job.options),
      index_(job.everybody) {}

// Asking.

void IndexAgreement::Ask(Time now, const AgreeOnIndex& request, Effects& out) {
  const CallId call = request.caller.call;
  // What concerns its caller alone comes first: it must not end an instance that others wait in.
  if (ErrorPtr error = errors_.OfRequest(request)) return out.Fail(call, error);
  if (ErrorPtr error = errors_.OfCaller(request)) return out.Fail(call, error);
  Instance* instance = FindOrOpen(now, request, out);
  if (instance == nullptr) return;
  if (ErrorPtr fault = errors_.OfTerms(instance->ref(), instance->stride, instance->gathering,
                                       request, ListOf(request))) {
    // Members that disagree would wait for each other until the deadline: all are told now.
    End(*instance, fault, 0, out);
    out.Fail(call, fault);
    return kept_.ForgetOldest();
  }
  // A member asks with one call: its newest, since a retry replaces a call that broke.
  if (std::optional<CallId> older = instance->gathering.Arrive(request.member, call)) {
    calls_.erase(*older);
    out.Fail(*older, errors_.MoreRecentCall(instance->ref(), request.member));
  }
  calls_[call] = {instance, request.member};
  index_.Waits(request.member, instance);
  instance->asked[request.member] = request.index;
  Settle(*instance, out);
  kept_.ForgetOldest();
  LOCKSTEP_DCHECK(InvariantsHold());
}

IndexAgreement::Instance* IndexAgreement::FindOrOpen(Time now, const AgreeOnIndex& request,
                                                     Effects& out) {
  const CallId call = request.caller.call;
  const KeptAgreements::Verdict* const ended = kept_.Find(request.name);
  // Who did not get its answer asks again, and the others may have gone on meanwhile: before what
  // is open, which this counter would not fit.
  if (ended != nullptr && request.counter == ended->counter) {
    AnswerWith(call, *ended, out);
    return nullptr;
  }
  // Before the counter is checked: OfTerms says more about a mismatch with an open instance.
  if (const auto open = open_.find(request.name); open != open_.end()) return &open->second;
  const int64_t last = ended != nullptr ? ended->counter : -1;
  const bool next = request.counter == last + 1;
  // Of a name that was forgotten the counter is unknown, so the first caller sets it.
  if (!next && (ended != nullptr || !kept_.forgot_some() || request.counter >= kCounterMax)) {
    out.Fail(call, errors_.WrongCounter(request, last));
    return nullptr;
  }
  // After the counter: a caller that is wrong anyway learns that, not the limit.
  if (open_.size() >= job_.options.open_barriers_max) {
    out.Fail(call, errors_.TooManyOpen(request, last, open_.size()));
    return nullptr;
  }
  // From here on the instance exists; its name must not be forgotten while it is open.
  kept_.Hold(request.name);
  const Time deadline = now + std::max(request.timeout, absl::ZeroDuration());
  const auto opened =
      open_.emplace(request.name, Instance{.id = request.name,
                                           .counter = request.counter,
                                           .stride = request.stride,
                                           .gathering = {ListOf(request), now, deadline}});
  Instance& instance = opened.first->second;
  index_.Opened(&instance, instance.gathering.participants());
  if (!deadline.is_infinite()) deadlines_.emplace(deadline, instance.id);
  return &instance;
}

Participants IndexAgreement::ListOf(const AgreeOnIndex& request) const {
  if (request.members.empty()) return job_.everybody;
  Participants list = MakeParticipants(request.members);
  // All members by name are everybody: one shared list, and one entry in the index.
  return list->size() == job_.everybody->size() ? job_.everybody : list;
}

// Deciding.

void IndexAgreement::Settle(Instance& instance, Effects& out) {
  if (instance.gathering.empty()) return Abandon(instance);
  LOCKSTEP_DCHECK(instance.asked.size() == instance.gathering.arrived());
  const std::vector<MemberIndex>& participants = *instance.gathering.participants();
  // From where the last look ended: of those before, each waits or is not connected.
  for (; instance.next < participants.size(); ++instance.next) {
    const MemberIndex member = participants[instance.next];
    const bool connected = membership_.Get(member).state == MemberState::kConnected;
    if (connected && !instance.gathering.Waits(member)) return;
  }
  int64_t highest = 0;
  // No order is needed: only the maximum counts.
  for (const auto& [member, index] : instance.asked) highest = std::max(highest, index);
  if (std::optional<int64_t> index = RoundUp(highest, instance.stride)) {
    LOCKSTEP_DCHECK(*index >= highest && *index % instance.stride == 0);  // (2)
    return End(instance, nullptr, *index, out);
  }
  End(instance, errors_.Overflow(instance.ref(), instance.stride, highest), 0, out);
}

void IndexAgreement::Withdraw(Instance& instance, MemberIndex member) {
  index_.WaitsNoLonger(member, &instance);
  instance.asked.erase(member);
  // Someone before `next` may be awaited again.
  instance.next = 0;
}

void IndexAgreement::MemberGone(MemberIndex member, const ErrorPtr& because, Effects& out) {
  for (Instance* instance : index_.Listing(member)) {
    // Its own question first: `Settle` may end the instance for the others.
    if (std::optional<CallId> call = instance->gathering.Withdraw(member)) {
      calls_.erase(*call);
      out.Fail(*call, because);
      Withdraw(*instance, member);
    }
    // Also where it did not wait: it may be the one that the others awaited.
    Settle(*instance, out);
  }
  kept_.ForgetOldest();
  LOCKSTEP_DCHECK(InvariantsHold());
}

void IndexAgreement::MemberRestarted(MemberIndex member, const ErrorPtr& because, Effects& out) {
  for (Instance* instance : index_.Listing(member)) {
    // The new life is connected and has not asked, so it is awaited wherever it is listed.
    instance->next = 0;
    std::optional<CallId> call = instance->gathering.Withdraw(member);
    if (!call) continue;
    calls_.erase(*call);
    out.Fail(*call, because);
    Withdraw(*instance, member);
    if (instance->gathering.empty()) Abandon(*instance);
  }
  LOCKSTEP_DCHECK(InvariantsHold());
}

bool IndexAgreement::Forget(CallId call) {
  auto found = calls_.find(call);
  if (found == calls_.end()) return false;
  auto [instance, member] = found->second;
  calls_.erase(found);
  const std::optional<CallId> withdrawn = instance->gathering.Withdraw(member);
  LOCKSTEP_DCHECK(withdrawn == call);  // (5)
  Withdraw(*instance, member);
  if (instance->gathering.empty()) Abandon(*instance);
  LOCKSTEP_DCHECK(InvariantsHold());
  return true;
}

// Ending.

void IndexAgreement::End(Instance& instance, ErrorPtr verdict, int64_t index, Effects& out) {
  record::IndexAgreed ended{.name = instance.id,
                            .counter = instance.counter,
                            .verdict = std::move(verdict),
                            .index = index};
  // Read before `Close` destroys the instance.
  const Participants& list = instance.gathering.participants();
  if (list != job_.everybody) ended.members = *list;
  Close(instance, {ended.counter, ended.verdict, ended.index, ended.members}, out);
  out.records.push_back(std::move(ended));
}

void IndexAgreement::Close(Instance& instance, KeptAgreements::Verdict verdict, Effects& out) {
  for (const Gathering::Arrival& arrival : instance.gathering.Waiting()) {
    calls_.erase(arrival.call);
    index_.WaitsNoLonger(arrival.member, &instance);
    AnswerWith(arrival.call, verdict, out);
  }
  // Before the instance goes, whose name it takes.
  kept_.Keep(instance.id, std::move(verdict));
  Erase(instance);
}

void IndexAgreement::Abandon(Instance& instance) {
  kept_.Release(instance.id);
  Erase(instance);
}

void IndexAgreement::Erase(Instance& instance) {
  // The tables first: they still need what the instance holds.
  deadlines_.erase({instance.gathering.deadline(), instance.id});
  index_.Closed(&instance, instance.gathering.participants());
  open_.erase(open_.find(instance.id));
}

Time IndexAgreement::NextDeadline() const {
  return deadlines_.empty() ? Time::Infinite() : deadlines_.begin()->first;
}

void IndexAgreement::ReachDeadline(Time now, Effects& out) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    // `End` erases the entry, so each turn sees the next one.
    Instance& instance = open_.at(deadlines_.begin()->second);
    LOCKSTEP_DCHECK(instance.gathering.deadline() == deadlines_.begin()->first);  // (6)
    const ErrorPtr expired = errors_.TimedOut(now, instance.ref(), instance.gathering);
    out.Tell(Severity::kWarning, absl::StrCat("job '", job_.options.job, "': ", expired->message),
             {LogKind::kBarrierFailed, {}});
    End(instance, expired, 0, out);
  }
  kept_.ForgetOldest();
  LOCKSTEP_DCHECK(InvariantsHold());
}

void IndexAgreement::FailAll(const ErrorPtr& error, Effects& out) {
  while (!open_.empty()) {
    Instance& instance = open_.begin()->second;
    // Kept for late callers of this attempt, and not recorded: the attempt is over.
    Close(instance, {instance.counter, error}, out);
  }
  kept_.ForgetOldest();
  LOCKSTEP_DCHECK(InvariantsHold());
}

// Restoring.

absl::Status IndexAgreement::Apply(Time, const record::IndexAgreed& record) {
  const KeptAgreements::Verdict* const last = kept_.Find(record.name);
  if (last != nullptr && record.counter <= last->counter) {
    return absl::InvalidArgumentError(absl::StrCat(NameOfAgreement(record.name, record.counter),
                                                   " ended after ",
                                                   NameOfAgreement(record.name, last->counter)));
  }
  kept_.Keep(record.name, {record.counter, record.verdict, record.index, record.members});
  kept_.ForgetOldest();
  return absl::OkStatus();
}

bool IndexAgreement::InvariantsHold() const {
  if (open_.size() > kCheckedMax || calls_.size() > kCheckedMax) return true;
  size_t waiting = 0, with_deadline = 0;
  for (const auto& [name, instance] : open_) {
    LOCKSTEP_CHECK(name == instance.id);
    LOCKSTEP_CHECK(instance.next <= instance.gathering.size());
    if (const KeptAgreements::Verdict* last = kept_.Find(name)) {
      LOCKSTEP_CHECK(last->counter < instance.counter);  // (4)
    }
    LOCKSTEP_CHECK(!instance.gathering.empty());  // it would have been abandoned
    waiting += instance.gathering.arrived();
    with_deadline += !instance.gathering.deadline().is_infinite();
  }
  LOCKSTEP_CHECK(waiting == calls_.size());            // (5)
  LOCKSTEP_CHECK(with_deadline == deadlines_.size());  // (6)
  return true;
}

}  // namespace lockstep::coord
