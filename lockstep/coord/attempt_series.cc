#include "lockstep/coord/attempt_series.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/base/limits.h"

namespace lockstep::coord {
namespace {

// Service incarnations of two servers or two attempts never look alike.
ServiceIncarnation Draw(uint64_t seed, int64_t attempt) {
  return ServiceIncarnation(DrawNumber(seed, static_cast<uint64_t>(attempt)));
}

}  // namespace

AttemptSeries::AttemptSeries(JobRecord& job) : job_(job) {
  job_.attempt = 1;
  attempt_ = std::make_unique<Attempt>(job_, Draw(job_.options.incarnation_seed, job_.attempt));
}

bool AttemptSeries::OpensNext(MemberIndex member, Incarnation incarnation) const {
  // A former life was held up on the way: the attempt refuses it, and no other one begins.
  if (job_.lives.IsFormer(member, incarnation)) return false;
  // Processes of a failed attempt hear of its failure; only a new process opens the next one.
  if (attempt_->failed()) return !attempt_->membership().lives().Knew(member, incarnation);
  return attempt_->ended();
}

ErrorPtr AttemptSeries::CheckNext() const {
  if (job_.attempt < kAttemptMax) return nullptr;
  return MakeError(absl::StatusCode::kResourceExhausted, Reason::kLimitExceeded,
                   absl::StrCat("job '", job_.options.job, "' has had ", job_.attempt,
                                " attempts, which is the limit attempt_max: delete the job and "
                                "create it again"));
}

void AttemptSeries::OpenNext(Time now, int64_t number, Effects& out) {
  LOCKSTEP_CHECK(number > job_.attempt);  // (1)
  LOCKSTEP_DCHECK(number <= kAttemptMax);
  LOCKSTEP_DCHECK(over() || attempt_->empty());  // no member that is in loses its attempt
  LOCKSTEP_DCHECK(recorded_);                    // (3)
  // Before the number changes: these records and log entries are the old attempt's.
  attempt_->RecordEnd(now, out);
  const std::unique_ptr<Attempt> old = std::move(attempt_);
  // Above all revisions of the old store: a watcher that comes from there knows nothing here.
  const int64_t revision = old->keys().table().revision() + 1;
  job_.former = {job_.attempt, old->service(), old->root_cause()};
  job_.attempt = number;
  // Before the members of the next attempt come: what they said in the last one is void.
  job_.BeginAttempt();
  attempt_ =
      std::make_unique<Attempt>(job_, Draw(job_.options.incarnation_seed, job_.attempt), revision);
  LOCKSTEP_DCHECK(attempt_->service() != old->service());  // (2)
  out.records.push_back(record::AttemptBegan{job_.attempt, attempt_->service()});
  out.Tell(Severity::kInfo,
           absl::StrCat("job '", job_.options.job, "': attempt ", job_.attempt, " begins; attempt ",
                        job_.former->attempt, old->failed() ? " failed" : " ended"),
           {LogKind::kAttemptBegan, {}});
  // Last: calls that are parked in the old attempt are answered with the incarnation of the new
  // one.
  old->Close(WrongService(old->service(), false), revision, out);
}

ErrorPtr AttemptSeries::WrongService(ServiceIncarnation claimed, bool native) const {
  std::string text =
      absl::StrCat("wrong service incarnation: expecting ", attempt_->service().value(),
                   " but got ", claimed.value(), "; job '", job_.options.job, "' is at attempt ",
                   job_.attempt, ", the caller is not registered in it");
  const std::optional<FormerAttempt>& former = job_.former;
  // The job keeps the last attempt only: of an earlier one it can say nothing more.
  if (former && former->service == claimed) {
    absl::StrAppend(&text, "; attempt ", former->attempt, ", which it was in, is over: ",
                    former->root_cause ? former->root_cause->message : "all its members had left");
  }
  if (native) absl::StrAppend(&text, "; join again");
  return MakeError(Error{.code = absl::StatusCode::kInternal,
                         .reason = Reason::kWrongServiceIncarnation,
                         .message = std::move(text),
                         .right_service = attempt_->service()});
}

void AttemptSeries::Record(Effects& out) {
  if (recorded_) return;
  recorded_ = true;
  out.records.push_back(record::AttemptBegan{job_.attempt, attempt_->service()});
}

absl::Status AttemptSeries::Apply(const record::AttemptBegan& record) {
  // The first record may repeat the number that the constructor chose.
  if (recorded_ && record.attempt <= job_.attempt) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a record out of place: attempt ", record.attempt, " after attempt ", job_.attempt));
  }
  if (record.attempt < 0 || record.attempt > kAttemptMax) {
    return absl::InvalidArgumentError(absl::StrCat("a record out of place: attempt ",
                                                   record.attempt, " is over attempt_max (",
                                                   kAttemptMax, "), so no attempt can follow it"));
  }
  // Before the first record the attempt is the one that the constructor made: nobody was in it.
  const int64_t revision = recorded_ ? attempt_->keys().table().revision() + 1 : 1;
  if (recorded_) job_.former = {job_.attempt, attempt_->service(), attempt_->root_cause()};
  recorded_ = true;
  job_.attempt = record.attempt;
  job_.BeginAttempt();
  attempt_ = std::make_unique<Attempt>(job_, record.service, revision);
  return absl::OkStatus();
}

}  // namespace lockstep::coord
