#include "lockstep/client/member.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "lockstep/base/mutex.h"
#include "lockstep/client/job_watch.h"
#include "lockstep/client/member_access.h"
#include "lockstep/client/settings.h"
#include "lockstep/client/typed.h"
#include "lockstep/client/use_counters.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/server_list.h"
#include "lockstep/wire/native/coordination_messages.h"
#include "lockstep/wire/native/utf8.h"

namespace lockstep {
namespace {

using client::CallType;
using client::Engine;
using client::MakeTyped;
using client::Typed;
using wire::native::WithReason;
namespace native = wire::native;

constexpr auto kNothing = [](const auto&) { return std::monostate(); };

absl::Status StatusOf(const absl::StatusOr<std::monostate>& result) { return result.status(); }

template <class T>
void CallBack(Completion<T> done, absl::Status status) {
  Engine::CallBackWithoutEngine(
      [done = std::move(done), status = std::move(status)]() mutable { done(status); });
}

}  // namespace

class Member::Impl : public std::enable_shared_from_this<Member::Impl> {
 public:
  Impl(std::shared_ptr<Engine> engine, const JoinOptions& options, native::JoinJobReply joined)
      : engine_(std::move(engine)),
        coordinator_(options.address),
        job_(options.job),
        host_(options.host),
        joined_(std::move(joined)) {}

  // OK while this process is the member, and has not left.
  absl::Status Check() const {
    if (!engine_->here()) return engine_->Forked();
    const MutexLock lock(mutex_);
    if (!left_) return absl::OkStatus();
    return WithReason(
        absl::FailedPreconditionError(absl::StrCat(joined_.name, " has left job '", job_, "'")),
        "member_left");
  }

  // A call under a name that is used again and again. `make` makes it from the number of the use.
  template <class T, class Make>
  absl::StatusOr<T> Use(client::UseCounters& counters, const std::string& name, const Make& make,
                        const Interrupted& interrupted) {
    const auto counter = Begin(counters, name);
    if (!counter.ok()) return counter.status();
    absl::StatusOr<T> result = Run(engine_, make(*counter), interrupted);
    End(counters, name, result.status());
    return result;
  }

  template <class T, class Make>
  Pending UseAsync(client::UseCounters& counters, const std::string& name, const Make& make,
                   Completion<T> done) {
    const auto counter = Begin(counters, name);
    if (!counter.ok()) {
      CallBack<T>(std::move(done), counter.status());
      return Pending();
    }
    const auto self = this->shared_from_this();
    return Start(engine_, make(*counter),
                 [self, &counters, name, done = std::move(done)](absl::StatusOr<T> result) mutable {
                   self->End(counters, name, result.status());
                   done(std::move(result));
                 });
  }

  void SetLeft() {
    const MutexLock lock(mutex_);
    left_ = true;
  }

  const std::shared_ptr<Engine> engine_;
  const std::string coordinator_;
  const std::string job_;
  const std::string host_;
  const native::JoinJobReply joined_;
  client::UseCounters barriers_;
  client::UseCounters agreements_;

 private:
  absl::StatusOr<int64_t> Begin(client::UseCounters& counters, const std::string& name) {
    if (absl::Status status = Check(); !status.ok()) return status;
    const MutexLock lock(mutex_);
    return counters.Begin(name);
  }
  void End(client::UseCounters& counters, const std::string& name, const absl::Status& status) {
    if (!engine_->here()) return;
    const MutexLock lock(mutex_);
    counters.End(name, status);
  }

  mutable Mutex mutex_;  // covers the counters, too
  bool left_ ABSL_GUARDED_BY(mutex_) = false;
};

// --- Joining ---

struct MemberFactory {
  static const std::shared_ptr<Engine>& EngineOf(const Member& member) {
    return member.impl_->engine_;
  }
  static std::unique_ptr<Member> Make(std::shared_ptr<Engine> engine, const JoinOptions& options,
                                      native::JoinJobReply joined) {
    return std::unique_ptr<Member>(
        new Member(std::make_shared<Member::Impl>(std::move(engine), options, std::move(joined))));
  }
};

namespace {

// The steps of a join, for both forms: connect and open, look at the attempt, join.
class Joining {
 public:
  explicit Joining(JoinOptions options)
      : options_(std::move(options)), deadline_(runtime::MonotonicNow() + options_.timeout) {}

