// A stream between two processes of one host: messages in memory that both have mapped, values
// where their sender put them.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lockstep/platform/runtime/unique_fd.h"
#include "lockstep/rendezvous/transport/arena.h"
#include "lockstep/rendezvous/transport/memory_segment.h"
#include "lockstep/rendezvous/transport/peer_arena.h"
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
  static absl::StatusOr<std::unique_ptr<SharedStream>> Start(Parts parts, bool first,
                                                             std::mutex& mutex, Events events);
  ~SharedStream() override;

  void Send(std::string message) override;
  std::string_view transport() const override { return "shm"; }
  void Close() override;

  bool shares_memory() const override { return true; }
  absl::Status Share(const Arena& arena, uint32_t segment) override;
  void Unshare(const Arena& arena) override;
  absl::Status CanSee(uint32_t segment) override;
  std::function<bool()> DoneWithOurs() const override;
  absl::StatusOr<rendezvous::MemoryPtr> View(const Place& place,
                                             PeerArena::OnGone on_gone) override;

  bool Poll() override;
  bool PrepareToSleep() override;
  void Awake() override;

 private:
  class Line;
  class Looking;

  SharedStream(Parts parts, RingWriter writer, RingReader reader, std::mutex& mutex, Events events);

  // With the mutex: what has come over the socket. Not OK: it has ended, or what came is wrong.
  absl::Status TakeNotices();
  absl::Status TakeNotice(UnixSocket::Message message);
  void SocketReadable();
  bool ReadAll();
  void WritePending();
  // False: there is no room.
  bool Write(std::string_view message);
  void RingBell();
  void Break(absl::Status why);
  void ReportLost();

  const Parts parts_;
  std::mutex& mutex_;
  RingReader reader_;  // the loop's

  // With the mutex.
  RingWriter writer_;
  std::deque<std::string> pending_;
  std::atomic<bool> has_pending_ = false;
  Events events_;
  absl::Status broken_;  // not OK: `lost` is due, or was called
  bool closed_ = false;
  std::set<uint32_t> shared_;
  PeerArena peer_arena_;
  // Not OK: why memory of the other end could not be mapped here.
  absl::Status unseen_;
  const std::shared_ptr<Line> line_;
  const std::shared_ptr<Looking> looking_;  // views have it, too
};

}  // namespace lockstep::transport
