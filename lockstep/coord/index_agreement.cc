#include "lockstep/coord/index_agreement.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"

namespace lockstep::coord {
namespace {

ErrorPtr AgreementError(absl::string_view name, int64_t counter, absl::StatusCode code,
                        Reason reason, std::string text, std::string missing = "") {
  return MakeError(Error{.code = code,
                         .reason = reason,
                         .message = std::move(text),
                         .barrier = BarrierRef{std::string(name), counter},
                         .missing = std::move(missing)});
}

// No name is used so often; a counter beyond it is made up.
constexpr int64_t kCounterMax = int64_t{1} << 62;

// How texts call an instance.
std::string NameOf(absl::string_view name, int64_t counter) {
  return absl::StrCat("agreement '", name, "::", counter, "'");
}

// The lowest multiple of `stride` from `index` on; absent when it does not fit in 64 bits.
std::optional<int64_t> RoundUp(int64_t index, int64_t stride) {
  const int64_t rest = index % stride;
  if (rest == 0) return index;
  int64_t rounded = 0;
  if (__builtin_add_overflow(index - rest, rest > 0 ? stride : 0, &rounded)) return std::nullopt;
  return rounded;
}

}  // namespace

IndexAgreement::IndexAgreement(const JobRecord& job, const Membership& membership)
    : job_(job), membership_(membership), everybody_(job.everybody), index_(everybody_) {}

// Asking.

void IndexAgreement::Ask(Time now, const AgreeOnIndex& request, Effects& out) {
  const CallId call = request.caller.call;
  if (ErrorPtr error = CheckRequest(request)) return out.Fail(call, error);
  Agreement* agreement = FindOrOpen(now, request, out);
  if (agreement == nullptr) return;
  if (ErrorPtr fault = CheckFits(*agreement, request)) {
    // Members that disagree would wait for each other until the deadline: all are told now.
    End(*agreement, fault, 0, out);
    out.Fail(call, fault);
    return ForgetOldest();
  }
  Open& open = *agreement->open;
  if (std::optional<CallId> older = open.gathering.Arrive(request.member, call)) {
    calls_.erase(*older);
    out.Fail(*older, AgreementError(request.name, agreement->counter, absl::StatusCode::kCancelled,
                                    Reason::kSuperseded,
                                    absl::StrCat("there's a more recent call of ",
                                                 job_.NameWithLife(request.member), " for ",
                                                 NameOf(request.name, agreement->counter))));
  }
  calls_[call] = {agreement, request.member};
  index_.Waits(request.member, agreement);
  open.asked[request.member] = request.index;
  Settle(*agreement, out);
  ForgetOldest();
}

ErrorPtr IndexAgreement::CheckRequest(const AgreeOnIndex& request) const {
  const CoordinatorOptions& options = job_.options;
  if (request.name.size() > options.barrier_id_bytes_max) {
    return MakeError(absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
                     absl::StrCat("a name of ", request.name.size(),
                                  " bytes for an agreement is over barrier_id_bytes_max (",
                                  options.barrier_id_bytes_max, "); use a shorter name"));
  }
  if (request.stride <= 0 || request.index < 0 || request.counter < 0) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, Reason::kInvalidArgument,
        absl::StrCat(NameOf(request.name, request.counter), " is asked for index ", request.index,
                     " and stride ", request.stride,
                     "; the stride must be above zero, index and counter must not be below"));
  }
  for (MemberIndex member : request.members) {
    if (job_.IsMember(member)) continue;
    return MakeError(absl::StatusCode::kInvalidArgument, Reason::kUnknownMember,
                     absl::StrCat(NameOf(request.name, request.counter), ": ",
                                  job_.NameWithLife(request.member), " lists ", job_.Name(member),
                                  ", but job '", options.job, "' has ", options.size, " members"));
  }
  if (!request.members.empty() && std::find(request.members.begin(), request.members.end(),
                                            request.member) == request.members.end()) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, Reason::kCallerNotListed,
        absl::StrCat(job_.NameWithLife(request.member), " asks for ",
                     NameOf(request.name, request.counter), ", which is of ",
                     job_.NameSome(request.members), "; put it in the list, or leave it out"));
  }
  return CheckCaller(request);
}

