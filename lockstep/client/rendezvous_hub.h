// What a program does with a rendezvous: its calls, what it is told of them, and the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/base/ids.h"
#include "lockstep/client/call.h"
#include "lockstep/client/member.h"
#include "lockstep/client/refused_connections.h"
#include "lockstep/client/rendezvous.h"
#include "lockstep/client/rendezvous_look.h"
#include "lockstep/client/rendezvous_shell.h"
#include "lockstep/rendezvous/effects.h"
#include "lockstep/rendezvous/transport/arena.h"
#include "lockstep/rendezvous/value.h"
#include "lockstep/wire/native/rendezvous_messages.h"

namespace lockstep::client {

// Makes calls into operations of the machine, which RendezvousShell runs, and its errors into
// statuses; tells the shell what becomes of the job, and people who look what it waits for.
//
// Outcomes of every call: FAILED_PRECONDITION (forked) in a forked child; as the machine says, with
// the reasons of rendezvous/error.h; what ended the job, after that; CANCELLED (rendezvous_closed)
// after `Close`.
//
// Threads: thread-safe. Ownership: `Close` before letting go (Rendezvous does). Bounds: the
// machine's.
class RendezvousHub final : public std::enable_shared_from_this<RendezvousHub> {
 public:
  // FAILED_PRECONDITION (rendezvous_open): the member has an open one. What the member's calls
  // fail with, or what `options.interrupted` said. Of the system: no address or descriptor for it.
  static absl::StatusOr<std::shared_ptr<RendezvousHub>> Start(Member& member,
                                                              const RendezvousOptions& options);

  // OK also for a step that is open. FAILED_PRECONDITION (step_closed); INVALID_ARGUMENT
  // (invalid_argument): below 0.
  absl::Status OpenStep(int64_t step);
  // Its receives fail with `step_closed`; what was sent may still be received. Nothing in a forked
  // child.
  void CloseStep(int64_t step);
  // INVALID_ARGUMENT (invalid_argument): `why` is OK.
  absl::Status Abort(int64_t step, const absl::Status& why);

  // INVALID_ARGUMENT (invalid_argument): the value has not the bytes that its type and shape say.
  // RESOURCE_EXHAUSTED (quota_exceeded): there is no room for it (in time).
  absl::Status Send(int64_t step, std::string_view name, int32_t to, rendezvous::Value value,
                    const SendOptions& options);
  // As `Send`; OK when a receive took it.
  absl::Status SendAcked(int64_t step, std::string_view name, int32_t to, rendezvous::Value value,
                         const CallOptions& options);
  // `done` gets what `SendAcked` returns, on a thread of the library.
  Pending SendAckedAsync(int64_t step, std::string_view name, int32_t to, rendezvous::Value value,
                         const CallOptions& options, Completion<void> done);
  // `into`: where its bytes go when they are fetched; the value has no memory then.
  // INTERNAL (protocol), RESOURCE_EXHAUSTED (quota_exceeded): its memory cannot be seen here.
  absl::StatusOr<Received> Receive(int64_t step, std::string_view name, int32_t from,
                                   std::optional<std::span<std::byte>> into,
                                   const CallOptions& options);
  // As `Receive` into memory that is made for it.
  Pending ReceiveAsync(int64_t step, std::string_view name, int32_t from,
                       const CallOptions& options, Completion<Received> done);

  // RESOURCE_EXHAUSTED (quota_exceeded): the arena is full.
  absl::StatusOr<std::shared_ptr<transport::Block>> Allocate(uint64_t bytes);
  // Of members to which there is a stream.
  std::vector<PeerTransport> Transports();
  // All zero in a forked child.
  RendezvousCounters Counters();

  // Returns when nothing of it runs any more, but for the callback that calls this.
  void Close();
  // False in a forked child: nothing here may be touched there.
  bool here() const { return shell_->client().here(); }

 private:
  RendezvousHub(Member& member, const RendezvousOptions& options, std::vector<std::string> names);
  absl::Status Begin(Member& member, const RendezvousOptions& options);
  // Checks it, and puts it where its receiver can see it.
  absl::Status Prepare(int32_t to, rendezvous::Value& value);
  absl::StatusOr<Received> ToReceived(rendezvous::Completed completed);
  wire::native::RendezvousReport Report();
  void WatchJob();
  void TakeJobChange(absl::StatusOr<JobChange> change);

  const MemberIndex self_;
  const std::unique_ptr<JobWatch> watch_;
  const std::shared_ptr<RendezvousShell> shell_;
  const std::shared_ptr<RefusedConnections> refused_;  // the listeners note them
  std::unique_ptr<RendezvousLook> look_;               // of the threads that open and close
};

}  // namespace lockstep::client
