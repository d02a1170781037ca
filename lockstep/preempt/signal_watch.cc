#include "lockstep/preempt/signal_watch.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "lockstep/base/check.h"
#include "lockstep/preempt/descriptor.h"

namespace lockstep::preempt {
namespace {

struct Name {
  int signal;
  absl::string_view name;
};
constexpr Name kNames[] = {{SIGTERM, "TERM"}, {SIGINT, "INT"},   {SIGHUP, "HUP"},
                           {SIGQUIT, "QUIT"}, {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"},
                           {SIGXCPU, "XCPU"}};

// What a handler tells of a signal; small enough for a pipe to take it whole.
struct SignalReport {
  int signal;
  pid_t from;
  uid_t user;
};

static_assert(sizeof(SignalReport) <= PIPE_BUF);

// What the handler knows of a signal. Never freed: a handler may run at any moment.
struct Slot {
  // Of the process that watches; 0: nobody does. Everything else is written while it is 0.
  std::atomic<pid_t> owner = 0;
  std::atomic<int> count = 0;
  // Handlers between looking at `owner` and having written: who closes the pipe waits for them.
  std::atomic<int> writing = 0;
  int write_end = -1;
  bool chain = true;
  struct sigaction previous = {};
};
static_assert(std::atomic<pid_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

static_assert(NSIG <= 65, "each signal has its slot");

std::array<Slot, 65>& Slots() {
  static std::array<Slot, 65>& slots = *new std::array<Slot, 65>;
  return slots;
}

// As if our handler were not there. Async-signal-safe.
void ActAsBefore(const Slot& slot, int signal, siginfo_t* info, void* context) {
  const struct sigaction& previous = slot.previous;
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler == SIG_DFL) {
    ::sigaction(signal, &previous, nullptr);
    ::raise(signal);  // comes when this handler has returned
  } else if (previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  }
}

bool HasHandler(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 ||
         (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

void Report(Slot& slot, int signal, const siginfo_t* info) {
  SignalReport report = {.signal = signal, .from = 0, .user = 0};
  if (info != nullptr && (info->si_code == SI_USER || info->si_code == SI_TKILL)) {
    report.from = info->si_pid;
    report.user = info->si_uid;
  }
  [[maybe_unused]] const ssize_t n = ::write(slot.write_end, &report, sizeof report);
}

void Handle(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  Slot& slot = Slots()[static_cast<size_t>(signal)];
  slot.writing.fetch_add(1);
  const bool first = slot.owner.load() == ::getpid() && slot.count.fetch_add(1) == 0;
  const bool chain = slot.chain;
  if (first) Report(slot, signal, info);
  slot.writing.fetch_sub(1);
  if (!first || (chain && HasHandler(slot.previous))) ActAsBefore(slot, signal, info, context);
  errno = error;
}

bool IsOurs(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == &Handle;
}

class SignalWatch final : public Watch {
 public:
  explicit SignalWatch(SignalOptions options) : options_(std::move(options)) {}
  ~SignalWatch() override { Close(); }

  absl::Status Open() override {
    LOCKSTEP_DCHECK(installed_.empty());  // opened once, or closed in between
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
      return absl::ResourceExhaustedError("cannot make a pipe");
    }
    read_end_ = Descriptor(ends[0]);
    write_end_ = Descriptor(ends[1]);
    for (const int signal : options_.signals) {
      LOCKSTEP_DCHECK(signal > 0 && signal < NSIG);
      Slot& slot = Slots()[static_cast<size_t>(signal)];
      if (slot.owner.load() == ::getpid()) {
        Close();
        return absl::AlreadyExistsError(
            absl::StrCat(SignalName(signal), " is watched in this process already"));
      }
      Install(signal, slot);
      installed_.push_back(signal);
    }
    return absl::OkStatus();
  }

  void Close() override {
    for (const int signal : installed_) {
      Slot& slot = Slots()[static_cast<size_t>(signal)];
      const bool ours = slot.owner.exchange(0) == ::getpid();
      // In a forked child those that the parent counted are not there.
      while (ours && slot.writing.load() > 0) std::this_thread::yield();
      struct sigaction current = {};
      ::sigaction(signal, nullptr, &current);
      // Who took our place may call us; then we only pass on.
      if (IsOurs(current)) ::sigaction(signal, &slot.previous, nullptr);
    }
    installed_.clear();
  }

  Sight Look(Clock clock, int interrupt) override {
    const Time until = clock().steady + options_.interval;
    if (looked_ && WaitFor(read_end_.get(), POLLIN, interrupt, until) == Waited::kInterrupted) {
      return {.health = absl::CancelledError("broken off")};
    }
    looked_ = true;
    SignalReport report = {};
    while (::read(read_end_.get(), &report, sizeof report) == sizeof report) {
      std::string text = absl::StrCat("got ", SignalName(report.signal));
      if (report.from != 0) {
        absl::StrAppend(&text, " from process ", report.from, " of user ", report.user);
      }
      notices_.push_back({.id = SignalName(report.signal),
                          .kind = NoticeKind::kPreempt,
                          .lead = options_.lead,
                          .text = text});
    }
    return {.health = Installed(), .notices = notices_};
  }

  std::string detail() const override {
    return absl::StrJoin(options_.signals, ", ",
                         [](std::string* out, int signal) { out->append(SignalName(signal)); });
  }

 private:
  void Install(int signal, Slot& slot) {
    // Left over from the parent that forked us.
    if (slot.owner.exchange(0) != 0) slot.writing = 0;
    ::sigaction(signal, nullptr, &slot.previous);
    // Someone put our handler back after we had left: there is nothing behind it that we know.
    if (IsOurs(slot.previous)) slot.previous = DefaultAction();
    slot.count = 0;
    slot.chain = options_.chain;
    slot.write_end = write_end_.get();
    slot.owner = ::getpid();
    struct sigaction ours = {};
    ours.sa_sigaction = &Handle;
    ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    ours.sa_mask = slot.previous.sa_mask;
    LOCKSTEP_CHECK(::sigaction(signal, &ours, nullptr) == 0);
  }

  static struct sigaction DefaultAction() {
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    return action;
  }

  absl::Status Installed() const {
    for (const int signal : options_.signals) {
      struct sigaction current = {};
      ::sigaction(signal, nullptr, &current);
      if (IsOurs(current) || Slots()[static_cast<size_t>(signal)].count.load() > 0) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("the handler of ", SignalName(signal),
                       " was replaced; whether the new one passes it on cannot be known"));
    }
    return absl::OkStatus();
  }

  const SignalOptions options_;
  Descriptor read_end_;
  Descriptor write_end_;
  std::vector<int> installed_;
  bool looked_ = false;  // once without waiting, so that health is known
  std::vector<Notice> notices_;
};

}  // namespace

std::unique_ptr<Watch> MakeSignalWatch(SignalOptions options) {
  return std::make_unique<SignalWatch>(std::move(options));
}

std::string SignalName(int signal) {
  for (const Name& row : kNames) {
    if (row.signal == signal) return absl::StrCat("SIG", row.name);
  }
  return absl::StrCat("signal ", signal);
}

absl::StatusOr<std::vector<int>> ParseSignals(absl::string_view text) {
  std::vector<int> signals;
  for (absl::string_view word : absl::StrSplit(text, '+')) {
    word = absl::StripPrefix(word, "SIG");
    int found = 0;
    for (const Name& row : kNames) {
      if (row.name == word) found = row.signal;
    }
    if (found == 0) {
      return absl::InvalidArgumentError(
          "names signals with + between them: TERM, INT, HUP, QUIT, USR1, USR2, XCPU");
    }
    if (std::find(signals.begin(), signals.end(), found) == signals.end()) {
      signals.push_back(found);
    }
  }
  return signals;
}

}  // namespace lockstep::preempt
