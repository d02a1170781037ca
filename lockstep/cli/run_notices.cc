#include "lockstep/cli/run_notices.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/base/mutex.h"
#include "lockstep/preempt/host.h"
#include "lockstep/preempt/kubernetes_source.h"
#include "lockstep/preempt/signal_watch.h"

namespace lockstep::cli {
namespace {

// Between the beginnings of two watches at least: with an attempt end all watches of it, and the
// next one should miss nothing of what follows.
constexpr absl::Duration kWatchEvery = absl::Milliseconds(200);

}  // namespace

// The source `signal` of a program that takes its signals itself, from a descriptor.
class SignalsOfRun : public preempt::Source {
 public:
  explicit SignalsOfRun(preempt::SignalOptions options) : options_(std::move(options)) {}

  const std::vector<int>& signals() const { return options_.signals; }
  void Take(int signal) {
    const MutexLock lock(mutex_);
    if (!listener_.on_event) {
      early_.push_back(signal);
      return;
    }
    Tell(signal);
  }

  const std::string& name() const override { return name_; }
  absl::Status Start(preempt::SourceListener listener) override {
    const MutexLock lock(mutex_);
    listener_ = std::move(listener);
    health_.healthy = true;
    health_.last_success = runtime::MonotonicNow();
    if (listener_.on_health) listener_.on_health(health_);
    for (const int signal : std::exchange(early_, {})) Tell(signal);
    return absl::OkStatus();
  }
  void Stop() override {
    const MutexLock lock(mutex_);
    listener_ = {};
  }
  preempt::SourceHealth health() const override {
    const MutexLock lock(mutex_);
    return health_;
  }
  void Acknowledge(const std::string&) override {}

 private:
  void Tell(int signal) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ++health_.notices;
    listener_.on_event({.source = name(),
                        .id = preempt::SignalName(signal),
                        .kind = preempt::NoticeKind::kPreempt,
                        .left = options_.lead,
                        .text = absl::StrCat("lockstep run got ", preempt::SignalName(signal))});
  }

  const preempt::SignalOptions options_;
  const std::string name_ = "signal";
  mutable Mutex mutex_;
  preempt::SourceListener listener_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> early_ ABSL_GUARDED_BY(mutex_);  // that came before `Start`
  preempt::SourceHealth health_ ABSL_GUARDED_BY(mutex_){.source = name_,
                                                        .detail = "the first to lockstep run"};
};

absl::StatusOr<std::unique_ptr<RunNotices>> RunNotices::Make(
    const std::vector<std::string>& specs) {
  std::unique_ptr<RunNotices> self(new RunNotices);
  preempt::SourceRegistry registry = preempt::BuiltinSources();
#if defined(LOCKSTEP_HAS_KUBERNETES)
  preempt::AddKubernetes(registry);
#endif
  registry.Replace(
      "signal",
      [raw = self.get()](preempt::OptionReader& options,
                         const preempt::Host&) -> absl::StatusOr<std::unique_ptr<preempt::Source>> {
        auto source = std::make_unique<SignalsOfRun>(preempt::ReadSignalOptions(options));
        raw->signals_ = source.get();
        return source;
      });
  auto sources = client::HostSources::Make(
      {.specs = specs,
       .say =
           [raw = self.get()](std::string sentence) {
             raw->loop_->Post(
                 [raw, sentence = std::move(sentence)] { raw->callbacks_.say(sentence); });
           },
       .changed =
           [raw = self.get()](bool standing, std::optional<absl::Duration> left) {
             raw->loop_->Post([raw, standing, left] { raw->callbacks_.host({standing, left}); });
           }},
      registry, preempt::ThisHost());
  if (!sources.ok()) return sources.status();
  self->sources_ = *std::move(sources);
  return self;
}

RunNotices::~RunNotices() {
  stopping_ = true;
  if (opening_.joinable()) opening_.join();
  watch_.reset();
  sources_.reset();
}

const std::vector<int>& RunNotices::signals() const {
  static const std::vector<int>& none = *new std::vector<int>;
  return signals_ != nullptr ? signals_->signals() : none;
}

