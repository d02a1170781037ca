#include "lockstep/launch/preempted_run.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep::launch {

std::string PreemptedRun::Named() const {
  return absl::StrCat("preemption ", told_.id, " (", absl::StrJoin(told_.sources, ", "), ")");
}

std::vector<std::string> PreemptedRun::Take(Time now, const PreemptionTold& told) {
  std::vector<std::string> sentences;
  if (!former_) former_ = told.open || told.id == 0 ? told.attempt - 1 : told.attempt;
  if (told.id == 0 || told.attempt <= *former_ || told == told_) return sentences;
  const PreemptionTold before = std::exchange(told_, told);
  const bool another = before.id != told.id || before.attempt != told.attempt;
  death_ = told.left ? now + *told.left : Time::Infinite();
  if (another) {
    ended_at_ = Time::Infinite();
    host_lives_ = false;
  }
  if (told.near && (another || !before.near)) {
    std::string when;
    if (told.left) {
      when = absl::StrCat(" in ", absl::FormatDuration(absl::Trunc(*told.left, absl::Seconds(1))));
    }
    sentences.push_back(
        absl::StrCat(Named(), ": processes will be taken away", when, "; all save before"));
  }
  if (told.step && (another || !before.step)) {
    sentences.push_back(absl::StrCat(Named(), ": all save at step ", *told.step));
  }
  if (told.withdrawn && (another || !before.withdrawn)) {
    sentences.push_back(absl::StrCat(Named(), " was withdrawn"));
  }
  if (!told.open && (another || before.open)) {
    ended_at_ = now;
    sentences.push_back(Summary());
  }
  return sentences;
}

void PreemptedRun::Take(Time now, const HostTold& told) {
  const bool stood = std::exchange(host_stood_, told.standing);
  if (told_.id == 0 || told_.open) return;
  if (!told.standing) {
    host_lives_ |= stood;
  } else if (told.left) {
    death_ = now + *told.left;
  }
}

bool PreemptedRun::Explains(Time now) const {
  if (!told_.near || withdrawn() || told_.outcome == "cancelled") return false;
  if (told_.open) return true;
  Time until = ended_at_ + kExplains;
  if (!death_.is_infinite()) until = std::max(until, death_ + kExplains);
  return now < until;
}

bool PreemptedRun::Interrupted(Time now) const {
  return Explains(now) && told_.outcome != "finished";
}

Time PreemptedRun::OthersUntil(Time first, absl::Duration grace) const {
  if (told_.open && death_.is_infinite()) return Time::Infinite();
  Time since = first;
  if (!told_.open) since = std::max(since, ended_at_);
  // Stock members do not say when they have saved.
  const bool may_still_save = told_.open || told_.outcome == "synced";
  if (!may_still_save) return since + grace;
  return death_.is_infinite() ? since + kExplains : std::max(since, death_) + grace;
}

void PreemptedRun::NoteEnding(Time now, const ExitStatus& ending) {
  if (!ended_) ended_ = {now, ending, std::nullopt};
  if (ending.signal == 0 && !ended_->chosen) ended_->chosen = ending.exit_code;
}

std::optional<Time> PreemptedRun::first_ended() const {
  return ended_ ? std::optional(ended_->first) : std::nullopt;
}

int PreemptedRun::ExitCode(Time now, int preempt_exit_code) const {
  const bool ended_by_it = EndedAttempt(now);
  if (!ended_ && !ended_by_it) return 0;
  // Whoever chose one means it.
  if (ended_ && ended_->chosen) return *ended_->chosen;
  if (saved()) return ended_by_it ? preempt_exit_code : 0;
  return ended_ ? launch::ExitCode(ended_->how) : preempt_exit_code;
}

std::string PreemptedRun::Summary() const {
  if (told_.id == 0) return "";
  if (told_.open) return absl::StrCat(Named(), " has not ended");
  return absl::StrCat(Named(), ": ", told_.outcome, ": ", told_.text);
}

}  // namespace lockstep::launch