ErrorPtr IndexAgreement::CheckCaller(const AgreeOnIndex& request) const {
  const Membership::Member& member = membership_.Get(request.member);
  if (member.state == MemberState::kConnected) return nullptr;
  if (member.state == MemberState::kError) {
    return MakeError(absl::StatusCode::kFailedPrecondition, Reason::kMemberFailed,
                     absl::StrCat(job_.NameWithLife(request.member),
                                  " is already in error: ", member.error->message));
  }
  return MakeError(
      absl::StatusCode::kFailedPrecondition,
      member.grace_until ? Reason::kMemberLeft : Reason::kNotRegistered,
      absl::StrCat(job_.NameWithLife(request.member), " is not in the job",
                   member.grace_until ? " any more" : " yet", "; it cannot agree on anything"));
}

IndexAgreement::Agreement* IndexAgreement::FindOrOpen(Time now, const AgreeOnIndex& request,
                                                      Effects& out) {
  const CallId call = request.caller.call;
  auto found = agreements_.find(request.name);
  const bool known = found != agreements_.end();
  if (known && found->second.ended) {
    const Agreement& agreement = found->second;
    // Who did not get its answer asks again, and the others may have gone on meanwhile.
    const int64_t last = agreement.open ? agreement.counter - 1 : agreement.counter;
    if (request.counter == last) {
      AnswerKept(agreement, call, out);
      return nullptr;
    }
  }
  if (known && found->second.open) return &found->second;
  const int64_t last = known ? found->second.counter : -1;
  const bool next = request.counter == last + 1;
  if (!next && (known || !forgot_some_ || request.counter >= kCounterMax)) {
    out.Fail(call,
             AgreementError(request.name, last, absl::StatusCode::kAborted,
                            Reason::kAgreementCounterMismatch,
                            absl::StrCat(NameOf(request.name, request.counter), ": ",
                                         job_.NameWithLife(request.member), " came with counter ",
                                         request.counter, ", the next is ", last + 1,
                                         "; one of the members has likely restarted: look at the "
                                         "first failure in the logs")));
    return nullptr;
  }
  if (open_.size() >= job_.options.open_barriers_max) {
    out.Fail(call, AgreementError(request.name, last, absl::StatusCode::kResourceExhausted,
                                  Reason::kLimitExceeded,
                                  absl::StrCat(open_.size(),
                                               " agreements are open, which is the limit "
                                               "open_barriers_max; wait for some to end")));
    return nullptr;
  }
  Agreement& agreement = agreements_[request.name];
  if (agreement.ended) ended_.erase(agreement.place);
  agreement.id = request.name;
  agreement.counter = request.counter;
  const Time deadline = now + std::max(request.timeout, absl::ZeroDuration());
  agreement.open = std::make_unique<Open>(ListOf(request), now, deadline, request.stride);
  open_.insert(agreement.id);
  index_.Opened(&agreement, agreement.open->gathering.participants());
  if (!deadline.is_infinite()) deadlines_.emplace(deadline, agreement.id);
  return &agreement;
}

void IndexAgreement::AnswerKept(const Agreement& agreement, CallId call, Effects& out) {
  if (agreement.verdict) return out.Fail(call, agreement.verdict);
  const int64_t counter = agreement.open ? agreement.counter - 1 : agreement.counter;
  out.Succeed(call, IndexAgreed{counter, agreement.index});
}

Participants IndexAgreement::ListOf(const AgreeOnIndex& request) const {
  if (request.members.empty()) return everybody_;
  Participants list = MakeParticipants(request.members);
  return list->size() == everybody_->size() ? everybody_ : list;
}

ErrorPtr IndexAgreement::CheckFits(const Agreement& agreement, const AgreeOnIndex& request) const {
  const std::string name = NameOf(request.name, agreement.counter);
  const std::string who = job_.NameWithLife(request.member);
  const Open& open = *agreement.open;
  if (request.counter != agreement.counter) {
    return AgreementError(
        request.name, agreement.counter, absl::StatusCode::kAborted,
        Reason::kAgreementCounterMismatch,
        absl::StrCat(name, ": ", who, " came with counter ", request.counter,
                     "; one side restarted, or went on after a time-out before another had come "
                     "once: look at the first failure in the logs of both"));
  }
  if (request.stride != open.stride) {
    return AgreementError(
        request.name, agreement.counter, absl::StatusCode::kInvalidArgument,
        Reason::kAgreementConflict,
        absl::StrCat(name, " has the stride ", open.stride, ", as ",
                     job_.NameWithLife(*open.gathering.first()), " said, but ", who, " says ",
                     request.stride, "; ask with the same stride everywhere"));
  }
  const std::vector<MemberIndex>& expected = *open.gathering.participants();
  const Participants list = ListOf(request);
  if (*list == expected) return nullptr;
  return AgreementError(
      request.name, agreement.counter, absl::StatusCode::kInvalidArgument,
      Reason::kAgreementConflict,
      absl::StrCat(name, " is of ", job_.NameSome(expected), ", but ", who, " names ",
                   list == everybody_ ? "everybody" : job_.NameSome(*list),
                   "; ask with the same list everywhere"));
}

