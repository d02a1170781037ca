#include "lockstep/client/rendezvous_hub.h"

#include <cstdlib>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "asio/ip/address.hpp"
#include "lockstep/client/engine.h"
#include "lockstep/client/member_access.h"
#include "lockstep/platform/runtime/address.h"
#include "lockstep/platform/runtime/fault_point.h"
#include "lockstep/platform/runtime/host.h"
#include "lockstep/platform/runtime/loop.h"
#include "lockstep/platform/runtime/shared_secret.h"
#include "lockstep/wire/native/error_reply.h"

namespace lockstep::client {
namespace {

using rendezvous::Effects;
using rendezvous::ErrorPtr;
using rendezvous::OpId;
using rendezvous::Reason;
using rendezvous::RendezvousMachine;
using rendezvous::StepId;
using rendezvous::Value;
using runtime::MonotonicNow;
using wire::native::WithReason;
namespace native = wire::native;

constexpr absl::Duration kOpenTimeout = absl::Minutes(1);

using Stage = RendezvousShell::Ending::Stage;

RendezvousShell::Ending Closed() {
  constexpr auto kWhy = "the rendezvous was closed";
  return {
      .stage = Stage::kClosed,
      .error = rendezvous::MakeError(absl::StatusCode::kCancelled, Reason::kRendezvousClosed, kWhy),
      .status = WithReason(absl::CancelledError(kWhy), "rendezvous_closed")};
}

rendezvous::Post MakePost(int64_t step, std::string_view name, int32_t to, Value&& value) {
  return {.step = StepId(step),
          .to = MemberIndex(to),
          .name = std::string(name),
          .value = std::move(value)};
}

// LOCKSTEP_ENCRYPT_DATA: anything but "0" and "false" means yes, so that no misspelling turns it
// off.
bool MustEncrypt() {
  const char* const set = std::getenv("LOCKSTEP_ENCRYPT_DATA");
  const std::string_view value = set == nullptr ? std::string_view() : set;
  return !value.empty() && value != "0" && value != "false";
}

// What others prove when they connect to this member; goes into its card. Without a secret:
// nothing, since this process has no OpenSSL, and need not: the kernel says who connects over the
// loopback, and where the session goes without TLS, anyone who reaches the network may read the
// card.
absl::StatusOr<transport::DoorKey> KeyOfDoor(const runtime::Address& coordinator,
                                             const std::string& host, bool encrypt) {
  transport::DoorKey key = {.secret = runtime::RandomBytes(runtime::kSecretBytes),
                            .encrypt = encrypt};
  const runtime::SharedSecrets& secrets = runtime::Secrets();
  const absl::Status usable =
      encrypt ? secrets.Accept(key.secret).status() : secrets.Hash(key.secret, "").status();
  if (usable.ok()) return key;
  if (encrypt) {
    return WithReason(absl::FailedPreconditionError(
                          absl::StrCat("this member cannot encrypt what it sends to others, as "
                                       "LOCKSTEP_ENCRYPT_DATA wants it: ",
                                       std::string(usable.message()))),
                      "encryption_unavailable");
  }
  asio::error_code is_name;
  const bool local = asio::ip::make_address(host, is_name).is_loopback();
  if (local || coordinator.fingerprint.empty()) return transport::DoorKey();
  return absl::Status(usable.code(),
                      absl::StrCat("other hosts reach this member at ", host,
                                   ", where connections must prove that they come from the job: ",
                                   std::string(usable.message())));
}

// Completes the operation when a receive took the value, or with why it could not be sent.
// `post` is taken.
auto SendsAcked(rendezvous::Post& post, absl::Duration timeout) {
  return [&post, deadline = MonotonicNow() + timeout](RendezvousMachine& machine, OpId op,
                                                      Effects& effects) {
    ErrorPtr error = machine.Send(MonotonicNow(), std::move(post), op, deadline, effects);
    if (error) effects.Fail(op, std::move(error));
  };
}

auto Receives(int64_t step, std::string_view name, int32_t from, std::optional<uint64_t> into_bytes,
              absl::Duration timeout) {
  return [=, now = MonotonicNow()](RendezvousMachine& machine, OpId op, Effects& effects) {
    machine.Receive(now,
                    {.op = op,
                     .step = StepId(step),
                     .from = MemberIndex(from),
                     .name = std::string(name),
                     .into_bytes = into_bytes,
                     .deadline = now + timeout},
                    effects);
  };
}

}  // namespace

// --- Beginning and end ---

absl::StatusOr<std::shared_ptr<RendezvousHub>> RendezvousHub::Start(
    Member& member, const RendezvousOptions& options) {
  auto watch = member.WatchJob();
  const auto job = watch->Next({.timeout = kOpenTimeout, .interrupted = options.interrupted});
  if (!job.ok()) return job.status();
  std::vector<std::string> names(static_cast<size_t>(member.size()));
  for (const MemberInfo& each : job->members) {
    const auto index = static_cast<size_t>(each.member);
    if (index < names.size()) names[index] = each.name.substr(0, each.name.find('#'));
  }
  std::shared_ptr<RendezvousHub> hub(new RendezvousHub(member, options, std::move(names)));
  if (absl::Status status = hub->Begin(member, options); !status.ok()) {
    hub->Close();
    return status;
  }
  return hub;
}

RendezvousHub::RendezvousHub(Member& member, const RendezvousOptions& options,
                             std::vector<std::string> names)
    : self_(member.member()),
      watch_(member.WatchJob()),
      shell_(std::make_shared<RendezvousShell>(member, options, std::move(names))),
      refused_(std::make_shared<RefusedConnections>(
          absl::StrCat(member.name(), " of job ", member.job()))) {}

absl::Status RendezvousHub::Begin(Member& member, const RendezvousOptions& options) {
  const runtime::Address coordinator = client::EngineOf(member)->leader();
  const auto host = transport::LocalHostTowards(coordinator);
  if (!host.ok()) return host.status();
  auto key = KeyOfDoor(coordinator, *host, options.encrypt_data || MustEncrypt());
  if (!key.ok()) return key.status();
  absl::Status opened = shell_->Open(
      {.job = member.job(),
       .attempt = member.attempt(),
       .self = self_,
       .incarnation = RendezvousPeers::IncarnationIn(member.name()),
       .names =
           shell_->Look([](const auto&, const RendezvousPeers& peers) { return peers.names(); }),
       .shared_memory = options.shared_memory,
       .process_memory = options.process_memory,
       .door = {.host = *host,
                .key = *std::move(key),
                .refused = [refused = refused_](const std::string& why) { refused->Note(why); }}},
      options.interrupted);
  if (!opened.ok()) return opened;
  WatchJob();
  look_ = std::make_unique<RendezvousLook>(member.keys(), self_.value(), [weak = weak_from_this()] {
    const auto self = weak.lock();
    return self != nullptr && self->here() ? self->Report() : native::RendezvousReport();
  });
  return absl::OkStatus();
}

void RendezvousHub::Close() {
  // First the end of all operations: the watches wait for callbacks, which may wait for those.
  if (!here() || !shell_->End(Closed())) return;
  watch_->Stop();
  look_ = nullptr;
  shell_->Join();
}

void RendezvousHub::WatchJob() {
  watch_->NextAsync({}, [weak = weak_from_this()](absl::StatusOr<JobChange> change) {
    if (const auto self = weak.lock()) self->TakeJobChange(std::move(change));
  });
}

void RendezvousHub::TakeJobChange(absl::StatusOr<JobChange> change) {
  if (!here()) return;
  if (!change.ok()) {
    shell_->End({.stage = Stage::kJobOver,
                 .error = rendezvous::MakeError(change.status().code(), Reason::kRendezvousClosed,
                                                std::string(change.status().message())),
                 .status = change.status()});
    return;
  }
  shell_->TakeMembers(change->members);
  WatchJob();
}

// --- Steps ---

absl::Status RendezvousHub::OpenStep(int64_t step) {
  if (!here()) return shell_->client().Forked();
  ErrorPtr error;
  shell_->Do([&](RendezvousMachine& machine, Effects&) {
    error = machine.OpenStep(MonotonicNow(), StepId(step));
  });
  return shell_->ToStatus(error);
}

void RendezvousHub::CloseStep(int64_t step) {
  if (!here()) return;
  shell_->Do([&](RendezvousMachine& machine, Effects& effects) {
    machine.CloseStep(MonotonicNow(), StepId(step), effects);
  });
}

absl::Status RendezvousHub::Abort(int64_t step, const absl::Status& why) {
  if (!here()) return shell_->client().Forked();
  if (why.ok()) {
    return WithReason(absl::InvalidArgumentError("a step is aborted with an error, not with OK"),
                      rendezvous::ReasonName(Reason::kInvalidArgument));
  }
  shell_->Do([&](RendezvousMachine& machine, Effects& effects) {
    machine.Abort(
        MonotonicNow(), StepId(step),
        rendezvous::MakeError(why.code(), Reason::kStepAborted, std::string(why.message())),
        effects);
  });
  return absl::OkStatus();
}

// --- Values that go ---

// Outside of the mutex, by the one who sends. Who fetches it over the network may do so from where
// it lies.
absl::Status RendezvousHub::Prepare(int32_t to, Value& value) {
  if (absl::Status wrong = SharedValues::Check(value); !wrong.ok()) return wrong;
  const MemberIndex receiver(to);
  if (receiver == self_ || !shell_->values().NeedsCopy(value)) return absl::OkStatus();
  const bool seen = shell_->Look(
      [&](const auto&, const RendezvousPeers& peers) { return peers.MaySeeMemory(receiver); });
  return seen ? shell_->values().Copy(value) : absl::OkStatus();
}

absl::Status RendezvousHub::Send(int64_t step, std::string_view name, int32_t to, Value value,
                                 const SendOptions& options) {
  if (!here()) return shell_->client().Forked();
  if (absl::Status status = Prepare(to, value); !status.ok()) return status;
  rendezvous::Post post = MakePost(step, name, to, std::move(value));
  if (options.wait_for_room <= absl::ZeroDuration()) {
    ErrorPtr error;
    shell_->Do([&](RendezvousMachine& machine, Effects& effects) {
      error = machine.Send(MonotonicNow(), std::move(post), effects);
    });
    return shell_->ToStatus(error);
  }
  const Time deadline = MonotonicNow() + options.wait_for_room;
  const auto completed = shell_->Wait(
      [&](RendezvousMachine& machine, OpId op, Effects& effects) {
        machine.SendWhenRoom(MonotonicNow(), std::move(post), op, deadline, effects);
      },
      options.interrupted);
  if (!completed.ok()) return completed.status();
  return shell_->ToStatus(completed->error);
}

absl::Status RendezvousHub::SendAcked(int64_t step, std::string_view name, int32_t to, Value value,
                                      const CallOptions& options) {
  if (!here()) return shell_->client().Forked();
  if (absl::Status status = Prepare(to, value); !status.ok()) return status;
  rendezvous::Post post = MakePost(step, name, to, std::move(value));
  const auto completed = shell_->Wait(SendsAcked(post, options.timeout), options.interrupted);
  if (!completed.ok()) return completed.status();
  return shell_->ToStatus(completed->error);
}

Pending RendezvousHub::SendAckedAsync(int64_t step, std::string_view name, int32_t to, Value value,
                                      const CallOptions& options, Completion<void> done) {
  ClientShell& client = shell_->client();
  if (!here()) {
    Engine::CallBackWithoutEngine(
        [done = std::move(done), forked = client.Forked()]() mutable { done(forked); });
    return Pending();
  }
  if (absl::Status refused = Prepare(to, value); !refused.ok()) {
    client.ExpectCallback();
    client.Callback([done = std::move(done), refused]() mutable { done(refused); });
    return Pending();
  }
  rendezvous::Post post = MakePost(step, name, to, std::move(value));
  return shell_->Start(
      SendsAcked(post, options.timeout),
      [self = shared_from_this(),
       done = std::move(done)](absl::StatusOr<rendezvous::Completed> completed) mutable {
        done(completed.ok() ? self->shell_->ToStatus(completed->error) : completed.status());
      });
}

absl::StatusOr<std::shared_ptr<transport::Block>> RendezvousHub::Allocate(uint64_t bytes) {
  if (!here()) return shell_->client().Forked();
  return shell_->values().Allocate(bytes);
}

// --- Values that come ---

absl::StatusOr<Received> RendezvousHub::Receive(int64_t step, std::string_view name, int32_t from,
                                                std::optional<std::span<std::byte>> into,
                                                const CallOptions& options) {
  if (!here()) return shell_->client().Forked();
  std::optional<uint64_t> into_bytes;
  if (into.has_value()) into_bytes = into->size();
  auto completed = shell_->Wait(Receives(step, name, from, into_bytes, options.timeout),
                                options.interrupted, into.has_value() ? into->data() : nullptr);
  if (!completed.ok()) return completed.status();
  return ToReceived(*std::move(completed));
}

Pending RendezvousHub::ReceiveAsync(int64_t step, std::string_view name, int32_t from,
                                    const CallOptions& options, Completion<Received> done) {
  if (!here()) {
    Engine::CallBackWithoutEngine(
        [done = std::move(done), forked = shell_->client().Forked()]() mutable { done(forked); });
    return Pending();
  }
  return shell_->Start(Receives(step, name, from, std::nullopt, options.timeout),
                       [self = shared_from_this(), done = std::move(done)](
                           absl::StatusOr<rendezvous::Completed> completed) mutable {
                         if (!completed.ok()) return done(completed.status());
                         done(self->ToReceived(*std::move(completed)));
                       });
}

absl::StatusOr<Received> RendezvousHub::ToReceived(rendezvous::Completed completed) {
  if (completed.error) return shell_->ToStatus(completed.error);
  Received received = {.dead = completed.value.dead, .why_dead = completed.value.why_dead};
  rendezvous::MemoryPtr memory = completed.value.memory;
  if (completed.place != nullptr) {
    const auto& remote = *static_cast<const RendezvousPeers::RemotePlace*>(completed.place.get());
    const auto release = [weak = std::weak_ptr(shell_), from = completed.from,
                          lease = completed.lease] {
      const auto shell = weak.lock();
      if (shell == nullptr || !shell->client().here()) return;
      shell->Do([&](RendezvousMachine& machine, Effects& effects) {
        machine.Release(from, lease, effects);
      });
    };
    // Streams are used with the mutex.
    auto view = shell_->Look(
        [&](const auto&, const auto&) { return remote.stream->View(remote.place, release); });
    if (!view.ok()) {
      release();
      const std::string name = shell_->Look(
          [&](const auto&, const RendezvousPeers& peers) { return peers.NameOf(completed.from); });
      const bool lies = !absl::IsResourceExhausted(view.status());
      return WithReason(
          absl::Status(
              lies ? absl::StatusCode::kInternal : view.status().code(),
              absl::StrCat("a value of ", name, " cannot be seen here: ", view.status().message())),
          rendezvous::ReasonName(lies ? Reason::kProtocol : Reason::kQuotaExceeded));
    }
    memory = *std::move(view);
    runtime::FaultPoint("rendezvous/lease_taken");
  }
  received.tensor = Tensor(std::move(completed.value.about), std::move(memory));
  return received;
}

// --- For people ---

std::vector<PeerTransport> RendezvousHub::Transports() {
  if (!here()) return {};
  return shell_->Look([](const auto&, const RendezvousPeers& peers) { return peers.Transports(); });
}

RendezvousCounters RendezvousHub::Counters() {
  if (!here()) return {};
  const transport::ArenaStats arena = shell_->values().arena().stats();
  return shell_->Look([&](const RendezvousMachine& machine, const RendezvousPeers& peers) {
    const rendezvous::View view = machine.GetView(MonotonicNow(), /*rows_max=*/1);
    RendezvousCounters counters = peers.traffic();
    counters.waits = view.waits;
    if (!view.waiting.empty()) counters.oldest_wait = view.waiting.front().age;
    counters.held_values = view.held_values;
    counters.held_bytes = view.held_bytes;
    counters.arena_reserved_bytes = arena.bytes_reserved;
    counters.arena_used_bytes = arena.bytes_in_use;
    counters.refused_connections = refused_->count();
    return counters;
  });
}

native::RendezvousReport RendezvousHub::Report() {
  constexpr size_t kRows = 32;
  const transport::ArenaStats arena = shell_->values().arena().stats();
  return shell_->Look([&](const RendezvousMachine& machine, const RendezvousPeers& peers) {
    native::RendezvousReport report = {.member = self_.value(),
                                       .name = peers.NameOf(self_),
                                       .arena_reserved_bytes = arena.bytes_reserved,
                                       .arena_used_bytes = arena.bytes_in_use};
    AddView(machine.GetView(MonotonicNow(), kRows), peers.names(), report);
    peers.AddTransports(report);
    return report;
  });
}

}  // namespace lockstep::client
