#include "lockstep/launch/launcher.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/check.h"
#include "lockstep/base/limits.h"
#include "lockstep/launch/error_file.h"
#include "lockstep/launch/exit_code.h"
#include "lockstep/launch/guardian.h"
#include "lockstep/launch/last_lines.h"
#include "lockstep/launch/python_hook.h"

namespace lockstep::launch {
namespace {

// The guardian knows the group of every process; each is a member.
static_assert(static_cast<size_t>(kRunProcessesMax) <= kGuardianGroupsMax);
static_assert(kRunProcessesMax <= kMembersMax);
// An exit code of ours tells one cause, and is that of no signal.
static_assert(kExitUsage < kExitPreempted && kExitPreempted < kExitLockstepFailed);
static_assert(kExitLockstepFailed < kExitCannotExecute && kExitCannotExecute < kExitNotFound);
static_assert(kExitNotFound < kExitSignalBase);
// An exception reads the same, whether the hook told of it or the file that it left.
static_assert(kExceptionTextBytesMax == kErrorTextBytesMax);
// A terminal's six colours that are neither its ground nor its text, so that neighbours differ.
int ColorOf(MemberIndex member) {
  constexpr int kColors[] = {36, 33, 32, 35, 34, 31};
  return kColors[static_cast<size_t>(member.value()) % std::size(kColors)];
}

int ExitCodeOfFailedStart(const absl::Status& status) {
  if (absl::IsNotFound(status)) return kExitNotFound;
  if (absl::IsResourceExhausted(status)) return kExitLockstepFailed;
  return kExitCannotExecute;
}

}  // namespace

// One process with what watches it.
struct Launcher::Slot {
  MemberIndex member;
  std::unique_ptr<Process> process;
  std::optional<asio::posix::stream_descriptor> end;  // its pidfd
  std::unique_ptr<OutputPipe> output;
  std::unique_ptr<OutputPipe> errors;
  LastLines last_lines;
  std::string error_file;
  bool output_end_told = false;
  bool retired = false;  // another has taken its place
};

Launcher::Launcher(runtime::Loop& loop, Guardian& guardian, LaunchHost& host,
                   LauncherOptions options)
    : loop_(loop),
      guardian_(guardian),
      host_(host),
      options_(std::move(options)),
      supervisor_(options_.supervisor),
      timer_(loop),
      environment_(options_.environment) {
  environment_.role = options_.supervisor.role;
  if (options_.log_folder.empty()) return;
  logs_ = std::make_unique<LogWriter>(
      [this] {
        loop_.Post([this] {
          ResumeOutput();
          ResumeErrors();
        });
      },
      [this](int error) {
        loop_.Post([this, error] {
          host_.Say(absl::StrCat("cannot write a file below ", options_.log_folder, ": ",
                                 std::strerror(error),
                                 "; what it does not take is dropped, and the processes go on"));
        });
      });
}

Launcher::~Launcher() = default;

void Launcher::Start() {
  Handle(AttemptBegins{.first = environment_.placement.first,
                       .size = environment_.placement.local_size,
                       .number = environment_.attempt.number});
  StartAll();
}

void Launcher::Begin(RunEnvironment environment, std::optional<int32_t> failures) {
  // Not here, where one of the slots may be calling; and they stay, since a pipe may yet call.
  loop_.Post([this, environment = std::move(environment), failures]() mutable {
    if (finished_) return;
    for (auto& slot : slots_) Retire(slot);
    environment_ = std::move(environment);
    Handle(AttemptBegins{.first = environment_.placement.first,
                         .size = environment_.placement.local_size,
                         .failures = failures,
                         .number = environment_.attempt.number});
    StartAll();
  });
}

void Launcher::StartAll() {
  const Placement place = environment_.placement;
  slots_.clear();
  slots_.resize(static_cast<size_t>(place.local_size));
  for (int32_t local = 0; local < place.local_size; ++local) {
    if (!StartOne(MemberIndex(place.first + local), 0)) return;
  }
}

std::unique_ptr<Launcher::Slot>& Launcher::SlotOf(MemberIndex member) {
  LOCKSTEP_DCHECK(member.value() >= environment_.placement.first);
  LOCKSTEP_DCHECK(static_cast<size_t>(member.value() - environment_.placement.first) <
                  slots_.size());
  return slots_[static_cast<size_t>(member.value() - environment_.placement.first)];
}

void Launcher::Retire(std::unique_ptr<Slot>& slot) {
  if (slot == nullptr) return;
  slot->retired = true;
  slot->end.reset();
  retired_.push_back(std::move(slot));
}

bool Launcher::StartOne(MemberIndex member, int32_t restarts) {
  RunEnvironment own = environment_;
  own.attempt.restarts += restarts;
  const std::vector<std::string> environment =
      Format(MemberEnvironment(own, member.value() - environment_.placement.first));
  auto process =
      Process::Start(options_.command, environment, options_.signals, guardian_, member.value());
  if (!process.ok()) {
    Handle(StartFailed{.member = member,
                       .why = std::string(process.status().message()),
                       .exit_code = ExitCodeOfFailedStart(process.status())});
    return false;
  }
  std::unique_ptr<Slot>& place = SlotOf(member);
  Retire(place);
  place = std::make_unique<Slot>();
  Slot& slot = *place;
  slot.member = member;
  slot.process = std::move(*process);
  slot.error_file = ErrorFileOf(own, member.value() - environment_.placement.first);
  slot.output = MakePipe(slot, kOutputStream, slot.process->TakeOutput());
  slot.errors = MakePipe(slot, kErrorStream, slot.process->TakeErrors());
  slot.end.emplace(loop_.io(), slot.process->TakePidfd().release());
  WatchEnd(slot);
  Handle(ProcessStarted{.member = member, .pid = slot.process->pid()});
  return true;
}

LogWriter::File Launcher::OpenLog(MemberIndex member, const char* name) {
  auto file =
      LogWriter::Open(absl::StrCat(options_.log_folder, "/attempt_",
                                   environment_.attempt.restarts + 1, "/rank_", member.value()),
                      name);
  if (file.ok()) return *std::move(file);
  host_.Say(absl::StrCat(std::string(file.status().message()), "; what ", options_.supervisor.role,
                         "/", member.value(), " writes there is shown instead"));
  return nullptr;
}

std::unique_ptr<OutputPipe> Launcher::MakePipe(Slot& slot, Streams stream, runtime::UniqueFd fd) {
  const bool output = stream == kOutputStream;
  const int32_t local = slot.member.value() - environment_.placement.first;
  const std::string name = absl::StrCat(options_.supervisor.role, "/", slot.member.value());
  const bool color = output ? options_.color_output : options_.color_errors;
  LogWriter::File file;
  bool console = options_.routing.ToConsole(local, stream);
  if (logs_ != nullptr && options_.routing.ToFile(local, stream)) {
    file = OpenLog(slot.member, output ? "stdout.log" : "stderr.log");
    console |= file == nullptr;
  }
  return std::make_unique<OutputPipe>(
      loop_, std::move(fd),
      options_.prefix ? LinePrefixer(name, color ? ColorOf(slot.member) : -1) : LinePrefixer(),
      [this, output, console](std::string lines) {
        if (!console) return true;
        return output ? host_.WriteOutput(std::move(lines)) : host_.WriteErrors(std::move(lines));
      },
      [this, &slot, file](std::string_view bytes) {
        slot.last_lines.Feed(bytes);
        return file == nullptr || logs_->Push(file, bytes);
      },
      [this, &slot] { OnPipeEnd(slot); });
}

void Launcher::WatchEnd(Slot& slot) {
  slot.end->async_wait(
      asio::posix::stream_descriptor::wait_read, [this, &slot](const asio::error_code& error) {
        if (error) return;
        const std::optional<ExitStatus> ending = slot.process->PollExit();
        // An event of the descriptor that had this number before.
        if (!ending) return WatchEnd(slot);
        // First what it said, then that it ended. What else holds its output may
        // still write.
        slot.output->Drain();
        slot.errors->Drain();
        Handle(ProcessEnded{.member = slot.member,
                            .ending = *ending,
                            .last_lines = slot.last_lines.Take(),
                            .error = ending->succeeded() ? "" : ReadErrorFile(slot.error_file)});
      });
}

void Launcher::OnPipeEnd(Slot& slot) {
  if (slot.retired || slot.output_end_told || !slot.output->ended() || !slot.errors->ended())
    return;
  slot.output_end_told = true;
  Handle(OutputEnded{slot.member});
}

std::map<int32_t, std::vector<std::string>> Launcher::LastLinesOfAll() const {
  std::map<int32_t, std::vector<std::string>> lines;
  for (const auto& slot : slots_) {
    if (slot != nullptr) lines[slot->member.value()] = slot->last_lines.Take();
  }
  return lines;
}

bool Launcher::Holds(pid_t pid) const {
  const auto holds = [pid](const std::unique_ptr<Slot>& slot) {
    return slot != nullptr && slot->process->held() && slot->process->pid() == pid;
  };
  return std::any_of(slots_.begin(), slots_.end(), holds) ||
         std::any_of(retired_.begin(), retired_.end(), holds);
}

void Launcher::OnChildSignal() {
  for (const auto& slot : slots_) {
    if (slot == nullptr) continue;
    while (const std::optional<StateChange> change = slot->process->PollStateChange()) {
      if (change->stopped) {
        Handle(ProcessStopped{.member = slot->member, .signal = change->signal});
      } else {
        Handle(ProcessContinued{slot->member});
      }
    }
  }
}

void Launcher::OnException(const RaisedException& raised) {
  for (const auto& slot : slots_) {
    if (slot == nullptr || !slot->process->held() || slot->process->pid() != raised.pid) continue;
    return Handle(ExceptionRaised{.member = slot->member, .pid = raised.pid, .text = raised.text});
  }
}

void Launcher::ResumeOutput() {
  for (const auto& slot : slots_) {
    if (slot != nullptr) slot->output->Resume();
  }
}

void Launcher::ResumeErrors() {
  for (const auto& slot : slots_) {
    if (slot != nullptr) slot->errors->Resume();
  }
}

void Launcher::FlushLogs(absl::AnyInvocable<void()> done) {
  if (logs_ != nullptr) {
    logs_->Flush(std::move(done));
  } else {
    done();
  }
}

void Launcher::Handle(const Event& event) {
  const Effects effects = supervisor_.Handle(runtime::MonotonicNow(), event);
  timer_.Arm(supervisor_.NextDeadline(), [this] { Handle(DeadlineReached{}); });
  Apply(effects);
}

const Process* Launcher::HeldAt(MemberIndex member) const {
  const int64_t at = int64_t{member.value()} - environment_.placement.first;
  if (at < 0 || at >= static_cast<int64_t>(slots_.size())) return nullptr;
  const auto& slot = slots_[static_cast<size_t>(at)];
  return slot != nullptr && slot->process->held() ? slot->process.get() : nullptr;
}

std::vector<Launcher::Addressed> Launcher::Address(const std::vector<SignalGroup>& signals) const {
  std::vector<Addressed> addressed;
  for (const SignalGroup& signal : signals) {
    const Process* const process = HeldAt(signal.member);
    if (process != nullptr) addressed.push_back({signal, process->pid()});
  }
  return addressed;
}

void Launcher::Send(const std::vector<Addressed>& signals) {
  for (const auto& [signal, pid] : signals) {
    const Process* const process = HeldAt(signal.member);
    if (process != nullptr && process->pid() == pid) process->Signal(signal.signal);
  }
}

// Reports first: the coordinator tells the other processes, and each millisecond counts there. Of
// whom we end it has to know before they do: JAX takes SIGTERM for a preemption, and says so there.
void Launcher::Apply(const Effects& effects) {
  for (const ProcessReport& report : effects.reports) host_.Report(report);
  const bool ends = std::any_of(
      effects.reports.begin(), effects.reports.end(),
      [](const ProcessReport& report) { return report.kind == ProcessReport::Kind::kEnding; });
  const auto send = [this, signals = Address(effects.signals)] { Send(signals); };
  if (effects.tell_why) {
    host_.TellWhy(send);  // afterwards they are where the signal takes them
  } else if (ends && !effects.signals.empty()) {
    host_.WhenReported(send);
  } else {
    send();
  }
  for (const MemberIndex member : effects.releases) {
    LOCKSTEP_DCHECK(SlotOf(member) != nullptr);
    Slot& slot = *SlotOf(member);
    slot.process->Release();
    slot.output->Close();
    slot.errors->Close();
  }
  for (const std::string& sentence : effects.sentences) host_.Say(sentence);
  if (effects.ask_root_cause) host_.AskRootCause();
  if (effects.check_preemption) host_.CheckPreemption();
  if (effects.notice_signal) host_.NoticeSignal(*effects.notice_signal);
  for (const StartAgain& start : effects.starts) {
    // Not here, where one of the slots may be calling.
    loop_.Post([this, start] {
      if (!finished_) StartOne(start.member, start.restarts);
    });
  }
  if (effects.failure) host_.TellFailure(*effects.failure);
  if (effects.attempt_over) host_.AttemptOver(*effects.attempt_over);
  if (effects.restart) host_.Restarting(*effects.restart);
  finished_ |= effects.exit_code.has_value();
  if (effects.exit_code) host_.Finished(*effects.exit_code, *effects.result);
}

}  // namespace lockstep::launch