// Deciding.

void IndexAgreement::Settle(Agreement& agreement, Effects& out) {
  Open& open = *agreement.open;
  if (open.gathering.empty()) return Abandon(agreement);
  const std::vector<MemberIndex>& participants = *open.gathering.participants();
  for (; open.next < participants.size(); ++open.next) {
    const MemberIndex member = participants[open.next];
    const bool connected = membership_.Get(member).state == MemberState::kConnected;
    if (connected && !open.gathering.Waits(member)) return;
  }
  int64_t highest = 0;
  for (const auto& [member, index] : open.asked) highest = std::max(highest, index);
  if (std::optional<int64_t> index = RoundUp(highest, open.stride)) {
    return End(agreement, nullptr, *index, out);
  }
  End(agreement,
      AgreementError(agreement.id, agreement.counter, absl::StatusCode::kOutOfRange,
                     Reason::kNumberOverflow,
                     absl::StrCat(NameOf(agreement.id, agreement.counter),
                                  ": the next multiple of ", open.stride, " after index ", highest,
                                  " does not fit in 64 bits; use a smaller stride")),
      0, out);
}

// The member's call is withdrawn from the gathering already.
void IndexAgreement::Withdraw(Agreement& agreement, MemberIndex member) {
  index_.WaitsNoLonger(member, &agreement);
  agreement.open->asked.erase(member);
  agreement.open->next = 0;
}

void IndexAgreement::MemberGone(MemberIndex member, const ErrorPtr& because, Effects& out) {
  for (Agreement* agreement : index_.Listing(member)) {
    if (std::optional<CallId> call = agreement->open->gathering.Withdraw(member)) {
      calls_.erase(*call);
      out.Fail(*call, because);
      Withdraw(*agreement, member);
    }
    Settle(*agreement, out);
  }
  ForgetOldest();
}

void IndexAgreement::MemberRestarted(MemberIndex member, const ErrorPtr& because, Effects& out) {
  for (Agreement* agreement : index_.Listing(member)) {
    agreement->open->next = 0;
    std::optional<CallId> call = agreement->open->gathering.Withdraw(member);
    if (!call) continue;
    calls_.erase(*call);
    out.Fail(*call, because);
    Withdraw(*agreement, member);
    if (agreement->open->gathering.empty()) Abandon(*agreement);
  }
}

bool IndexAgreement::Forget(CallId call) {
  auto found = calls_.find(call);
  if (found == calls_.end()) return false;
  auto [agreement, member] = found->second;
  calls_.erase(found);
  agreement->open->gathering.Withdraw(member);
  Withdraw(*agreement, member);
  if (agreement->open->gathering.empty()) Abandon(*agreement);
  return true;
}

// Ending.

void IndexAgreement::Unlist(Agreement& agreement) {
  const Gathering& gathering = agreement.open->gathering;
  open_.erase(agreement.id);
  deadlines_.erase({gathering.deadline(), agreement.id});
  index_.Closed(&agreement, gathering.participants());
}

void IndexAgreement::Abandon(Agreement& agreement) {
  Unlist(agreement);
  agreement.open.reset();
  if (!agreement.ended) {
    const std::string id = agreement.id;
    agreements_.erase(id);
    return;
  }
  --agreement.counter;
  agreement.place = ended_.insert(ended_.end(), &agreement);
}

void IndexAgreement::Close(Agreement& agreement, const ErrorPtr& verdict, int64_t index,
                           Effects& out) {
  LOCKSTEP_CHECK(agreement.open != nullptr);
  for (const Gathering::Arrival& arrival : agreement.open->gathering.Waiting()) {
    calls_.erase(arrival.call);
    index_.WaitsNoLonger(arrival.member, &agreement);
    if (verdict) {
      out.Fail(arrival.call, verdict);
    } else {
      out.Succeed(arrival.call, IndexAgreed{agreement.counter, index});
    }
  }
  Unlist(agreement);
}

