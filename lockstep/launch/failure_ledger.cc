#include "lockstep/launch/failure_ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::launch {

bool FailureLedger::Note(Failure failure) {
  if (first_) return false;
  first_ = std::move(failure);
  return true;
}

std::optional<int> FailureLedger::exit_code() const {
  return first_ ? std::optional(first_->exit_code) : std::nullopt;
}

std::optional<MemberIndex> FailureLedger::member() const {
  const auto* member = first_ ? std::get_if<MemberIndex>(&first_->culprit) : nullptr;
  return member != nullptr ? std::optional(*member) : std::nullopt;
}

std::string FailureLedger::cause() const {
  const auto* cause = first_ ? std::get_if<std::string>(&first_->culprit) : nullptr;
  return cause != nullptr ? *cause : "";
}

std::string FailureLedger::Comparable(const ProcessTable& processes) const {
  if (!member()) return text();
  const ProcessRecord& process = processes.At(*member());
  if (!process.error.empty()) return process.error;
  return absl::StrCat(Describe(process.ending), ": ",
                      process.last_lines.empty() ? "" : process.last_lines.back());
}

bool FailureLedger::HappenedBefore(Time time) const {
  return first_ && (!first_->at || *first_->at < time);
}

bool FailureLedger::AwaitsRootCause(Time now, const ProcessTable& processes, bool decides,
                                    absl::Duration timeout, bool& ask) {
  if (!member() || root_cause_.answered()) return false;
  const auto suspects = std::count_if(
      processes.all().begin(), processes.all().end(),
      [](const ProcessRecord& process) { return process.FailedByItself() || process.LeftEarly(); });
  if (suspects < 2 && !decides) return false;
  return root_cause_.Awaits(now, timeout, ask);
}

void FailureLedger::TakeRootCause(const RootCauseTold& told, const ProcessTable& processes) {
  root_cause_.Answer();
  joined_ = told.joined;
  if (!member() || !told.member || !processes.Contains(*told.member)) return;
  const ProcessRecord& process = processes.At(*told.member);
  if (!process.FailedByItself() && !process.LeftEarly()) return;
  first_->culprit = process.member;
  // Who left early ended with 0: the exit code stays that of who failed by it.
  if (!process.LeftEarly()) first_->exit_code = ExitCode(process.ending);
}

}  // namespace lockstep::launch
