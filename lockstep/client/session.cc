#include "lockstep/client/session.h"

#include "absl/strings/str_cat.h"
#include "lockstep/client/job_watch.h"
#include "lockstep/client/settings.h"
#include "lockstep/client/typed.h"
#include "lockstep/platform/runtime/server_list.h"
#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/utf8.h"

namespace lockstep {

using client::Engine;

class Session::Impl {
 public:
  std::shared_ptr<Engine> engine;
  std::string job;
  int64_t attempt = 0;
  int32_t size = 0;
};

absl::StatusOr<std::unique_ptr<Session>> Session::Open(SessionOptions options) {
  auto resolved = client::Resolve(std::move(options), client::ProcessEnvironment);
  if (!resolved.ok()) return resolved.status();
  auto servers = client::ServersAt(resolved->address);
  if (!servers.ok()) return servers.status();
  auto impl = std::make_unique<Impl>();
  impl->job = resolved->job;
  impl->engine = Engine::Start(
      {.servers = *std::move(servers),
       .who = wire::native::ToUtf8(resolved->who),
       .machine = {.job = resolved->job, .create_size = resolved->size, .grace = resolved->grace}});
  const auto answer = impl->engine->Call({.type = client::CallType::kOpen,
                                          .timeout = resolved->timeout,
                                          .what = runtime::TheServer(resolved->address)},
                                         resolved->interrupted);
  const auto opened = answer.ok() ? wire::native::Decode<wire::native::OpenSessionReply>(*answer)
                                  : absl::StatusOr<wire::native::OpenSessionReply>(answer.status());
  if (!opened.ok()) {
    impl->engine->Close();
    return opened.status();
  }
  impl->attempt = opened->attempt;
  impl->size = opened->size;
  return std::unique_ptr<Session>(new Session(std::move(impl)));
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Session::~Session() {
  // As ~Member.
  if (!impl_->engine->here()) {
    static_cast<void>(impl_.release());
    return;
  }
  impl_->engine->Close();
}

const std::string& Session::job() const { return impl_->job; }
int64_t Session::attempt() const { return impl_->attempt; }
int32_t Session::size() const { return impl_->size; }
Keys Session::keys() const { return Keys(impl_->engine); }
JobPreemptions Session::preemptions() const { return JobPreemptions(impl_->engine); }

std::unique_ptr<JobWatch> Session::WatchJob() {
  return std::unique_ptr<JobWatch>(new JobWatch(std::make_shared<JobWatch::Impl>(impl_->engine)));
}
std::unique_ptr<JobWatch> Session::OnJobChange(
    std::function<void(absl::StatusOr<JobChange>)> changed) {
  auto watch = WatchJob();
  watch->impl_->CallBack(std::move(changed));
  return watch;
}

}  // namespace lockstep
