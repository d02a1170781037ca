// Tensors from one process to another, by step and key. Public.
//
//   auto rendezvous = lockstep::Rendezvous::Open(*me);
//   auto step = (*rendezvous)->OpenStep(7);
//   step->Send("grad/w0", /*to=*/1, lockstep::Tensor::Copy(bytes));
//   auto theirs = step->Recv("grad/w0", /*from=*/1, {.timeout = absl::Seconds(30)});
//   step->Close();
//
// A key is the sender, the receiver and a name, within a step. The k-th value that is sent under a
// key goes to the k-th receive of it, whoever was first. `Send` does not wait for the receiver.
//
// A step that one member aborts has failed for all: its receives end with that error. When a member
// is lost, so are its keys. A step is closed when a member has no more use for it: its receives
// end, and what it sent may still be received. A step is not used again in one attempt.
//
// Members are numbered as in Member::member(). On one host values go through shared memory: what
// was made by `Allocate` is not copied at all, anything else once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lockstep/client/call.h"
#include "lockstep/rendezvous/value.h"

namespace lockstep {

class Member;

namespace client {
class RendezvousHub;
}  // namespace client

using rendezvous::Description;
using rendezvous::ElementType;

// Bytes and what they mean. Copies share the bytes, which do not change.
class Tensor {
 public:
  Tensor() : about_({.shape = {0}}) {}  // no bytes

  // Of one dimension of bytes.
  static Tensor Copy(std::string_view bytes);
  // The bytes stay where they are until `release` is called, once, on any thread, when nobody looks
  // at them any more; they must not change before.
  static Tensor Borrow(Description about, const void* data, size_t bytes,
                       std::function<void()> release);

  const Description& about() const { return about_; }
  // Good while a copy of this tensor lives.
  std::span<const std::byte> bytes() const;
  // The same bytes.
  std::string_view text() const;

  // For the library.
  Tensor(Description about, rendezvous::MemoryPtr memory)
      : about_(std::move(about)), memory_(std::move(memory)) {}
  const rendezvous::MemoryPtr& memory() const { return memory_; }

 private:
  Description about_;
  rendezvous::MemoryPtr memory_;
};

// A tensor that is being made, in memory that other processes of this host will see.
class NewTensor {
 public:
  // To be written before `Finish`.
  std::span<std::byte> bytes() const { return bytes_; }
  const Description& about() const { return about_; }
  // It is not written any more.
  Tensor Finish() const { return Tensor(about_, memory_); }

  // For the library.
  NewTensor(Description about, rendezvous::MemoryPtr memory, std::span<std::byte> bytes)
      : about_(std::move(about)), memory_(std::move(memory)), bytes_(bytes) {}

 private:
  Description about_;
  rendezvous::MemoryPtr memory_;
  std::span<std::byte> bytes_;
};

struct RendezvousOptions {
  // Sent and not yet received. `quota_bytes`, `quota_values`: `Send` answers RESOURCE_EXHAUSTED.
  uint64_t quota_bytes = uint64_t{4} << 30;
  size_t quota_values = size_t{4} << 20;
  // Of memory that others of this host can see: `arena_bytes_max`.
  uint64_t arena_bytes_max = uint64_t{8} << 30;
  // Whether processes of one host share memory.
  bool shared_memory = true;
  // Whether long values of processes of this host that cannot share memory are read from the memory
  // of their sender (process_vm_readv), ours by others too. Both false: as between hosts.
  bool process_memory = true;
  // Whether all that goes over the network is encrypted; so it is with LOCKSTEP_ENCRYPT_DATA, too.
  // For all members of a job or for none: members that encrypt connect to no others.
  bool encrypt_data = false;
  // Values that others look at are numbered from here. 0: from a random number, so that no number
  // of an earlier life of this member comes again.
  uint64_t first_lease = 0;
  Interrupted interrupted = nullptr;  // of `Open`
};

struct SendOptions {
  // When the quota is used up: waits for room, this long. Zero: does not wait.
  absl::Duration wait_for_room = absl::ZeroDuration();
  Interrupted interrupted = nullptr;
};

// How values go to another member and come from it.
struct PeerTransport {
  int32_t member = 0;
  std::string transport;       // "shm"; "cma": long ones are read from its memory; "tcp"
  std::string why_not_shared;  // when it is not by shared memory
  std::string why_not_read;  // when its memory is not read either; known from the first long value
};

// For metrics of the program's own. Totals since the rendezvous was opened, of values that went to
// other members and came from them; the rest as of this moment.
struct RendezvousCounters {
  uint64_t sent_values = 0;
  uint64_t sent_bytes = 0;
  uint64_t received_values = 0;
  uint64_t received_bytes = 0;
  size_t waits = 0;            // receives that wait
  absl::Duration oldest_wait;  // of them
  size_t held_values = 0;      // sent and not received
  uint64_t held_bytes = 0;
  uint64_t arena_reserved_bytes = 0;  // of memory that others can see
  uint64_t arena_used_bytes = 0;
  // To this member, closed: of another user of this host, or without a proof of the job's.
  uint64_t refused_connections = 0;
};

// What came.
struct Received {
  Tensor tensor;
  // The sender said that there is no value under this key, and why.
  bool dead = false;
  std::string why_dead;
};

// One step of one member. Cheap to copy; thread-safe.
//
// Errors of all calls: what aborted the step; FAILED_PRECONDITION `step_closed`; UNAVAILABLE
// `peer_lost`: the other member is gone; INVALID_ARGUMENT `unknown_member`, `key_invalid`.
class Step {
 public:
  int64_t number() const { return number_; }

