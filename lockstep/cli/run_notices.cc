#include "lockstep/cli/run_notices.h"

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lockstep/preempt/host.h"
#include "lockstep/preempt/kubernetes_source.h"
#include "lockstep/preempt/signal_watch.h"

namespace lockstep::cli {
namespace {

launch::PreemptionTold ToTold(const PreemptionNotice& notice) {
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

}  // namespace

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
        auto source = std::make_unique<SignalSource>(preempt::ReadSignalOptions(options));
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

const std::vector<int>& RunNotices::signals() const {
  static const std::vector<int>& none = *new std::vector<int>;
  return signals_ != nullptr ? signals_->signals() : none;
}

void RunNotices::Start(runtime::Loop& loop, const launch::JobAddress& address, MemberRange members,
                       Callbacks callbacks) {
  loop_ = &loop;
  callbacks_ = std::move(callbacks);
  members_ = members;
  opener_.emplace(
      SessionOptions{.address = address.link,
                     .job = address.job,
                     .who = "lockstep run",
                     .timeout = absl::InfiniteDuration(),
                     .grace = absl::InfiniteDuration()},
      [this](absl::StatusOr<std::unique_ptr<Session>> session) {
        loop_->Post([this, session = std::move(session)]() mutable { Opened(std::move(session)); });
      });
}

void RunNotices::Opened(absl::StatusOr<std::unique_ptr<Session>> session) {
  if (!session.ok()) {
    return callbacks_.say(absl::StrCat("preemptions of the job cannot be followed: ",
                                       std::string(session.status().message())));
  }
  session_ = *std::move(session);
  follower_.emplace(
      *loop_, session_->preemptions(),
      PreemptionFollower::Callbacks{
          .changed = [this](const PreemptionNotice& notice) { callbacks_.told(ToTold(notice)); },
          .ended =
              [this](const PreemptionNotice& notice) {
                sources_->PreemptionEnded(notice.outcome == "saved");
              },
          .resumed = [this] { sources_->TellAgain(); }});
  const absl::Status status = sources_->Start(session_->preemptions(), members_.All(), "");
  if (!status.ok()) {
    callbacks_.say(
        absl::StrCat("a source of --notice failed to start: ", std::string(status.message())));
  }
}

void RunNotices::Check() {
  if (!follower_) return callbacks_.checked(std::nullopt);
  follower_->Get([this](const absl::StatusOr<PreemptionNotice>& notice) {
    callbacks_.checked(notice.ok() ? std::optional(ToTold(*notice)) : std::nullopt);
  });
}

void RunNotices::TakeSignal(int signal) {
  if (signals_ != nullptr) signals_->Take(signal);
}

void RunNotices::Restarted(MemberRange members) {
  members_ = members;
  sources_->SetMembers(members_.All());
  if (follower_) follower_->Restart();
  sources_->TellAgain();
}

std::vector<int32_t> MemberRange::All() const {
  std::vector<int32_t> members(static_cast<size_t>(size));
  std::iota(members.begin(), members.end(), first);
  return members;
}

}  // namespace lockstep::cli