  absl::Status Begin() {
    auto resolved = client::Resolve(std::move(options_), client::ProcessEnvironment);
    if (!resolved.ok()) return resolved.status();
    options_ = *std::move(resolved);
    auto servers = client::ServersAt(options_.address);
    if (!servers.ok()) return servers.status();
    engine_ = Engine::Start(
        {.servers = *std::move(servers),
         .who = native::ToUtf8(absl::StrCat("member of job ", options_.job)),
         .machine = {.job = options_.job, .create_size = options_.size, .grace = options_.grace}});
    return absl::OkStatus();
  }

  Typed<native::OpenSessionReply> Open() const {
    return {.request = {.type = CallType::kOpen,
                        .timeout = left(),
                        .what = runtime::TheServer(options_.address)},
            .read = [](Engine::Answer answer) -> absl::StatusOr<native::OpenSessionReply> {
              if (!answer.ok()) return answer.status();
              return native::Decode<native::OpenSessionReply>(*answer);
            }};
  }

  Typed<native::JoinJobReply> Join() const {
    native::JoinJob request = {.role = options_.role,
                               .index = options_.index,
                               .incarnation = runtime::RandomNumber() | 1,
                               .host = native::ToUtf8(options_.host),
                               .pid = ::getpid(),
                               .labels = {},
                               .attempt = options_.attempt};
    for (const auto& [name, value] : options_.labels) request.labels.push_back({name, value});
    auto call = MakeTyped<native::JoinJobReply>(
        request, CallType::kWait, left(),
        absl::StrCat("all members of job '", options_.job, "' to join"),
        [](native::JoinJobReply reply) { return reply; });
    call.request.leave_server_a_margin = false;  // it answers before the deadline by itself
    return call;
  }

  std::unique_ptr<Member> Finish(native::JoinJobReply joined) {
    return MemberFactory::Make(std::move(engine_), options_, std::move(joined));
  }

  const std::shared_ptr<Engine>& engine() const { return engine_; }
  const Interrupted& interrupted() const { return options_.interrupted; }

 private:
  absl::Duration left() const { return deadline_ - runtime::MonotonicNow(); }