void IndexAgreement::End(Agreement& agreement, ErrorPtr verdict, int64_t index, Effects& out) {
  Close(agreement, verdict, index, out);
  const Participants list = agreement.open->gathering.participants();
  agreement.open.reset();
  record::IndexAgreed ended{
      .name = agreement.id, .counter = agreement.counter, .verdict = verdict, .index = index};
  if (list != everybody_) ended.members = *list;
  Keep(agreement, std::move(verdict), index, ended.members);
  out.records.push_back(std::move(ended));
}

void IndexAgreement::Keep(Agreement& agreement, ErrorPtr verdict, int64_t index,
                          std::vector<MemberIndex> members) {
  agreement.ended = true;
  agreement.verdict = std::move(verdict);
  agreement.index = index;
  agreement.members = std::move(members);
  agreement.place = ended_.insert(ended_.end(), &agreement);
}

void IndexAgreement::ForgetOldest() {
  while (ended_.size() > job_.options.kept_barriers_max) {
    const std::string id = ended_.front()->id;
    ended_.pop_front();
    agreements_.erase(id);
  }
  // Told from what is left of it, so that it outlives a snapshot.
  if (ended_.size() >= job_.options.kept_barriers_max) forgot_some_ = true;
}

Time IndexAgreement::NextDeadline() const {
  return deadlines_.empty() ? Time::Infinite() : deadlines_.begin()->first;
}

void IndexAgreement::ReachDeadline(Time now, Effects& out) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    Agreement& agreement = agreements_.at(deadlines_.begin()->second);
    const ErrorPtr expired = TimedOut(now, agreement);
    out.Tell(Severity::kWarning, absl::StrCat("job '", job_.options.job, "': ", expired->message),
             {NoticeKind::kBarrierFailed, {}});
    End(agreement, expired, 0, out);
  }
  ForgetOldest();
}

std::vector<MemberIndex> IndexAgreement::AwaitedBy(const Agreement& agreement) const {
  std::vector<MemberIndex> awaited;
  for (MemberIndex member : agreement.open->gathering.Awaited()) {
    if (membership_.Get(member).state == MemberState::kConnected) awaited.push_back(member);
  }
  return awaited;
}

ErrorPtr IndexAgreement::TimedOut(Time now, const Agreement& agreement) const {
  const Gathering& gathering = agreement.open->gathering;
  const std::vector<MemberIndex> awaited = AwaitedBy(agreement);
  return AgreementError(
      agreement.id, agreement.counter, absl::StatusCode::kDeadlineExceeded,
      Reason::kAgreementTimedOut,
      absl::StrCat("Agreement timed out: ", NameOf(agreement.id, agreement.counter), " after ",
                   FormatSpan(now - gathering.opened()), " with ", gathering.arrived(), "/",
                   gathering.size(), " members; the first was ",
                   gathering.first() ? job_.NameWithLife(*gathering.first()) : "nobody",
                   "; missing ", DescribeMissing(now, job_, membership_, awaited),
                   "; look at what the missing do, or give the agreement more time"),
      job_.ListNames(awaited));
}

void IndexAgreement::FailAll(const ErrorPtr& error, Effects& out) {
  const std::set<std::string> open = open_;  // closing one changes the set
  for (const std::string& id : open) {
    Agreement& agreement = agreements_.at(id);
    Close(agreement, error, 0, out);
    agreement.open.reset();
    Keep(agreement, error, 0, {});
  }
  ForgetOldest();
}

// Restoring.

absl::Status IndexAgreement::Apply(Time, const record::IndexAgreed& record) {
  Agreement& agreement = agreements_[record.name];
  if (agreement.ended) {
    if (record.counter <= agreement.counter) {
      return absl::InvalidArgumentError(absl::StrCat(NameOf(record.name, record.counter),
                                                     " ended after ",
                                                     NameOf(record.name, agreement.counter)));
    }
    ended_.erase(agreement.place);
  }
  agreement.id = record.name;
  agreement.counter = record.counter;
  Keep(agreement, record.verdict, record.index, record.members);
  ForgetOldest();
  return absl::OkStatus();
}

void IndexAgreement::Snapshot(std::vector<TimedRecord>& out) const {
  auto add = [&](const Agreement& agreement) {
    out.push_back({Time(), record::IndexAgreed{.name = agreement.id,
                                               .counter = agreement.open ? agreement.counter - 1
                                                                         : agreement.counter,
                                               .members = agreement.members,
                                               .verdict = agreement.verdict,
                                               .index = agreement.index}});
  };
  for (const Agreement* agreement : ended_) add(*agreement);
  for (const std::string& id : open_) {
    if (const Agreement& agreement = agreements_.at(id); agreement.ended) add(agreement);
  }
}

}  // namespace lockstep::coord
