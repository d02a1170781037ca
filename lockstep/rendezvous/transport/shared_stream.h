// A stream between two processes of one host: messages in memory that both have mapped, values
// where their sender put them.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/base/mutex.h"
#include "lockstep/platform/runtime/unique_fd.h"
#include "lockstep/rendezvous/transport/arena.h"
#include "lockstep/rendezvous/transport/memory_segment.h"
#include "lockstep/rendezvous/transport/peer_arena.h"
#include "lockstep/rendezvous/transport/peer_memory.h"
#include "lockstep/rendezvous/transport/place.h"
#include "lockstep/rendezvous/transport/ring.h"
#include "lockstep/rendezvous/transport/stream.h"
#include "lockstep/rendezvous/transport/unix_socket.h"
#include "lockstep/rendezvous/value.h"

namespace lockstep::transport {

// Two rings, one each way; a unix socket over which segments of the arenas are passed; the other's
// bell (an eventfd) to wake it when it sleeps.
//
// An end that closes says so by an empty message. Its side of the socket ends when nobody there
// looks at the other's memory any more, or when its process does: then the other may use it again.
//
// Threads: as Stream says; `Poll` takes the mutex only when something has come.
class SharedStream final : public Stream {
 public:
  struct Parts {
    std::shared_ptr<UnixSocket> socket;
    std::unique_ptr<MemorySegment> rings;
    runtime::UniqueFd bell;
  };

  // Memory for both rings, empty.
  static absl::StatusOr<std::unique_ptr<MemorySegment>> MakeRings();
  static absl::StatusOr<std::unique_ptr<MemorySegment>> MapRings(runtime::UniqueFd fd);

  // `first`: this end writes the first ring (it dialed).
  static absl::StatusOr<std::unique_ptr<SharedStream>> Start(Parts parts, bool first, Mutex& mutex,
                                                             Events events);
  ~SharedStream() override;

  void Send(std::string message) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string_view transport() const override { return "shm"; }
  void Close() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool shares_memory() const override { return true; }
  absl::Status Share(const Arena& arena, uint32_t segment) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Unshare(const Arena& arena) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CanSee(uint32_t segment) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::function<bool()> DoneWithOurs() const override;
  absl::StatusOr<rendezvous::MemoryPtr> View(const Place& place, PeerArena::OnGone on_gone) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool Poll() override;
  bool PrepareToSleep() override;
  void Awake() override;

 private:
  class Line;
  class Looking;

  SharedStream(Parts parts, RingWriter writer, RingReader reader, Mutex& mutex, Events events);

  // What has come over the socket. Not OK: it has ended, or what came is wrong.
  absl::Status TakeNotices() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TakeNotice(UnixSocket::Message message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SocketReadable() ABSL_LOCKS_EXCLUDED(mutex_);
  bool ReadAll() ABSL_LOCKS_EXCLUDED(mutex_);
  void WritePending() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False: there is no room.
  bool Write(std::string_view message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RingBell() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Break(absl::Status why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReportLost() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Parts parts_;
  Mutex& mutex_;
  RingReader reader_;  // the loop's

  RingWriter writer_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> pending_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> has_pending_ = false;
  Events events_ ABSL_GUARDED_BY(mutex_);
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);  // not OK: `lost` is due, or was called
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<uint32_t> shared_ ABSL_GUARDED_BY(mutex_);
  PeerMemory memory_ ABSL_GUARDED_BY(mutex_);
  const std::shared_ptr<Looking> looking_;  // views have it, too
};

}  // namespace lockstep::transport