  JoinOptions options_;
  const Time deadline_;
  std::shared_ptr<Engine> engine_;
};

absl::StatusOr<native::JoinJobReply> JoinSteps(const Joining& joining) {
  const auto& engine = joining.engine();
  const auto opened = Run(engine, joining.Open(), joining.interrupted());
  if (!opened.ok()) return opened.status();
  return Run(engine, joining.Join(), joining.interrupted());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Member>> Join(JoinOptions options) {
  Joining joining(std::move(options));
  if (absl::Status begun = joining.Begin(); !begun.ok()) return begun;
  auto joined = JoinSteps(joining);
  if (joined.ok()) return joining.Finish(*std::move(joined));
  joining.engine()->Close();
  return joined.status();
}

Pending JoinAsync(JoinOptions options, Completion<std::unique_ptr<Member>> done) {
  auto joining = std::make_shared<Joining>(std::move(options));
  if (absl::Status begun = joining->Begin(); !begun.ok()) {
    CallBack<std::unique_ptr<Member>>(std::move(done), begun);
    return Pending();
  }
  auto chain = std::make_shared<client::Chain>();
  const auto fail = [joining](Completion<std::unique_ptr<Member>>& completion,
                              const absl::Status& why) {
    joining->engine()->Close();
    completion(why);
  };
  auto joined = [joining, fail,
                 done = std::move(done)](absl::StatusOr<native::JoinJobReply> reply) mutable {
    if (!reply.ok()) return fail(done, reply.status());
    done(joining->Finish(*std::move(reply)));
  };
  auto opened = [joining, chain, joined = std::move(joined)](
                    absl::StatusOr<native::OpenSessionReply> reply) mutable {
    if (!reply.ok()) return joined(reply.status());
    chain->Begin([&] {
      const auto engine = joining->engine();
      return Start(engine, joining->Join(), std::move(joined));
    });
  };
  chain->Begin([&] { return Start(joining->engine(), joining->Open(), std::move(opened)); });
  return client::Chain::PendingOf(std::move(chain));
}

// --- The member ---

std::shared_ptr<Engine> client::EngineOf(const Member& member) {
  return MemberFactory::EngineOf(member);
}

Member::Member(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Member::~Member() {
  // In a forked child nothing of it may be touched, not even to destroy it.
  if (!impl_->engine_->here()) {
    new std::shared_ptr<Impl>(std::move(impl_));
    return;
  }
  impl_->engine_->Close();
}

const std::string& Member::job() const { return impl_->job_; }
const std::string& Member::coordinator() const { return impl_->coordinator_; }
const std::string& Member::host() const { return impl_->host_; }
const std::string& Member::role() const { return impl_->joined_.role; }
int32_t Member::index() const { return impl_->joined_.index; }
int32_t Member::member() const { return impl_->joined_.member; }
int32_t Member::size() const { return impl_->joined_.size; }
const std::string& Member::name() const { return impl_->joined_.name; }
int64_t Member::attempt() const { return impl_->joined_.attempt; }
Keys Member::keys() const { return Keys(impl_->engine_); }
JobPreemptions Member::preemptions() const { return JobPreemptions(impl_->engine_); }

namespace {

using Values = std::vector<MemberValue>;

Typed<Values> BarrierCall(const std::string& id, int64_t counter, const BarrierOptions& options) {
  native::Barrier request = {.id = id, .counter = counter, .members = options.members};
  if (options.value.has_value()) request.value = native::Bytes{*options.value};
  return MakeTyped<Values>(request, CallType::kWait, options.timeout,
                           absl::StrCat("barrier '", id, "'"), [](native::BarrierReply reply) {
                             Values values;
                             for (auto& [member, value] : reply.values) {
                               values.push_back({member, std::move(value.data)});
                             }
                             return values;
                           });
}

Typed<int64_t> AgreeCall(const std::string& name, int64_t counter, int64_t index,
                         const AgreeOptions& options) {
  return MakeTyped<int64_t>(
      native::AgreeOnIndex{
          .name = name,
          .counter = counter,
          .index = index,
          .stride = options.stride == 0 ? -1 : options.stride,  // 0 on the wire: not said
          .members = options.members},
      CallType::kWait, options.timeout, absl::StrCat("agreement on an index for '", name, "'"),
      [](const native::AgreeOnIndexReply& reply) { return reply.index; });
}

Typed<std::monostate> CancelCall(std::string id, absl::Duration timeout) {
  std::string what = absl::StrCat("cancelling barrier '", id, "'");
  return MakeTyped<std::monostate>(native::CancelBarrier{.id = std::move(id)}, CallType::kEffect,
                                   timeout, std::move(what), kNothing);
}

Typed<std::vector<AliveMember>> AliveCall(const AliveOptions& options) {
  return MakeTyped<std::vector<AliveMember>>(
      native::GetAliveMembers{.members = options.members}, CallType::kWait, options.timeout,
      "who is alive", [](const native::GetAliveMembersReply& reply) {
        std::vector<AliveMember> alive;
        for (const auto& [member, incarnation] : reply.members) {
          alive.push_back({member, incarnation});
        }
        return alive;
      });
}

Typed<OpenBarriers> BarriersCall(absl::Duration timeout) {
  return MakeTyped<OpenBarriers>(
      native::ListBarriers{}, CallType::kRead, timeout, "the open barriers",
      [](native::ListBarriersReply reply) {
        OpenBarriers listed{.open = reply.open};
        for (native::BarrierStatus& status : reply.barriers) {
          OpenBarrier barrier{.id = std::move(status.id),
                              .counter = status.counter,
                              .open_for = absl::Microseconds(status.opened_ago_us),
                              .waiting = std::move(status.waiting),
                              .awaited = std::move(status.awaited)};
          if (status.deadline_in_us) {
            barrier.time_left = absl::Microseconds(*status.deadline_in_us);
          }
          listed.barriers.push_back(std::move(barrier));
        }
        return listed;
      });
}

Typed<std::monostate> ErrorCall(const absl::Status& error, absl::Duration timeout) {
  return MakeTyped<std::monostate>(
      native::ReportError{.code = static_cast<int32_t>(error.code()),
                          .message = native::ToUtf8(std::string(error.message()))},
      CallType::kEffect, timeout, "reporting an error", kNothing);
}

Typed<std::monostate> LeaveCall(absl::Duration timeout) {
  return MakeTyped<std::monostate>(native::LeaveJob{}, CallType::kWatch, timeout,
                                   "all members to leave", kNothing);
}

absl::Status NotAnError() {
  return WithReason(absl::InvalidArgumentError("an error to report must not be OK"),
                    "invalid_argument");
}

// One value of each who took part, in their order.
std::vector<std::string> InOrder(const Values& values, std::vector<int32_t> members, int32_t size) {
  if (members.empty()) {
    members.resize(static_cast<size_t>(size));
    std::iota(members.begin(), members.end(), 0);
  }
  std::sort(members.begin(), members.end());
  std::vector<std::string> ordered(members.size());
  for (const MemberValue& value : values) {
    const auto it = std::lower_bound(members.begin(), members.end(), value.member);
    if (it != members.end() && *it == value.member) {
      ordered[static_cast<size_t>(it - members.begin())] = value.value;
    }
  }
  return ordered;
}

}  // namespace

absl::StatusOr<Values> Member::Barrier(std::string id, BarrierOptions options) {
  return impl_->Use<Values>(
      impl_->barriers_, id, [&](int64_t counter) { return BarrierCall(id, counter, options); },
      options.interrupted);
}
Pending Member::BarrierAsync(std::string id, BarrierOptions options, Completion<Values> done) {
  return impl_->UseAsync<Values>(
      impl_->barriers_, id, [&](int64_t counter) { return BarrierCall(id, counter, options); },
      std::move(done));
}

absl::StatusOr<std::vector<std::string>> Member::Gather(std::string id, std::string value,
                                                        GatherOptions options) {
  auto values = Barrier(std::move(id), {.timeout = options.timeout,
                                        .members = options.members,
                                        .value = std::move(value),
                                        .interrupted = options.interrupted});
  if (!values.ok()) return values.status();
  return InOrder(*values, options.members, size());
}
Pending Member::GatherAsync(std::string id, std::string value, GatherOptions options,
                            Completion<std::vector<std::string>> done) {
  return BarrierAsync(
      std::move(id),
      {.timeout = options.timeout, .members = options.members, .value = std::move(value)},
      [members = options.members, size = size(),
       done = std::move(done)](absl::StatusOr<Values> values) mutable {
        if (!values.ok()) return done(values.status());
        done(InOrder(*values, std::move(members), size));
      });
}

absl::Status Member::CancelBarrier(std::string id, CallOptions options) {
  if (absl::Status status = impl_->Check(); !status.ok()) return status;
  return StatusOf(
      Run(impl_->engine_, CancelCall(std::move(id), options.timeout), options.interrupted));
}
Pending Member::CancelBarrierAsync(std::string id, CallOptions options, Completion<void> done) {
  if (absl::Status status = impl_->Check(); !status.ok()) {
    CallBack<void>(std::move(done), status);
    return Pending();
  }
  return Start(impl_->engine_, CancelCall(std::move(id), options.timeout),
               [done = std::move(done)](const absl::StatusOr<std::monostate>& result) mutable {
                 done(StatusOf(result));
               });
}

absl::StatusOr<int64_t> Member::AgreeOnIndex(std::string name, int64_t index,
                                             AgreeOptions options) {
  return impl_->Use<int64_t>(
      impl_->agreements_, name,
      [&](int64_t counter) { return AgreeCall(name, counter, index, options); },
      options.interrupted);
}
Pending Member::AgreeOnIndexAsync(std::string name, int64_t index, AgreeOptions options,
                                  Completion<int64_t> done) {
  return impl_->UseAsync<int64_t>(
      impl_->agreements_, name,
      [&](int64_t counter) { return AgreeCall(name, counter, index, options); }, std::move(done));
}

absl::StatusOr<std::vector<AliveMember>> Member::AliveMembers(AliveOptions options) {
  if (absl::Status status = impl_->Check(); !status.ok()) return status;
  return Run(impl_->engine_, AliveCall(options), options.interrupted);
}
Pending Member::AliveMembersAsync(AliveOptions options, Completion<std::vector<AliveMember>> done) {
  if (absl::Status status = impl_->Check(); !status.ok()) {
    CallBack<std::vector<AliveMember>>(std::move(done), status);
    return Pending();
  }
  return Start(impl_->engine_, AliveCall(options), std::move(done));
}

absl::StatusOr<OpenBarriers> Member::Barriers(CallOptions options) {
  if (absl::Status status = impl_->Check(); !status.ok()) return status;
  return Run(impl_->engine_, BarriersCall(options.timeout), options.interrupted);
}
Pending Member::BarriersAsync(CallOptions options, Completion<OpenBarriers> done) {
  if (absl::Status status = impl_->Check(); !status.ok()) {
    CallBack<OpenBarriers>(std::move(done), status);
    return Pending();
  }
  return Start(impl_->engine_, BarriersCall(options.timeout), std::move(done));
}

void Member::ReportProgress(int64_t step, std::string_view phase) {
  impl_->engine_->Progress(step, phase);
}

absl::Status Member::ReportError(absl::Status error, CallOptions options) {
  if (absl::Status status = impl_->Check(); !status.ok()) return status;
  if (error.ok()) return NotAnError();
  return StatusOf(Run(impl_->engine_, ErrorCall(error, options.timeout), options.interrupted));
}
Pending Member::ReportErrorAsync(absl::Status error, CallOptions options, Completion<void> done) {
  absl::Status status = impl_->Check();
  if (status.ok() && error.ok()) status = NotAnError();
  if (!status.ok()) {
    CallBack<void>(std::move(done), status);
    return Pending();
  }
  return Start(impl_->engine_, ErrorCall(error, options.timeout),
               [done = std::move(done)](const absl::StatusOr<std::monostate>& result) mutable {
                 done(StatusOf(result));
               });
}

void Member::OnError(std::function<void(absl::Status)> callback) {
  impl_->engine_->OnFailed(std::move(callback));
}

std::unique_ptr<JobWatch> Member::WatchJob() {
  return std::unique_ptr<JobWatch>(new JobWatch(std::make_shared<JobWatch::Impl>(impl_->engine_)));
}
std::unique_ptr<JobWatch> Member::OnJobChange(
    std::function<void(absl::StatusOr<JobChange>)> changed) {
  auto watch = WatchJob();
  watch->impl_->CallBack(std::move(changed));
  return watch;
}

absl::Status Member::Leave(CallOptions options) {
  if (absl::Status status = impl_->Check(); !status.ok()) return status;
  absl::Status left =
      StatusOf(Run(impl_->engine_, LeaveCall(options.timeout), options.interrupted));
  if (left.ok()) impl_->SetLeft();
  return left;
}
Pending Member::LeaveAsync(CallOptions options, Completion<void> done) {
  if (absl::Status status = impl_->Check(); !status.ok()) {
    CallBack<void>(std::move(done), status);
    return Pending();
  }
  return Start(
      impl_->engine_, LeaveCall(options.timeout),
      [impl = impl_, done = std::move(done)](const absl::StatusOr<std::monostate>& result) mutable {
        if (result.ok()) impl->SetLeft();
        done(StatusOf(result));
      });
}

}  // namespace lockstep
