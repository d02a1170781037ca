// What the supervisor says about the ends of processes: the table at the end of a run.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lockstep/launch/supervisor.h"

namespace lockstep::launch {
namespace {

// Each below the sentence that they follow.
std::string LastLines(const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  return absl::StrCat("; the last that it wrote:\n  | ", absl::StrJoin(lines, "\n  | "));
}

}  // namespace

// Whose failure the others followed from stands first, with what it said last.
void Supervisor::Finish(int exit_code, std::string sentence, Effects& out) {
  finished_ = true;
  for (std::string& past : past_) out.sentences.push_back(std::move(past));
  if (first_failed_) {
    const Process& cause = At(*first_failed_);
    out.sentences.push_back(
        absl::StrCat(Verdict(*first_failed_, cause), LastLines(cause.last_lines)));
  }
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (Member(i) != first_failed_) out.sentences.push_back(Verdict(Member(i), processes_[i]));
  }
  out.exit_code = exit_code;
  out.sentences.push_back(std::move(sentence));
}

std::string Supervisor::EndingText(MemberIndex member, const Process& process) const {
  const std::string text =
      absl::StrFormat("%s %s after %s", Name(member, process),
                      process.given_up ? "did not end even by SIGKILL" : Describe(process.ending),
                      Spell(process.ended - process.started));
  return process.error.empty() ? text : absl::StrCat(text, ": ", process.error);
}

std::string Supervisor::Verdict(MemberIndex member, const Process& process) const {
  if (process.state == ProcessState::kNotStarted) {
    return absl::StrFormat("%s/%d was not started", options_.role, member.value());
  }
  std::string text = EndingText(member, process);
  if (process.ending.signal != 0 && process.ending.signal == process.sent) {
    absl::StrAppend(&text, " (sent by lockstep run)");
  }
  if (first_failed_ == member) absl::StrAppend(&text, " <- the first to fail");
  return text;
}

}  // namespace lockstep::launch
