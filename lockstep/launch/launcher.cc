#include "lockstep/launch/launcher.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/launch/exit_code.h"

namespace lockstep::launch {
namespace {

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
      timer_(loop) {}

Launcher::~Launcher() = default;

void Launcher::Start() {
  slots_.reserve(static_cast<size_t>(options_.supervisor.size));
  for (int32_t i = 0; i < options_.supervisor.size; ++i) {
    if (!StartOne(MemberIndex(i))) return;
  }
}

bool Launcher::StartOne(MemberIndex member) {
  const SupervisorOptions& job = options_.supervisor;
  const std::vector<std::string> environment = Format(MemberEnvironment(
      options_.inherited, options_.address, job.role, member, job.size, options_.run_id));
  auto process = Process::Start(options_.command, environment, options_.signals, guardian_);
  if (!process.ok()) {
    Handle(StartFailed{.member = member,
                       .why = std::string(process.status().message()),
                       .exit_code = ExitCodeOfFailedStart(process.status())});
    return false;
  }
  auto owned = std::make_unique<Slot>();
  Slot& slot = *owned;
  slots_.push_back(std::move(owned));
  slot.member = member;
  slot.process = std::move(*process);
  const std::string name = absl::StrCat(job.role, "/", member.value());
  const int color = ColorOf(member);
  slot.output = std::make_unique<OutputPipe>(
      loop_, slot.process->TakeOutput(), LinePrefixer(name, options_.color_output ? color : -1),
      [this](std::string lines) { return host_.WriteOutput(std::move(lines)); },
      [this, &slot] { OnPipeEnd(slot); });
  slot.errors = std::make_unique<OutputPipe>(
      loop_, slot.process->TakeErrors(), LinePrefixer(name, options_.color_errors ? color : -1),
      [this](std::string lines) { return host_.WriteErrors(std::move(lines)); },
      [this, &slot] { OnPipeEnd(slot); });
  slot.end.emplace(loop_.io(), slot.process->TakePidfd().release());
  WatchEnd(slot);
  Handle(ProcessStarted{.member = member, .pid = slot.process->pid()});
  return true;
}

void Launcher::WatchEnd(Slot& slot) {
  slot.end->async_wait(asio::posix::stream_descriptor::wait_read,
                       [this, &slot](const asio::error_code& error) {
                         if (error) return;
                         const std::optional<Ending> ending = slot.process->PollEnding();
                         // An event of the descriptor that had this number before.
                         if (!ending) return WatchEnd(slot);
                         // First what it said, then that it ended. What else holds its output may
                         // still write.
                         slot.output->Drain();
                         slot.errors->Drain();
                         Handle(ProcessEnded{.member = slot.member, .ending = *ending});
                       });
}

void Launcher::OnPipeEnd(Slot& slot) {
  if (slot.retired || slot.output_end_told || !slot.output->ended() || !slot.errors->ended())
    return;
  slot.output_end_told = true;
  Handle(OutputEnded{slot.member});
}

void Launcher::OnChildSignal() {
  for (const auto& slot : slots_) {
    while (const std::optional<StateChange> change = slot->process->PollStateChange()) {
      if (change->stopped) {
        Handle(ProcessStopped{.member = slot->member, .signal = change->signal});
      } else {
        Handle(ProcessContinued{slot->member});
      }
    }
  }
}

void Launcher::OnSignal(int signal) { Handle(SignalReceived{signal}); }

void Launcher::OnServerEnded(Ending ending) { Handle(ServerEnded{ending}); }
void Launcher::OnRootCause(std::optional<MemberIndex> member) { Handle(RootCauseTold{member}); }

void Launcher::OnPreemption(const PreemptionTold& told) { Handle(told); }

void Launcher::OnHost(const HostTold& told) { Handle(told); }

void Launcher::OnPreemptionChecked(const std::optional<PreemptionTold>& told) {
  Handle(PreemptionChecked{told});
}

void Launcher::ResumeOutput() {
  for (const auto& slot : slots_) slot->output->Resume();
}

void Launcher::ResumeErrors() {
  for (const auto& slot : slots_) slot->errors->Resume();
}

void Launcher::Handle(const Event& event) {
  const Effects effects = supervisor_.Handle(runtime::MonotonicNow(), event);
  timer_.Arm(supervisor_.NextDeadline(), [this] { Handle(DeadlineReached{}); });
  Apply(effects);
}

// Reports first: the coordinator tells the other processes, and each millisecond counts there.
void Launcher::Apply(const Effects& effects) {
  for (const ProcessReport& report : effects.reports) host_.Report(report);
  for (const SignalGroup& signal : effects.signals) {
    slots_[static_cast<size_t>(signal.member.value())]->process->Signal(signal.signal);
  }
  for (const MemberIndex member : effects.releases) {
    Slot& slot = *slots_[static_cast<size_t>(member.value())];
    slot.process->Release();
    slot.output->Close();
    slot.errors->Close();
  }
  for (const std::string& sentence : effects.sentences) host_.Say(sentence);
  if (effects.ask_root_cause) host_.AskRootCause();
  if (effects.check_preemption) host_.CheckPreemption();
  if (effects.notice_signal) host_.NoticeSignal(*effects.notice_signal);
  if (effects.restart) {
    host_.Restarting();
    // Not here, where one of the slots may be calling; and they stay, since a pipe may yet call.
    loop_.Post([this] {
      for (auto& slot : slots_) {
        slot->retired = true;
        slot->end.reset();
        retired_.push_back(std::move(slot));
      }
      slots_.clear();
      Start();
    });
  }
  if (effects.exit_code) host_.Finished(*effects.exit_code);
}

}  // namespace lockstep::launch
