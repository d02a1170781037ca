// The shell around a RendezvousMachine: its mutex, its clock, its callers and its network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/base/mutex.h"
#include "lockstep/client/call.h"
#include "lockstep/client/client_shell.h"
#include "lockstep/client/member.h"
#include "lockstep/client/rendezvous.h"
#include "lockstep/client/rendezvous_calls.h"
#include "lockstep/client/rendezvous_network.h"
#include "lockstep/client/shared_values.h"
#include "lockstep/platform/runtime/poller.h"
#include "lockstep/rendezvous/rendezvous_machine.h"
#include "lockstep/rendezvous/transport/connector.h"

namespace lockstep::client {

// Callers act on the machine themselves, under the one mutex: what they send goes into the other
// process's memory before they return. Who waits drives the loop of this process meanwhile
// (LoopDriver), which looks into the memory where others write; so a value needs no thread of the
// library on its way while somebody waits for it.
//
// What must not be done with the mutex held (waking, calling back, giving memory back) is put into
// RendezvousCalls::After, and done by whoever let go of it.
//
// Threads: thread-safe. Ownership: `Join` before letting go. Bounds: the machine's.
class RendezvousShell final : public runtime::Poller,
                              private RendezvousNetwork::Events,
                              public std::enable_shared_from_this<RendezvousShell> {
 public:
  using OpId = rendezvous::OpId;
  using Machine = rendezvous::RendezvousMachine;
  using Act = absl::FunctionRef<void(Machine&, rendezvous::Effects&)>;
  // To give the machine an operation, which it completes.
  using Ask = absl::FunctionRef<void(Machine&, OpId, rendezvous::Effects&)>;

  // How far it has ended, and with what.
  struct Ending {
    enum class Stage { kOpen, kJobOver, kClosed };
    Stage stage = Stage::kOpen;
    rendezvous::ErrorPtr error;  // as the machine says so
    absl::Status status;         // as callers are told
  };

  // `names`: of all members, by index.
  RendezvousShell(Member& member, const RendezvousOptions& options, std::vector<std::string> names);

  // From here on others can reach us. As RendezvousNetwork.
  absl::Status Open(transport::Connector::Options options, const Interrupted& interrupted);
  // Every operation completes with this, and no other begins. False: it has ended as far before,
  // and nothing is done.
  bool End(Ending ending);
  // After the end by kClosed: returns when nothing of it runs any more, but for the callback that
  // calls this. Not from the loop.
  void Join();

  ClientShell& client() { return client_; }
  SharedValues& values() { return values_; }

  // Does something with the machine, and what follows from it. `on_loop`: the caller drives.
  void Do(Act act, bool on_loop = false);
  // Waits until it is completed. `into`: where fetched bytes go; null: into memory made for them.
  // Not OK: what `interrupted` said, or `forked`.
  absl::StatusOr<rendezvous::Completed> Wait(Ask ask, const Interrupted& interrupted,
                                             std::byte* into = nullptr);
  // `done` is called on a thread of the library.
  Pending Start(Ask ask, RendezvousCalls::Done done);
  // Reads them together: returns what `read(machine, peers)` does.
  template <class Read>
  auto Look(const Read& read) {
    const MutexLock lock(mutex_);
    return read(static_cast<const Machine&>(machine_), network_.peers());
  }
  // What the job knows of its members now.
  void TakeMembers(const std::vector<MemberInfo>& members);

  // An error of the machine as callers are told. Null: OK.
  absl::Status ToStatus(const rendezvous::ErrorPtr& error);

  // Poller, on the loop.
  bool Poll() override;
  // False also while completed calls wait to be passed on.
  bool PrepareToSleep() override;
  void Awake() override;

 private:
  using After = RendezvousCalls::After;

  // For the last time with the mutex: what is to be done without it, and whether the timer rings
  // too late.
  bool Unlocking(After& after) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Then, without it.
  void Settle(After&& after, bool arm, bool on_loop);
  // On the loop.
  void ArmTimer();
  void Carry(rendezvous::Effects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // RendezvousNetwork::Events.
  void Take(MemberIndex from, rendezvous::PeerMessage message) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<rendezvous::Value> Lose(MemberIndex member, rendezvous::ErrorPtr why,
                                      bool sees_memory) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ComesBack(MemberIndex member) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<rendezvous::Value> Lent(MemberIndex member, rendezvous::LeaseId lease) override;
  void Fetched(OpId op, rendezvous::MemoryPtr memory, rendezvous::ErrorPtr error) override;

  ClientShell client_;
  const MemberIndex self_;
  SharedValues values_;

  Mutex mutex_;
  Machine machine_ ABSL_GUARDED_BY(mutex_);
  Ending ending_ ABSL_GUARDED_BY(mutex_);
  RendezvousCalls calls_;      // guards itself as its methods say
  RendezvousNetwork network_;  // likewise
};

}  // namespace lockstep::client