void RunNotices::Start(runtime::Loop& loop, const launch::JobAddress& address, int32_t first,
                       int32_t size, Callbacks callbacks) {
  loop_ = &loop;
  callbacks_ = std::move(callbacks);
  again_ = std::make_unique<runtime::Timer>(loop);
  first_ = first;
  size_ = size;
  // On a thread of its own, since it waits for the server, for as long as we run.
  opening_ = std::thread([this, address] {
    auto session = Session::Open({.address = address.link,
                                  .job = address.job,
                                  .who = "lockstep run",
                                  .timeout = absl::InfiniteDuration(),
                                  .grace = absl::InfiniteDuration(),
                                  .interrupted = [this]() -> absl::Status {
                                    return stopping_ ? absl::CancelledError("the run is over")
                                                     : absl::OkStatus();
                                  }});
    if (stopping_) return;
    loop_->Post([this, session = std::move(session)]() mutable { Opened(std::move(session)); });
  });
}

void RunNotices::Opened(absl::StatusOr<std::unique_ptr<Session>> session) {
  if (!session.ok()) {
    return callbacks_.say(absl::StrCat("preemptions of the job cannot be followed: ",
                                       std::string(session.status().message())));
  }
  session_ = *std::move(session);
  WatchJob();
  const absl::Status status = sources_->Start(session_->preemptions(), Members(), "");
  if (!status.ok()) {
    callbacks_.say(
        absl::StrCat("a source of --notice failed to start: ", std::string(status.message())));
  }
}

std::vector<int32_t> RunNotices::Members() const {
  std::vector<int32_t> members(static_cast<size_t>(size_));
  std::iota(members.begin(), members.end(), first_);
  return members;
}

void RunNotices::WatchJob() {
  if (session_ == nullptr) return;
  const uint64_t number = ++watches_;
  watched_at_ = runtime::MonotonicNow();
  watch_.reset();
  watch_ = session_->preemptions().Watch([this, number](absl::StatusOr<PreemptionNotice> notice) {
    loop_->Post([this, number, notice = std::move(notice)] {
      if (number == watches_) Take(notice);
    });
  });
}

void RunNotices::Take(absl::StatusOr<PreemptionNotice> notice) {
  if (!notice.ok()) {
    again_->Arm(std::max(runtime::MonotonicNow(), watched_at_ + kWatchEvery), [this] {
      WatchJob();
      sources_->TellAgain();
    });
    return;
  }
  const auto which = std::make_pair(notice->attempt, notice->id);
  if (notice->id != 0 && !notice->open && which != ended_) {
    ended_ = which;
    sources_->PreemptionEnded(notice->outcome == "saved");
  }
  callbacks_.told(ToTold(*notice));
}

launch::PreemptionTold RunNotices::ToTold(const PreemptionNotice& notice) const {
  return {.attempt = notice.attempt,
          .id = notice.id,
          .open = notice.open,
          .near = notice.phase != "none" && notice.phase != "pending",
          .withdrawn = notice.withdrawn,
          .step = notice.step,
          .outcome = notice.open ? "" : notice.outcome,
          .text = notice.text,
          .sources = notice.sources,
          .left = notice.left};
}

void RunNotices::Check() {
  if (session_ == nullptr) return callbacks_.checked(std::nullopt);
  session_->preemptions().GetAsync({}, [this](absl::StatusOr<PreemptionNotice> notice) {
    if (absl::IsCancelled(notice.status())) return;  // it is over with us
    loop_->Post([this, notice = std::move(notice)] {
      callbacks_.checked(notice.ok() ? std::optional(ToTold(*notice)) : std::nullopt);
    });
  });
}

void RunNotices::TakeSignal(int signal) {
  if (signals_ != nullptr) signals_->Take(signal);
}

void RunNotices::Restarted(int32_t first, int32_t size) {
  first_ = first;
  size_ = size;
  sources_->SetMembers(Members());
  WatchJob();
  sources_->TellAgain();
}

}  // namespace lockstep::cli