  // Returns at once. RESOURCE_EXHAUSTED `quota_exceeded`; INVALID_ARGUMENT `invalid_argument`: the
  // bytes are not as many as its shape says.
  absl::Status Send(std::string_view name, int32_t to, Tensor value, SendOptions options = {});
  // Instead of a value: the receive succeeds, and learns that there is none.
  absl::Status SendDead(std::string_view name, int32_t to, std::string why);
  // Returns when a receive took the value.
  absl::Status SendAcked(std::string_view name, int32_t to, Tensor value, CallOptions options = {});
  // As `SendAcked`. The value is offered or held before this returns; `done` comes when a receive
  // took it.
  Pending SendAckedAsync(std::string_view name, int32_t to, Tensor value, CallOptions options,
                         Completion<void> done);

  // The next value of the key. DEADLINE_EXCEEDED `receive_timed_out`: it has left the queue, and
  // the value goes to the next receive.
  absl::StatusOr<Received> Recv(std::string_view name, int32_t from, CallOptions options = {});
  // As `Recv`, whose place in the key's queue it takes before this returns.
  Pending RecvAsync(std::string_view name, int32_t from, CallOptions options,
                    Completion<Received> done);
  // Into memory of the caller's, which the value must fit exactly: else INVALID_ARGUMENT
  // `size_mismatch`, and the memory is not touched.
  absl::Status RecvInto(std::string_view name, int32_t from, std::span<std::byte> into,
                        CallOptions options = {});

  // The step has failed, for all members. The first error counts. INVALID_ARGUMENT: `why` is OK.
  absl::Status Abort(absl::Status why);
  // Nothing more is sent or received here in this step: receives that wait fail with `step_closed`.
  // What was sent may still be received. Again, or after an abort: nothing.
  void Close();

 private:
  friend class Rendezvous;
  Step(std::shared_ptr<client::RendezvousHub> hub, int64_t number)
      : hub_(std::move(hub)), number_(number) {}

  std::shared_ptr<client::RendezvousHub> hub_;
  int64_t number_;
};

// A member's part in the rendezvous of its job. One of each member at a time.
class Rendezvous {
 public:
  // FAILED_PRECONDITION `rendezvous_open`: the member has one.
  static absl::StatusOr<std::unique_ptr<Rendezvous>> Open(Member& member,
                                                          RendezvousOptions options = {});
  // Ends what waits with CANCELLED, and waits for completions that are due or run now (unless
  // called by one); the others find this member gone. Tensors that were received stay good.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  // Opening an open step gives the same step.
  absl::StatusOr<Step> OpenStep(int64_t number);
  // RESOURCE_EXHAUSTED `arena_bytes_max`.
  absl::StatusOr<NewTensor> Allocate(Description about);
  // Of those with whom something was exchanged, by index.
  std::vector<PeerTransport> Transports() const;
  // Of this member, since `Open`, and of this moment.
  RendezvousCounters Counters() const;

 private:
  explicit Rendezvous(std::shared_ptr<client::RendezvousHub> hub) : hub_(std::move(hub)) {}
  std::shared_ptr<client::RendezvousHub> hub_;
};

}  // namespace lockstep
