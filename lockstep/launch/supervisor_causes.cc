// What the supervisor takes for the cause of a failure: exceptions, the server's end, what the
// coordinator says.
#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lockstep/launch/exit_code.h"
#include "lockstep/launch/supervisor.h"

namespace lockstep::launch {
namespace {

// With which Python ends over an exception.
constexpr int kExitRaised = 1;

// In what processes say that fail by a server that is gone: of Python, torch, JAX, and ours.
constexpr std::string_view kWordsOfConnections[] = {
    "ConnectionError",   "ConnectionResetError", "ConnectionRefusedError", "ConnectionAbortedError",
    "BrokenPipeError",   "DistNetworkError",     "DistStoreError",         "DistBackendError",
    "UNAVAILABLE",       "Unavailable",          "DEADLINE_EXCEEDED",      "Broken pipe",
    "Connection closed", "Connection reset",     "Connection refused",     "oordination service"};

bool SpeaksOfConnections(std::string_view error) {
  return std::any_of(std::begin(kWordsOfConnections), std::end(kWordsOfConnections),
                     [error](std::string_view word) { return error.find(word) != error.npos; });
}

}  // namespace

// A process that loses a peer may raise before we see that the peer has ended, so the exception
// waits for that.
void Supervisor::On(Time now, const ExceptionRaised& event, Effects&) {
  Process& process = At(event.member);
  if (process.state != ProcessState::kRunning || process.pid != event.pid || process.raised) return;
  process.raised = now;
  process.error = event.text;
}

Time Supervisor::TellRaisedAt(const Process& process) const {
  if (process.state != ProcessState::kRunning || !process.raised || process.raise_told) {
    return Time::Infinite();
  }
  return *process.raised + options_.raised_window;
}

// Exit handlers may wait for the others for minutes, so the escalation begins here and not at the
// process's end.
void Supervisor::TellRaised(Time now, Process& process, Effects& out) {
  const MemberIndex member = MemberOf(process);
  ReportRaised(process, out);
  std::string sentence = absl::StrCat(Name(member, process), " raised ", process.error);
  if (first_failure_) return;  // it follows, and stands in the table of ends
  if (preempted_.Explains(now) || told_to_end_ || called_off_) {
    out.sentences.push_back(std::move(sentence));
  } else if (MayRestart(process)) {
    process.end_by = now + options_.grace;
    out.sentences.push_back(absl::StrCat(sentence, "; it has ", Spell(options_.grace), " to end"));
  } else if (ServerExplains(now, process)) {
    cause_ = server_text_;
    FailFirst(now, kExitLockstepFailed, absl::StrCat(server_text_, "; then ", sentence), out);
  } else {
    first_failed_ = member;
    FailFirst(now, kExitRaised, std::move(sentence), out);
  }
}

void Supervisor::ReportRaised(Process& process, Effects& out) {
  if (!process.raised || std::exchange(process.raise_told, true)) return;
  out.reports.push_back(
      {ProcessReport::Kind::kEnding, MemberOf(process), process.pid, {}, process.error});
}

void Supervisor::EndRaised(Time now, Effects& out) {
  for (size_t i = 0; i < processes_.size(); ++i) {
    Process& process = processes_[i];
    if (now >= TellRaisedAt(process)) TellRaised(now, process, out);
    if (process.state != ProcessState::kRunning || now < process.end_by) continue;
    const bool again = process.sent != 0;
    process.sent = again ? SIGKILL : SIGTERM;
    process.end_by = again ? Time::Infinite() : now + options_.terminate_grace;
    out.reports.push_back({ProcessReport::Kind::kEnding, Member(i), process.pid, {}});
    out.signals.push_back({Member(i), process.sent});
  }
}

// Who does not need it any more may well succeed; the others fail by themselves.
void Supervisor::On(Time now, const ServerEnded& event, Effects& out) {
  server_ended_ = server_lost_ = now;
  server_text_ = absl::StrCat("the coordinator's server ", Describe(event.ending),
                              " although nobody asked it to");
  if (CountRunning() == 0) return;
  out.sentences.push_back(
      absl::StrCat(server_text_, "; processes that need it fail, the others go on"));
}

void Supervisor::On(Time now, const ServerLost& event, Effects& /*out*/) {
  if (server_ended_) return;
  server_lost_ = now;
  server_found_.reset();
  server_text_ = absl::StrCat("the connection to the coordinator's server broke: ", event.why);
}

void Supervisor::On(Time now, const ServerFound& /*event*/, Effects& /*out*/) {
  if (!server_ended_) server_found_ = now;
}

// What a process says of itself is its own cause, unless that is a connection: the server is blamed
// for no bug. Who keeps silent may have died of the server, until it outlived that.
bool Supervisor::ServerExplains(Time now, const Process& process) const {
  if (!server_lost_ || told_to_end_ || first_failure_) return false;
  if (now - *server_lost_ > options_.server_explains) return false;
  if (!process.error.empty()) return SpeaksOfConnections(process.error);
  return !server_found_ || now - *server_found_ < options_.server_survived;
}

bool Supervisor::FailedByItself(const Process& process) {
  return process.state == ProcessState::kReleased && !process.ending.succeeded() &&
         !process.given_up &&
         (process.raised || process.ending.signal == 0 || process.ending.signal != process.sent);
}

// Asked where there is a choice, or where it decides whether another attempt makes sense.
bool Supervisor::AwaitsRootCause(Time now, Effects& out) {
  if (!options_.asks_root_cause || !first_failed_ || root_cause_told_) return false;
  const auto suspects =
      std::count_if(processes_.begin(), processes_.end(), [](const Process& process) {
        return FailedByItself(process) || (EndedWell(process) && !process.before_failure.empty());
      });
  const bool last = MayRestart() && SameFailures() + 1 >= options_.same_failures_max;
  if (suspects < 2 && !last) return false;
  if (root_cause_until_) return now < *root_cause_until_;
  root_cause_until_ = now + options_.root_cause_timeout;
  out.ask_root_cause = true;
  return true;
}

void Supervisor::On(Time, const RootCauseTold& event, Effects&) {
  root_cause_told_ = true;
  joined_ = event.joined;
  if (!event.member) return;
  const int64_t at = int64_t{event.member->value()} - first_;
  if (at < 0 || at >= static_cast<int64_t>(processes_.size())) return;
  const Process& process = At(*event.member);
  if (!first_failed_) return;
  const bool went_early = EndedWell(process) && !process.before_failure.empty();
  if (!FailedByItself(process) && !went_early) return;
  first_failed_ = event.member;
  if (!went_early) first_failure_ = ExitCode(process.ending);
}

std::string Supervisor::FailureText() const {
  if (!first_failed_) return first_failure_text_;
  const Process& process = processes_[static_cast<size_t>(first_failed_->value() - first_)];
  if (!process.error.empty()) return process.error;
  return absl::StrCat(Describe(process.ending), ": ",
                      process.last_lines.empty() ? "" : process.last_lines.back());
}

int32_t Supervisor::SameFailures() const {
  if (!first_failure_) return 0;
  const std::string text = FailureText();
  int32_t count = 0;
  for (auto it = failure_texts_.rbegin(); it != failure_texts_.rend() && *it == text; ++it) ++count;
  return count;
}

// Whoever had trained for long, or was among the others, may fail by chance in the same words.
bool Supervisor::GivesUp(Time now) const {
  // Once the next attempt waits for its time, that is decided.
  return !restart_at_ && FailedEarly(now) && joined_ == false &&
         SameFailures() + 1 >= options_.same_failures_max;
}

bool Supervisor::FailedEarly(Time now) const {
  return now - attempt_began_.value_or(now) < options_.early_failure;
}

bool Supervisor::BacksOff(Time now, Effects& out) {
  if (restart_at_) return now < *restart_at_;
  failed_early_ = FailedEarly(now);
  const bool quick = now - attempt_began_.value_or(now) < options_.quick_failure;
  quick_failures_ = quick ? quick_failures_ + 1 : 0;
  absl::Duration wait;
  if (quick_failures_ > 1) {
    wait = options_.restart_backoff;
    for (int32_t i = 2; i < quick_failures_ && wait < options_.restart_backoff_max; ++i) wait *= 2;
    wait = std::min(wait, options_.restart_backoff_max);
  }
  restart_at_ = now + wait;
  if (wait > absl::ZeroDuration()) {
    out.sentences.push_back(
        absl::StrFormat("%d failures in a row within %s: the next attempt begins in %s",
                        quick_failures_, Spell(options_.quick_failure), Spell(wait)));
  }
  return now < *restart_at_;
}

}  // namespace lockstep::launch
